#include "agent/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/pace.h"
#include "agent/engine/lines.h"
#include "base/memory.h"

/* When a setting counts. An action is none: it says what the program does, and has no variable. */
enum scope { ACTION, ALWAYS, WITH_REDIS };

struct setting {
  const char *flag;
  const char *argument; /* its name in --help; NULL: it takes none */
  const char *variable; /* NULL: SANDBOX_ and the flag in capitals */
  const char *alias;    /* a variable that counts where that is not set; NULL: none */
  enum scope scope;
  enum options_action action; /* of an ACTION */
  /* Converts the value and puts it at the offset; `source` is the flag or the variable. */
  int (*parse)(struct options *self, const struct setting *setting, const char *source,
               const char *value, struct error *error);
  size_t offset;
  unsigned long long least, most, initial; /* of a number */
  const char *help;
};

static int parse_number(struct options *self, const struct setting *setting, const char *source,
                        const char *value, struct error *error) {
  char *end;
  errno = 0;
  unsigned long long number = strtoull(value, &end, 10);
  if (!isdigit((unsigned char)value[0]) || *end != '\0' || errno != 0 || number < setting->least ||
      number > setting->most)
    return error_set(error, "%s: expected a whole number from %llu to %llu, got '%.40s'", source,
                     setting->least, setting->most, value);
  *(unsigned long long *)(void *)((char *)self + setting->offset) = number;
  return 0;
}

static int parse_text(struct options *self, const struct setting *setting, const char *source,
                      const char *value, struct error *error) {
  (void)source;
  (void)error;
  if (value[0] != '\0')
    *(char **)(void *)((char *)self + setting->offset) = memory_copy(value, strlen(value));
  return 0;
}

static int parse_switch(struct options *self, const struct setting *setting, const char *source,
                        const char *value, struct error *error) {
  bool on = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
  if (!on && strcmp(value, "0") != 0 && strcmp(value, "false") != 0)
    return error_set(error, "%s: expected 1, true, 0 or false, got '%.40s'", source, value);
  *((bool *)self + setting->offset) = on;
  return 0;
}

/* The parser's own error says what is wrong, and shows no password. */
static int parse_url(struct options *self, const struct setting *setting, const char *source,
                     const char *value, struct error *error) {
  struct error reason;
  if (value[0] == '\0' || redis_url_parse(&self->redis, value, &reason) == 0)
    return 0;
  bool is_variable = strcmp(source, setting->variable) == 0;
  return error_set(error, "%s%s%s", is_variable ? source : "", is_variable ? ": " : "",
                   reason.text);
}

static int parse_target(struct options *self, const struct setting *setting, const char *source,
                        const char *value, struct error *error) {
  if (value[0] == '\0')
    return error_set(error, "%s: expected a file or a directory, got nothing", source);
  return parse_text(self, setting, source, value, error);
}

/* The default number of idle cycles; the sandboxes of a run may wait for their turn. */
enum { IDLE_CYCLES = 5, IDLE_CYCLES_OF_A_RUN = 30 };

/* What the server has that this program was made for. */
#define RUN_SET_DEFAULT "agentsmith:runs:active"

#define KEY_TTL_MAX_SECONDS (100ULL * 365 * 24 * 3600)

#define AT(FIELD) .offset = offsetof(struct options, FIELD)
#define NUMBER(FIELD, LEAST, MOST, INITIAL)                                                        \
  .parse = parse_number, AT(FIELD), .least = (LEAST), .most = (MOST), .initial = (INITIAL)

/* The bounds: a thousand years of idle time, more memory than a container has, and a hundred
   years, which Redis can add to its clock in milliseconds without an overflow. */
static const struct setting settings[] = {
    {"redis-url", "URL", "REDIS_URL", NULL, WITH_REDIS, .parse = parse_url,
     .help = "redis://[user:password@]host[:port][/db],\n"
             "redis+sentinel://[user:password@]host[:port],.../master-name[/db],\n"
             "unix://[user:password@]/path/to/socket[?db=n],\n"
             "or host[:port][,password=...,user=...,defaultDatabase=n]"},
    {"job-id", "ID", "JOB_ID", NULL, ALWAYS, .parse = parse_text, AT(job_id),
     .help = "the job whose steps this agent runs"},
    {"run-id", "ID", NULL, "AGENTSMITH_RUN_ID", WITH_REDIS, .parse = parse_text, AT(run_id),
     .help = "at the idle limit, keep waiting while this run is a member of the\n"
             "set --run-set"},
    {"run-set", "KEY", NULL, NULL, WITH_REDIS, .parse = parse_text, AT(run_set),
     .help = "the Redis set of the runs that are alive, default " RUN_SET_DEFAULT},
    {"idle-cycles", "N", NULL, "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES", WITH_REDIS,
     NUMBER(idle_cycles, 1, 525600000, 0),
     .help = "exit after N times 60 s without a step, default 5, or 30 with a run"},
    {"connect-timeout", "SECONDS", NULL, NULL, WITH_REDIS,
     NUMBER(connect_timeout_seconds, 1, 1000000000, 0),
     .help = "exit with 3 when Redis cannot be reached at boot for this long;\n"
             "default: wait for it until the idle limit"},
    {"events-maxlen", "N", NULL, NULL, WITH_REDIS, NUMBER(events_maxlen, 0, 1ULL << 62, 10000),
     .help = "trim the event stream to about N entries, default 10000; 0: no limit"},
    {"events-keep-bytes", "N", NULL, NULL, WITH_REDIS,
     NUMBER(events_keep_bytes, 0, 1ULL << 40, 8ULL * 1024 * 1024),
     .help = "keep events beyond that for 5 s, up to N bytes of them, for readers\n"
             "that poll, default 8388608; 0: trim at once"},
    {"events-pace", "N", NULL, NULL, WITH_REDIS, NUMBER(events_pace, 0, PACE_MAX, 0),
     .help = "after a burst of --events-maxlen events, read the output of a command\n"
             "at N lines a second, for readers that need every event; 0: no limit"},
    {"hold-bytes", "N", NULL, NULL, WITH_REDIS,
     NUMBER(hold_bytes, 65536, 1ULL << 40, 4ULL * 1024 * 1024),
     .help = "queue up to N bytes of output that Redis has not acknowledged; beyond\n"
             "that the command waits; default 4194304"},
    {"line-bytes", "N", NULL, NULL, ALWAYS,
     NUMBER(line_bytes, LINE_BYTES_MIN, LINE_BYTES_MAX, LINE_BYTES_DEFAULT),
     .help = "a line of more than N bytes arrives in pieces, default 1048576"},
    {"key-ttl", "SECONDS", NULL, NULL, WITH_REDIS,
     NUMBER(key_ttl_seconds, 0, KEY_TTL_MAX_SECONDS, 604800),
     .help = "time to live of the job's keys, which a running agent refreshes,\n"
             "default 604800; 0: they do not expire"},
    {"once", NULL, NULL, NULL, ACTION, OPTIONS_ONCE,
     .help = "run the one Step on standard input, without Redis; write its events\n"
             "and its result to standard output, a line each, and exit with its code"},
    {"inject", "TARGET", NULL, NULL, ACTION, OPTIONS_INJECT, .parse = parse_target,
     AT(inject_target), .help = "copy this program to TARGET, a file or a directory, and exit"},
    {"dumpable", NULL, NULL, NULL, ALWAYS, .parse = parse_switch, AT(dumpable),
     .help = "let debuggers of the same user attach to the agent (gdb, strace), and\n"
             "any of its processes read its memory, passwords included"},
    {"verbose", NULL, NULL, NULL, ALWAYS, .parse = parse_switch, AT(verbose),
     .help = "log at debug level, every line of output included"},
    {"help", NULL, NULL, NULL, ACTION, OPTIONS_HELP, .help = "show this and exit"},
    {"version", NULL, NULL, NULL, ACTION, OPTIONS_VERSION,
     .help = "show the version and those of the linked libraries, and exit"},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

static const char help_begin[] =
    "Usage: agent --redis-url URL --job-id ID [OPTION]...\n"
    "       agent --once [--job-id ID] [--line-bytes N] [--verbose] <STEP\n"
    "       agent --inject TARGET\n"
    "Takes Steps from the Redis list sandbox:ID:in, runs them, and reports to\n"
    "sandbox:ID:events and sandbox:ID:results, until a shutdown step or a signal stops it.\n"
    "\n";

static const char help_end[] =
    "\n"
    "Instead of a flag, but for --once, --inject, --help and --version, an environment variable\n"
    "can be set: the one in [brackets], or else SANDBOX_ and the name in capitals, like\n"
    "SANDBOX_EVENTS_MAXLEN=20000 and SANDBOX_VERBOSE=1. A flag wins over its variable; an empty\n"
    "variable is none.\n"
    "Exit codes: 0 shutdown step, or injected; 2 idle limit; 3 an error that cannot be recovered\n"
    "from; 64 wrong usage; 128+N stopped by signal N. With --once: the step's exit code; 124 "
    "timed\n"
    "out; 125 refused or not started; 141 nobody reads the output.\n";

/* The longest: SANDBOX_EVENTS_KEEP_BYTES, and two flags. */
struct name {
  char text[80];
};

static struct name variable_of(const struct setting *setting) {
  struct name name;
  if (setting->variable != NULL) {
    (void)snprintf(name.text, sizeof name.text, "%s", setting->variable);
    return name;
  }
  (void)snprintf(name.text, sizeof name.text, "SANDBOX_%s", setting->flag);
  for (char *at = name.text; *at != '\0'; at++)
    *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
  return name;
}

/* The column of the texts in --help. */
enum { HELP_COLUMN = 26 };

static void print_setting(FILE *out, const struct setting *setting) {
  int at = fprintf(out, "  --%s%s%s", setting->flag, setting->argument != NULL ? " " : "",
                   setting->argument != NULL ? setting->argument : "");
  if (at >= HELP_COLUMN)
    at = fprintf(out, "\n") - 1;
  for (const char *line = setting->help; line != NULL; at = 0) {
    const char *end = strchr(line, '\n');
    (void)fprintf(out, "%*s%.*s", HELP_COLUMN - at, "",
                  end != NULL ? (int)(end - line) : (int)strlen(line), line);
    line = end != NULL ? end + 1 : NULL;
    if (line != NULL)
      (void)fputc('\n', out);
  }
  if (setting->variable != NULL)
    (void)fprintf(out, "\n%*s[%s]", HELP_COLUMN, "", setting->variable);
  if (setting->alias != NULL)
    (void)fprintf(out, "\n%*s[%s, or %s]", HELP_COLUMN, "", variable_of(setting).text,
                  setting->alias);
  (void)fputc('\n', out);
}

void options_print_help(FILE *out) {
  (void)fputs(help_begin, out);
  for (size_t i = 0; i < SETTINGS; i++)
    print_setting(out, &settings[i]);
  (void)fputs(help_end, out);
}

/* The values of getopt_long, above every letter. */
enum { FIRST_FLAG = 256 };

static int unexpected(struct error *error, const char *what, const char *argument) {
  /* It may be a URL without --redis-url before it. The whole text is redacted and then cut, since
     in a part of a URL the password could not be found. */
  char *shown = memory_copy(argument, strlen(argument));
  redis_url_redact(shown);
  (void)error_set(error, "%s '%.99s'", what, shown);
  free(shown);
  return -1;
}

static int unknown(struct error *error, const char *argument) {
  /* In -xyz each letter is an option, and optind is not after the argument yet. */
  char letter[] = {'-', (char)optopt, '\0'};
  if (optopt > 0 && optopt < FIRST_FLAG)
    argument = letter;
  return unexpected(error, optopt >= FIRST_FLAG ? "no value is expected in" : "unknown option",
                    argument);
}

static int read_flags(struct options *self, const char *given[SETTINGS], int argc, char **argv,
                      struct error *error) {
  struct option flags[SETTINGS + 1] = {{0}};
  for (int i = 0; i < SETTINGS; i++)
    flags[i] = (struct option){
        .name = settings[i].flag, .has_arg = settings[i].argument != NULL, .val = FIRST_FLAG + i};
  opterr = 0;
  optind = 0;
  for (int flag; (flag = getopt_long(argc, argv, ":", flags, NULL)) != -1;) {
    if (flag == ':')
      return unexpected(error, "a value is missing after", argv[optind - 1]);
    if (flag < FIRST_FLAG)
      return unknown(error, argv[optind - 1]);
    const struct setting *setting = &settings[flag - FIRST_FLAG];
    given[flag - FIRST_FLAG] = setting->argument != NULL ? optarg : "1";
    if (setting->scope == ACTION)
      self->action = setting->action;
    if (self->action == OPTIONS_HELP || self->action == OPTIONS_VERSION)
      return 0;
  }
  return optind < argc ? unexpected(error, "unexpected argument", argv[optind]) : 0;
}

/* An empty variable counts as one that is not set, as manifests often have it. */
static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

/* What the setting is given, or NULL, and by what. */
static const char *value_of(const struct setting *setting, const char *flag, struct name *source) {
  if (flag != NULL || setting->scope == ACTION) {
    (void)snprintf(source->text, sizeof source->text, "--%s", setting->flag);
    return flag;
  }
  *source = variable_of(setting);
  const char *value = variable(source->text);
  if (value != NULL || setting->alias == NULL)
    return value;
  (void)snprintf(source->text, sizeof source->text, "%s", setting->alias);
  return variable(setting->alias);
}

static bool counts(const struct options *self, const struct setting *setting) {
  if (setting->scope == ACTION)
    return setting->action == self->action && setting->parse != NULL;
  return self->action == OPTIONS_RUN || (self->action == OPTIONS_ONCE && setting->scope == ALWAYS);
}

static int convert(struct options *self, const struct setting *setting, const char *flag,
                   struct error *error) {
  if (setting->parse == parse_number)
    *(unsigned long long *)(void *)((char *)self + setting->offset) = setting->initial;
  if (!counts(self, setting)) {
    /* What a pod sets for all of its programs is no mistake; what somebody types is. */
    if (self->action == OPTIONS_ONCE && setting->scope == WITH_REDIS && flag != NULL)
      return error_set(error, "--%s: not with --once, which needs no Redis", setting->flag);
    return 0;
  }
  struct name source;
  const char *value = value_of(setting, flag, &source);
  return value != NULL ? setting->parse(self, setting, source.text, value, error) : 0;
}

static int parse(struct options *self, int argc, char **argv, struct error *error) {
  const char *given[SETTINGS] = {NULL}; /* by flags */
  if (read_flags(self, given, argc, argv, error) != 0)
    return -1;
  if (self->action == OPTIONS_HELP || self->action == OPTIONS_VERSION)
    return 0;
  for (size_t i = 0; i < SETTINGS; i++)
    if (convert(self, &settings[i], given[i], error) != 0)
      return -1;
  if (self->action != OPTIONS_RUN)
    return 0;
  if (self->run_set == NULL)
    self->run_set = memory_copy(RUN_SET_DEFAULT, strlen(RUN_SET_DEFAULT));
  if (self->idle_cycles == 0)
    self->idle_cycles = self->run_id != NULL ? IDLE_CYCLES_OF_A_RUN : IDLE_CYCLES;
  const struct redis_url *redis = &self->redis;
  if (redis->host == NULL && redis->path == NULL && redis->master == NULL)
    return error_set(error, "--redis-url (or REDIS_URL) is required");
  if (self->job_id == NULL)
    return error_set(error, "--job-id (or JOB_ID) is required");
  return 0;
}

int options_parse(struct options *self, int argc, char **argv, struct error *error) {
  *self = (struct options){.action = OPTIONS_RUN};
  if (parse(self, argc, argv, error) == 0)
    return 0;
  options_release(self);
  return -1;
}

void options_release(struct options *self) {
  redis_url_release(&self->redis);
  free(self->job_id);
  free(self->run_id);
  free(self->run_set);
  free(self->inject_target);
  self->job_id = self->run_id = self->run_set = self->inject_target = NULL;
}
