#include "client/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/variable.h"

/* The most options of a command. */
#define FLAGS_MAX 16

enum {
  TEXT_OPTION = 256,
  INSECURE = TEXT_OPTION + PROGRAM_TEXTS,
  JSON,
  COLOR,
  QUIET,
  HELP,
  VERSION
};

static const char letters_of_all[] = "u:j:qhV";
static const struct option flags_of_all[] = {
    {"redis-url", required_argument, NULL, 'u'},
    {"job", required_argument, NULL, 'j'},
    {"job-id", required_argument, NULL, 'j'},
    {"cacert", required_argument, NULL, TEXT_OPTION + PROGRAM_CACERT},
    {"cacertdir", required_argument, NULL, TEXT_OPTION + PROGRAM_CACERTDIR},
    {"cert", required_argument, NULL, TEXT_OPTION + PROGRAM_CERT},
    {"key", required_argument, NULL, TEXT_OPTION + PROGRAM_KEY},
    {"sni", required_argument, NULL, TEXT_OPTION + PROGRAM_SNI},
    {"insecure", no_argument, NULL, INSECURE},
    {"quiet", no_argument, NULL, QUIET},
    {"json", no_argument, NULL, JSON},
    {"color", required_argument, NULL, COLOR},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {NULL, 0, NULL, 0}};

/* The environment shows the key no longer. */
static void take_key(struct program *program) {
  char *key = (char *)variable_read("SANDBOX_HTTP_KEY");
  if (key == NULL)
    return;
  program->key = memory_copy(key, strlen(key));
  explicit_bzero(key, strlen(key));
  (void)unsetenv("SANDBOX_HTTP_KEY");
}

void options_begin(struct program *program) {
  static const char *const variables[PROGRAM_TEXTS] = {
      "REDIS_URL",  "JOB_ID",    "REDIS_CACERT", "REDIS_CACERTDIR",
      "REDIS_CERT", "REDIS_KEY", "REDIS_SNI"};
  for (size_t i = 0; i < PROGRAM_TEXTS; i++)
    program->texts[i] = variable_read(variables[i]);
  const char *url = variable_read("SANDBOX_URL");
  if (url != NULL)
    program->texts[PROGRAM_URL] = url;
  take_key(program);
}

bool options_fail(struct program *program, const char *format, ...) {
  char text[512];
  va_list arguments;
  const char *command = program->command != NULL ? program->command : "";
  const bool is_command = command[0] != '\0';
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  terminal_error(&program->terminal, "%s%s%s; sandbox %s%s--help", command, is_command ? ": " : "",
                 text, command, is_command ? " " : "");
  return false;
}

static bool set_color(struct program *program) {
  static const char *const names[] = {"auto", "always", "never"};
  for (int i = 0; i < 3; i++)
    if (optarg != NULL && strcmp(optarg, names[i]) == 0) {
      terminal_set_colors(&program->terminal, (enum terminal_colors)i);
      return true;
    }
  return options_fail(program, "--color: not auto, always or never: '%.60s'", optarg);
}

/* A password in the URL is overwritten in the arguments, which ps(1) shows. */
static void set_url(struct program *program) {
  free(program->given_url);
  program->texts[PROGRAM_URL] = program->given_url = memory_copy(optarg, strlen(optarg));
  redis_url_redact(optarg);
}

/* Returns whether to go on. */
static bool set_option(struct program *program, int option) {
  if (option == 'u')
    set_url(program);
  else if (option == 'j')
    program->texts[PROGRAM_JOB] = optarg;
  else if (option >= TEXT_OPTION && option < INSECURE)
    program->texts[option - TEXT_OPTION] = optarg;
  else if (option == INSECURE)
    program->tls.insecure = true;
  else if (option == JSON)
    program->json = true;
  else if (option == QUIET || option == 'q')
    program->terminal.quiet = true;
  else if (option == COLOR)
    return set_color(program);
  else
    program->request =
        option == VERSION || option == 'V' ? PROGRAM_SHOWS_VERSION : PROGRAM_SHOWS_HELP;
  return program->request == PROGRAM_RUNS;
}

/* Whether the word is `--name=value` for the option `optopt`, which takes no value. */
static bool has_needless_value(const char *word, const struct option *flags) {
  const size_t length = strcspn(word, "=");
  if (strncmp(word, "--", 2) != 0 || word[length] == '\0')
    return false;
  for (; flags->name != NULL; flags++)
    if (flags->has_arg == no_argument && flags->val == optopt &&
        strncmp(flags->name, word + 2, length - 2) == 0)
      return true;
  return false;
}

/* The last word that was read is a long option, or one with letters. musl also counts the value
   that is missing after a letter, which is NULL. */
static void complain(struct program *program, char **argv, int result, const struct option *flags) {
  const char letter[] = {'-', (char)optopt, '\0'};
  const char *word = argv[optind - 1] != NULL ? argv[optind - 1] : "";
  const bool is_needless = result == '?' && has_needless_value(word, flags);
  const bool is_letter = result == ':' ? strncmp(word, "--", 2) != 0
                                       : !is_needless && optopt > 0 && optopt < TEXT_OPTION;
  const size_t length = is_needless ? strcspn(word, "=") : 60;
  (void)options_fail(program,
                     result == ':' ? "'%.*s' needs a value"
                     : is_needless ? "'%.*s' takes no value"
                                   : "unknown option '%.*s'",
                     (int)length, is_letter ? letter : word);
}

static bool is_of_all(int option) {
  return option >= TEXT_OPTION || (option != ':' && strchr(letters_of_all, option) != NULL);
}

int options_next(struct program *program, int argc, char **argv, const char *letters,
                 const struct option *flags) {
  struct option all[FLAGS_MAX + sizeof flags_of_all / sizeof *flags_of_all];
  char all_letters[64];
  size_t count = 0;
  for (; flags->name != NULL && count < FLAGS_MAX; flags++)
    all[count++] = *flags;
  memcpy(all + count, flags_of_all, sizeof flags_of_all);
  const bool stops = letters[0] == '+'; /* at the first word */
  (void)snprintf(all_letters, sizeof all_letters, "%s:%s%s", stops ? "+" : "", letters + stops,
                 letters_of_all);
  for (;;) {
    optarg = NULL; /* musl leaves it as it is for an option without a value */
    const int option = getopt_long(argc, argv, all_letters, all, NULL);
    if (option == '?' || option == ':') {
      complain(program, argv, option, all);
      return OPTIONS_STOP;
    }
    if (option == OPTIONS_END || !is_of_all(option))
      return option;
    if (!set_option(program, option))
      return OPTIONS_STOP;
  }
}

bool options_words(struct program *program, int argc, char **argv, int min, int max,
                   const char *const *names) {
  const int count = argc - optind;
  if (count < min)
    return options_fail(program, "%s is missing", names[count]);
  if (count > max)
    return options_fail(program, "unexpected word '%.60s'", argv[optind + max]);
  return count == 0 || argv[optind][0] != '\0' || options_fail(program, "%s is empty", names[0]);
}

bool options_none(struct program *program, int argc, char **argv) {
  static const struct option none[] = {{NULL, 0, NULL, 0}};
  optind = 0;
  return options_next(program, argc, argv, "", none) == OPTIONS_END &&
         options_words(program, argc, argv, 0, 0, (const char *[]){NULL});
}
