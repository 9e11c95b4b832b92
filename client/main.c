#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/loop.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/redis/job.h"
#include "wire/version.h"

struct command {
  const char *name, *help;
  const char *usage; /* what follows the name; "": the command takes no arguments */
  command_function *run;
  bool needs_job;
  /* Only for a command that takes another one: the letters of its options that have a value. NULL:
     the flags of `sandbox` may stand anywhere. */
  const char *value_options;
};

static const struct command commands[] = {
    {"run", "run a command; show its output and exit with its code",
     "[-w DIR] [-e NAME[=VALUE]]... [-t SECONDS] [-i] [--detach] [--id GUID] -- COMMAND...\n"
     "       sandbox run ... -c SCRIPT",
     run_command, true, "wetc"},
    {"follow", "show the output of steps live; with an ID, exit with its code",
     "[-n LINES] [--since 30s|5m|2h] [--timestamps] [--all]\n"
     "       sandbox follow ID [-n LINES] [--since 5m] [--timestamps] [--html FILE] [--cast FILE]",
     follow_command, true, NULL},
    {"ps", "list the running step and the waiting steps", "", ps_command, true, NULL},
    {"cancel", "cancel steps by ID or unique prefix", "ID | --running | --waiting | --all",
     cancel_command, true, NULL},
    {"read", "print a file; with -l, print numbered lines", "PATH [-l FROM[:COUNT]]", read_command,
     true, NULL},
    {"write", "write standard input to a file", "PATH < FILE", write_command, true, NULL},
    {"edit", "replace a unique text in a file, or each one with --all", "PATH OLD NEW [--all]",
     edit_command, true, NULL},
    {"ls", "list a directory: type, size, name", "[PATH]", ls_command, true, NULL},
    {"grep", "search files: path:line:text; exit with 1 if nothing matches",
     "PATTERN [PATH] [-g GLOB] [-i]", grep_command, true, NULL},
    {"tree", "draw a directory tree", "[PATH]", tree_command, true, NULL},
    {"cp", "copy a file or directory into or out of the sandbox",
     "SRC DST    (:PATH is in the sandbox)", cp_command, true, NULL},
    {"top", "show what jobs use: CPU, memory, steps per minute", "", top_command, false, NULL},
    {"jobs", "list the jobs that have an agent", "", jobs_command, false, NULL},
    {"shutdown", "stop the agent after its steps, or now", "[--now]", shutdown_command, true, NULL},
    {"doctor", "diagnose problems and suggest fixes", "", doctor_command, false, NULL},
};
#define COMMANDS (sizeof commands / sizeof *commands)

/* Together with the command line and the next prompt, the help fits 24 lines of 80 columns. */
static const char head[] = "Usage: sandbox [-u URL] [-j JOB] [OPTION]... COMMAND [ARGUMENT]...\n"
                           "sandbox COMMAND --help shows the usage of a command.\n";

static const char tail[] =
    "\n"
    "  -u, --redis-url URL  Redis [REDIS_URL]; the TLS options are those of the agent\n"
    "  -j, --job JOB        the job [JOB_ID]; default: the only one that is alive\n"
    "  --json  one JSON value per line;  -q  only errors;  --color auto|always|never\n"
    "Exit codes: the command's; 124 timed out, 125 not run or unknown, 130 cancelled\n";

static void print_help(FILE *out) {
  (void)fputs(head, out);
  for (size_t i = 0; i < COMMANDS; i++)
    (void)fprintf(out, "  %-10s%s\n", commands[i].name, commands[i].help);
  (void)fputs(tail, out);
}

static void print_usage(FILE *out, const struct command *command) {
  (void)fprintf(out, "usage: sandbox %s%s%s\n", command->name, command->usage[0] != '\0' ? " " : "",
                command->usage);
}

static const struct command *find_command(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(commands[i].name, name) == 0)
      return &commands[i];
  return NULL;
}

/* --- options ---------------------------------------------------------------------------------- */

/* Options with a text have an environment variable, too. */
enum { URL, JOB, CACERT, CACERTDIR, CERT, KEY, SNI, TEXTS };
static const char *const variables[TEXTS] = {"REDIS_URL",       "JOB_ID",     "REDIS_CACERT",
                                             "REDIS_CACERTDIR", "REDIS_CERT", "REDIS_KEY",
                                             "REDIS_SNI"};

enum { TEXT_OPTION = 256, INSECURE = TEXT_OPTION + TEXTS, JSON, COLOR, HELP, VERSION };

struct settings {
  const char *texts[TEXTS];
  char *late_url; /* a URL behind the command; NULL: none */
  enum terminal_colors colors;
  bool quiet;
};

/* Files and Secrets often end with a line break, which belongs to no value. */
static void read_variables(struct settings *settings) {
  for (size_t i = 0; i < TEXTS; i++) {
    char *value = getenv(variables[i]);
    size_t length = value != NULL ? strlen(value) : 0;
    if (length > 0 && value[length - 1] == '\n') {
      length -= length > 1 && value[length - 2] == '\r' ? 2 : 1;
      value[length] = '\0';
    }
    settings->texts[i] = length > 0 ? value : NULL;
  }
}

static int set_color(struct settings *settings, const char *name) {
  static const char *const names[] = {"auto", "always", "never"};
  for (int i = 0; i < 3; i++)
    if (strcmp(name, names[i]) == 0) {
      settings->colors = (enum terminal_colors)i;
      return 0;
    }
  return -1;
}

/* Returns 0, or -1 for wrong usage. */
static int set_option(struct program *self, struct settings *settings, int option) {
  if (option >= TEXT_OPTION && option < TEXT_OPTION + TEXTS)
    settings->texts[option - TEXT_OPTION] = optarg;
  else if (option == INSECURE)
    self->tls.insecure = true;
  else if (option == JSON)
    self->json = true;
  else if (option == 'q')
    settings->quiet = true;
  else
    return option == COLOR ? set_color(settings, optarg) : -1;
  return 0;
}

/* Returns the index of the command's name or, without one, argc. Returns -1 for wrong usage, and -2
   if nothing remains to be done, as after --help. */
static int read_options(struct program *self, struct settings *settings, int argc, char **argv) {
  static const struct option options[] = {
      {"redis-url", required_argument, NULL, TEXT_OPTION + URL},
      {"job", required_argument, NULL, TEXT_OPTION + JOB},
      {"cacert", required_argument, NULL, TEXT_OPTION + CACERT},
      {"cacertdir", required_argument, NULL, TEXT_OPTION + CACERTDIR},
      {"cert", required_argument, NULL, TEXT_OPTION + CERT},
      {"key", required_argument, NULL, TEXT_OPTION + KEY},
      {"sni", required_argument, NULL, TEXT_OPTION + SNI},
      {"insecure", no_argument, NULL, INSECURE},
      {"quiet", no_argument, NULL, 'q'},
      {"json", no_argument, NULL, JSON},
      {"color", required_argument, NULL, COLOR},
      {"help", no_argument, NULL, HELP},
      {"version", no_argument, NULL, VERSION},
      {NULL, 0, NULL, 0}};
  read_variables(settings);
  for (int option; (option = getopt_long(argc, argv, "+u:j:qh", options, NULL)) != -1;) {
    option = option == 'u' ? TEXT_OPTION + URL : option == 'j' ? TEXT_OPTION + JOB : option;
    if (option == 'h' || option == HELP) {
      print_help(stdout);
      return -2;
    }
    if (option == VERSION) {
      (void)printf("sandbox %s\n", SANDBOX_VERSION);
      return -2;
    }
    if (set_option(self, settings, option) != 0)
      return -1;
  }
  return optind;
}

static bool is_flag(const char *word, const char *name, const char *other) {
  return strcmp(word, name) == 0 || strcmp(word, other) == 0;
}

/* Whether the next word is the value of this option of the command. */
static bool has_value(const struct command *command, const char *word) {
  const bool is_long = strncmp(word, "--", 2) == 0;
  return is_long ? strcmp(word, "--id") == 0
                 : word[1] != '\0' && word[2] == '\0' &&
                       strchr(command->value_options, word[1]) != NULL;
}

/* Takes the flags that may also follow the command, except after "--" and after the first word of a
   command that is run. Returns how many words are left. */
static int take_late_flags(struct program *self, struct settings *settings,
                           const struct command *command, int argc, char **argv) {
  const bool takes_command = command->value_options != NULL;
  int kept = 1, at = 1;
  for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
    const bool has_next = at + 1 < argc;
    if (takes_command && argv[at][0] != '-')
      break;
    if (strcmp(argv[at], "--json") == 0)
      self->json = true;
    else if (is_flag(argv[at], "-q", "--quiet"))
      self->terminal.quiet = true;
    else if (is_flag(argv[at], "-j", "--job") && has_next)
      settings->texts[JOB] = argv[++at];
    else if (is_flag(argv[at], "-u", "--redis-url") && has_next)
      settings->texts[URL] = settings->late_url = argv[++at];
    else if ((argv[kept++] = argv[at])[0] == '-' && takes_command && has_next &&
             has_value(command, argv[at]))
      argv[kept++] = argv[++at];
  }
  while (at < argc)
    argv[kept++] = argv[at++];
  argv[kept] = NULL;
  return kept;
}

/* Parses the URL. A password in it is overwritten in the arguments, which ps(1) shows. */
static int read_url(struct program *self, const struct settings *settings, int argc, char **argv,
                    struct error *error) {
  if (settings->texts[URL] == NULL)
    return error_set(error, "no Redis URL: pass -u URL, or set REDIS_URL");
  int result = redis_url_parse(&self->url, settings->texts[URL], error);
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

static void say_away(void *owner, const struct error *why) {
  struct program *self = owner;
  terminal_say(&self->terminal, COLOR_YELLOW, "%s; retrying for up to %d s", why->text,
               PIPELINE_TIMEOUT_MS / 1000);
}

static int connect_and_run(struct program *self, const struct command *command, int argc,
                           char **argv) {
  struct error error;
  char name[64];
  (void)snprintf(name, sizeof name, "sandbox-%s", command->name);
  self->base = loop_event_base_new();
  self->redis = pipeline_new(self->base, &self->url, name);
  pipeline_on_away(self->redis, say_away, self);
  int code = COMMAND_USAGE;
  if (command->usage[0] != '\0' || argc == 1)
    code = command->needs_job && job_choose(self, &error) != 0
               ? terminal_fail(&self->terminal, &error)
               : command->run(self, argc, argv);
  pipeline_free(self->redis);
  event_base_free(self->base);
  if (self->has_keys)
    keys_release(&self->keys);
  free(self->found_job);
  return code;
}

/* `argv[0]` to `argv[at - 1]` are the options before the command. */
static int run_command_at(struct program *self, struct settings *settings, int argc, char **argv,
                          int at) {
  struct error error;
  const struct command *command = find_command(argv[at]);
  if (command == NULL) {
    terminal_error(&self->terminal, "unknown command '%.60s'; sandbox --help lists them", argv[at]);
    return EXIT_USAGE;
  }
  if (at + 1 < argc && strcmp(argv[at + 1], "--help") == 0) {
    print_usage(stdout, command);
    return 0;
  }
  const int words = take_late_flags(self, settings, command, argc - at, argv + at);
  self->job = settings->texts[JOB];
  self->tls.ca_file = settings->texts[CACERT];
  self->tls.ca_directory = settings->texts[CACERTDIR];
  self->tls.certificate = settings->texts[CERT];
  self->tls.key = settings->texts[KEY];
  self->tls.name = settings->texts[SNI];
  if (read_url(self, settings, at, argv, &error) != 0) {
    const int code = terminal_fail(&self->terminal, &error);
    return settings->texts[URL] == NULL ? EXIT_USAGE : code;
  }
  int code = connect_and_run(self, command, words, argv + at);
  if (code == COMMAND_USAGE) {
    print_usage(stderr, command);
    code = EXIT_USAGE;
  }
  tls_free(self->url.tls);
  redis_url_release(&self->url);
  return code;
}

/* A full disk is an error. A reader such as head(1) that has read enough is not. */
static int flush_output(struct program *self, int code) {
  terminal_reset_colors(&self->terminal);
  if (terminal_flush(&self->terminal) == 0 || code != 0 || terminal_reader_is_gone())
    return code;
  terminal_error(&self->terminal, "cannot write to standard output");
  return EXIT_CLIENT;
}

/* Otherwise the first file or connection that is opened would become standard input, output or
   error. Standard output is opened for reading, so that writing to it still fails. */
static void open_closed_descriptors(void) {
  static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      (void)open("/dev/null", modes[fd]); /* returns the lowest free descriptor */
}

int main(int argc, char **argv) {
  struct program program = {0};
  struct settings settings = {0};
  /* In a pod, steps have the same user. They must not read the password from /proc. */
  (void)prctl(PR_SET_DUMPABLE, 0);
  open_closed_descriptors();
  (void)signal(SIGPIPE, SIG_IGN);
  terminal_buffer();
  int at = read_options(&program, &settings, argc, argv);
  terminal_init(&program.terminal, settings.colors, settings.quiet);
  if (at == -2)
    return flush_output(&program, 0);
  if (at < 0 || at == argc) {
    if (at == argc)
      print_help(stderr);
    return EXIT_USAGE;
  }
  return flush_output(&program, run_command_at(&program, &settings, argc, argv, at));
}
