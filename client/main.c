#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/loop.h"
#include "client/exit_code.h"
#include "client/program.h"
#include "client/redis/job.h"
#include "wire/version.h"

static const struct command *const commands[] = {
    &run_command,  &follow_command,   &ps_command,     &cancel_command,
    &read_command, &write_command,    &edit_command,   &ls_command,
    &grep_command, &tree_command,     &cp_command,     &top_command,
    &jobs_command, &shutdown_command, &doctor_command, NULL};

/* What needs an agent that can start a step beside others. */
static const char *const later[] = {"exec", "sh", "start", "wait", "signal"};

/* With the line that was typed and the next prompt it fits 24 lines of 80 columns. */
static const char head[] = "Usage: sandbox [-u URL] [-j JOB] [OPTION]... COMMAND [ARGUMENT]...\n"
                           "sandbox COMMAND --help says how that one is used.\n";

static const char tail[] =
    "\n"
    "  -u, --redis-url URL  the Redis of the job [REDIS_URL]; TLS as the agent\n"
    "  -j, --job JOB        the job [JOB_ID]; without it the only one that is alive\n"
    "  --json  one JSON value a line;  -q  only errors;  --color auto|always|never\n"
    "Exit codes: the command's; 124 timed out, 125 not run or unknown, 130 cancelled\n";

static void print_help(FILE *out) {
  (void)fputs(head, out);
  for (size_t i = 0; commands[i] != NULL; i++)
    (void)fprintf(out, "  %-10s%s\n", commands[i]->name, commands[i]->help);
  (void)fputs(tail, out);
}

static void print_usage(FILE *out, const struct command *command) {
  (void)fprintf(out, "usage: sandbox %s%s%s\n", command->name, command->usage[0] != '\0' ? " " : "",
                command->usage);
}

int program_usage(const struct command *command) {
  print_usage(stderr, command);
  return EXIT_USAGE;
}

static const struct command *find_command(const char *name) {
  for (size_t i = 0; commands[i] != NULL; i++)
    if (strcmp(commands[i]->name, name) == 0)
      return commands[i];
  return NULL;
}

/* --- options ---------------------------------------------------------------------------------- */

enum { CACERT = 256, CACERTDIR, CERT, KEY, SNI, INSECURE, JSON, COLOR, HELP, VERSION };

struct settings {
  const char *url;
  char *late_url; /* the same, where it stands behind the command; NULL: it does not */
  enum terminal_colors colors;
  bool quiet;
};

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

static void read_variables(struct program *self, struct settings *settings) {
  settings->url = variable("REDIS_URL");
  self->job = variable("JOB_ID");
  self->tls = (struct tls_options){.ca_file = variable("REDIS_CACERT"),
                                   .ca_directory = variable("REDIS_CACERTDIR"),
                                   .certificate = variable("REDIS_CERT"),
                                   .key = variable("REDIS_KEY"),
                                   .name = variable("REDIS_SNI")};
}

/* Returns 0, or -1 for wrong usage. */
static int take_option(struct program *self, struct settings *settings, int option) {
  static const char *const colors[] = {"auto", "always", "never"};
  switch (option) {
  case 'u':
    settings->url = optarg;
    return 0;
  case 'j':
    self->job = optarg;
    return 0;
  case 'q':
    settings->quiet = true;
    return 0;
  case JSON:
    self->json = true;
    return 0;
  case CACERT:
    self->tls.ca_file = optarg;
    return 0;
  case CACERTDIR:
    self->tls.ca_directory = optarg;
    return 0;
  case CERT:
    self->tls.certificate = optarg;
    return 0;
  case KEY:
    self->tls.key = optarg;
    return 0;
  case SNI:
    self->tls.name = optarg;
    return 0;
  case INSECURE:
    self->tls.insecure = true;
    return 0;
  case COLOR:
    for (int i = 0; i < 3; i++)
      if (strcmp(optarg, colors[i]) == 0) {
        settings->colors = (enum terminal_colors)i;
        return 0;
      }
    return -1;
  default:
    return -1;
  }
}

/* Returns the index of the command's name; argc when there is none; -1 for wrong usage; -2 when all
   is done, as for --help. */
static int read_options(struct program *self, struct settings *settings, int argc, char **argv) {
  static const struct option options[] = {{"redis-url", required_argument, NULL, 'u'},
                                          {"job", required_argument, NULL, 'j'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"json", no_argument, NULL, JSON},
                                          {"color", required_argument, NULL, COLOR},
                                          {"cacert", required_argument, NULL, CACERT},
                                          {"cacertdir", required_argument, NULL, CACERTDIR},
                                          {"cert", required_argument, NULL, CERT},
                                          {"key", required_argument, NULL, KEY},
                                          {"sni", required_argument, NULL, SNI},
                                          {"insecure", no_argument, NULL, INSECURE},
                                          {"help", no_argument, NULL, HELP},
                                          {"version", no_argument, NULL, VERSION},
                                          {NULL, 0, NULL, 0}};
  read_variables(self, settings);
  for (int option; (option = getopt_long(argc, argv, "+u:j:qh", options, NULL)) != -1;) {
    if (option == 'h' || option == HELP) {
      print_help(stdout);
      return -2;
    }
    if (option == VERSION) {
      (void)printf("sandbox %s\n", SANDBOX_VERSION);
      return -2;
    }
    if (take_option(self, settings, option) != 0)
      return -1;
  }
  return optind;
}

static bool is_flag(const char *word, const char *name, const char *other) {
  return strcmp(word, name) == 0 || strcmp(word, other) == 0;
}

/* An option of the command whose value is the next word. */
static bool has_value(const struct command *command, const char *word) {
  bool is_long = strncmp(word, "--", 2) == 0;
  return is_long ? strcmp(word, "--id") == 0
                 : word[1] != '\0' && word[2] == '\0' && strchr(command->before, word[1]) != NULL;
}

/* These flags may stand behind the command, too; not behind "--", nor behind the first word of what
   is run. Takes them out; returns how many words are left. */
static int take_flags(struct program *self, struct settings *settings,
                      const struct command *command, int argc, char **argv) {
  int kept = 1, at = 1;
  for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
    bool has_next = at + 1 < argc;
    if (command->before != NULL && argv[at][0] != '-')
      break;
    if (strcmp(argv[at], "--json") == 0)
      self->json = true;
    else if (is_flag(argv[at], "-q", "--quiet"))
      self->terminal.quiet = true;
    else if (is_flag(argv[at], "-j", "--job") && has_next)
      self->job = argv[++at];
    else if (is_flag(argv[at], "-u", "--redis-url") && has_next)
      settings->url = settings->late_url = argv[++at];
    else if ((argv[kept++] = argv[at])[0] == '-' && command->before != NULL && has_next &&
             has_value(command, argv[at]))
      argv[kept++] = argv[++at];
  }
  while (at < argc)
    argv[kept++] = argv[at++];
  argv[kept] = NULL;
  return kept;
}

/* The URL as it is connected to. What others can see of it is overwritten. */
static int read_url(struct program *self, const struct settings *settings, int argc, char **argv,
                    struct error *error) {
  if (settings->url == NULL)
    return error_set(error, "no Redis: pass -u URL, or set REDIS_URL");
  int result = redis_url_parse(&self->url, settings->url, error);
  for (int i = 1; i < argc; i++)
    redis_url_redact(argv[i]);
  if (settings->late_url != NULL)
    redis_url_redact(settings->late_url);
  if (result != 0 || !self->url.secure)
    return result;
  self->url.tls = tls_new(&self->tls, error);
  return self->url.tls != NULL ? 0 : -1;
}

/* --- a command -------------------------------------------------------------------------------- */

static int run_found(struct program *self, const struct command *command, int argc, char **argv) {
  struct error error;
  char name[64];
  (void)snprintf(name, sizeof name, "sandbox-%s", command->name);
  self->base = loop_event_base_new();
  self->redis = pipeline_new(self->base, &self->url, name);
  int code = EXIT_CLIENT;
  if (command->needs_job && job_choose(self, &error) != 0)
    terminal_error(&self->terminal, "%s", error.text);
  else
    code = command->run(self, argc, argv);
  pipeline_free(self->redis);
  event_base_free(self->base);
  if (self->has_keys)
    keys_release(&self->keys);
  free(self->found_job);
  return code;
}

static int run_named(struct program *self, struct settings *settings, int argc, char **argv,
                     int at) {
  struct error error;
  const struct command *command = find_command(argv[at]);
  for (size_t i = 0; i < sizeof later / sizeof *later; i++)
    if (strcmp(argv[at], later[i]) == 0) {
      terminal_error(&self->terminal, "%s needs an agent with start", later[i]);
      return EXIT_CLIENT;
    }
  if (command == NULL) {
    terminal_error(&self->terminal, "unknown command '%.60s'; sandbox --help lists them", argv[at]);
    return EXIT_USAGE;
  }
  if (at + 1 < argc && strcmp(argv[at + 1], "--help") == 0) {
    print_usage(stdout, command);
    return 0;
  }
  const int words = take_flags(self, settings, command, argc - at, argv + at);
  if (read_url(self, settings, at, argv, &error) != 0) {
    terminal_error(&self->terminal, "%s", error.text);
    return settings->url == NULL ? EXIT_USAGE : EXIT_CLIENT;
  }
  int code = run_found(self, command, words, argv + at);
  tls_free(self->url.tls);
  redis_url_release(&self->url);
  return code;
}

/* What was not written, as on a full disk, was not done. Who reads no further, as head(1), has
   enough. */
static int end_output(struct program *self, int code) {
  if (terminal_flush(&self->terminal) == 0 || code != 0 || terminal_reader_is_gone())
    return code;
  terminal_error(&self->terminal, "standard output: it could not be written to");
  return EXIT_CLIENT;
}

/* What is closed would be given to the first file or connection that is opened. Without a standard
   output writing goes on to fail. */
static void open_missing(void) {
  static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      (void)open("/dev/null", modes[fd]); /* the lowest that is free */
}

int main(int argc, char **argv) {
  struct program program = {0};
  struct settings settings = {0};
  /* In a pod it has the user of the steps, and the password in its environment: they do not read
     /proc then. */
  (void)prctl(PR_SET_DUMPABLE, 0);
  open_missing();
  (void)signal(SIGPIPE, SIG_IGN);
  terminal_buffer();
  int at = read_options(&program, &settings, argc, argv);
  terminal_init(&program.terminal, settings.colors, settings.quiet);
  if (at == -2)
    return end_output(&program, 0);
  if (at < 0 || at == argc) {
    if (at == argc)
      print_help(stderr);
    return EXIT_USAGE;
  }
  int code = run_named(&program, &settings, argc, argv, at);
  return end_output(&program, code);
}
