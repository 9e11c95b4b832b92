#include "agent/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/engine/lines.h"
#include "agent/engine/resource_guard.h"
#include "agent/frontends/mcp/session.h"
#include "agent/frontends/redis/rate_limit.h"
#include "agent/options_help.h"
#include "base/memory.h"
#include "base/variable.h"
#include "wire/step.h"

/* Calls that arrive over HTTP are a mode of their own: see mode_of. */
enum { OVER_HTTP_SHIFT = 16 };

/* The modes that a setting is for. An ACTION chooses the mode; its variable, if it has one, gives
   only its argument. */
enum {
  ACTION = 0,
  WITH_REDIS = 1 << OPTIONS_RUN,
  WITH_ONCE = 1 << OPTIONS_ONCE,
  WITH_IPC = 1 << OPTIONS_IPC,
  WITH_STDIO = 1 << OPTIONS_STDIO,
  WITH_MCP = 1 << OPTIONS_MCP,
  WITH_HTTP = 1 << OPTIONS_HTTP,
  CALLS_OVER_HTTP = (WITH_STDIO | WITH_MCP) << OVER_HTTP_SHIFT,
  OVER_HTTP = WITH_HTTP | CALLS_OVER_HTTP,
  ALL_STDIO = WITH_STDIO | WITH_STDIO << OVER_HTTP_SHIFT,
  ALL_MCP = WITH_MCP | WITH_MCP << OVER_HTTP_SHIFT,
  WITH_TOOLS = WITH_IPC | ALL_STDIO | ALL_MCP,
  WITH_SERVER = WITH_REDIS | WITH_HTTP,
  WITH_STEPS = WITH_SERVER | WITH_ONCE,
  ALWAYS = WITH_STEPS | WITH_TOOLS
};

struct setting {
  const char *flag;
  const char *argument; /* its name in --help, in [=brackets] if it is optional; NULL: none */
  unsigned modes;       /* bits of WITH_…, or ACTION */
  enum options_action action;
  const char *variable; /* NULL: SANDBOX_ and the flag in capitals */
  const char *alias;    /* another variable if that is not set; NULL: none */
  /* Stores the value at the offset. An error says what is wrong with it. */
  int (*parse)(struct options *self, const struct setting *setting, const char *value,
               struct error *error);
  size_t offset, size;
  unsigned long long least, most, initial; /* of a number */
  const char *help;
};

static void put_number(struct options *self, const struct setting *setting,
                       unsigned long long number) {
  void *place = (char *)self + setting->offset;
  if (setting->size == sizeof(unsigned))
    *(unsigned *)place = (unsigned)number;
  else
    *(unsigned long long *)place = number;
}

static int parse_number(struct options *self, const struct setting *setting, const char *value,
                        struct error *error) {
  char *end;
  errno = 0;
  unsigned long long number = strtoull(value, &end, 10);
  if (!isdigit((unsigned char)value[0]) || *end != '\0' || errno != 0 || number < setting->least ||
      number > setting->most)
    return error_set(error, "expected a whole number from %llu to %llu, got '%.40s'",
                     setting->least, setting->most, value);
  put_number(self, setting, number);
  return 0;
}

static const char **text_at(struct options *self, const struct setting *setting) {
  return (const char **)(void *)((char *)self + setting->offset);
}

static void put_text(const char **place, const char *value) {
  free((char *)(uintptr_t)*place);
  *place = memory_copy(value, strlen(value));
}

/* An empty value is that of a flag, because an empty variable counts as not set. */
static int parse_text(struct options *self, const struct setting *setting, const char *value,
                      struct error *error) {
  if (value[0] == '\0')
    return error_set(error, "expected a value, got nothing");
  put_text(text_at(self, setting), value);
  return 0;
}

/* Whether the text has base names of commands, separated by commas and blanks. */
static bool are_names(const char *at) {
  size_t length;
  for (at += strspn(at, " "); (length = strcspn(at, ",/")) > 0 && at[length] == ',';)
    at += length + 1 + strspn(at + length + 1, " ");
  return length > 0 && at[length] == '\0';
}

static int parse_names(struct options *self, const struct setting *setting, const char *value,
                       struct error *error) {
  if (!are_names(value))
    return error_set(error, "expected base names, separated by commas, got '%.99s'", value);
  return parse_text(self, setting, value, error);
}

static int parse_switch(struct options *self, const struct setting *setting, const char *value,
                        struct error *error) {
  bool on = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
  if (!on && strcmp(value, "0") != 0 && strcmp(value, "false") != 0)
    return error_set(error, "expected 1, true, 0 or false, got '%.40s'", value);
  *((bool *)self + setting->offset) = on;
  return 0;
}

static int parse_url(struct options *self, const struct setting *setting, const char *value,
                     struct error *error) {
  (void)setting;
  return redis_url_parse(&self->url, value, error);
}

static int parse_log_format(struct options *self, const struct setting *setting, const char *value,
                            struct error *error) {
  (void)setting;
  if (strcmp(value, "text") != 0 && strcmp(value, "json") != 0)
    return error_set(error, "expected text or json, got '%.40s'", value);
  self->log_format = value[0] == 'j' ? LOG_JSON : LOG_TEXT;
  return 0;
}

static int parse_versions(struct options *self, const struct setting *setting, const char *value,
                          struct error *error) {
  (void)setting;
  return mcp_versions_parse(value, &self->mcp.versions, error);
}

static int parse_address(struct options *self, const struct setting *setting, const char *value,
                         struct error *error) {
  (void)setting;
  return http_address_parse(&self->http.address, value, error);
}

static int parse_open(struct options *self, const struct setting *setting, const char *value,
                      struct error *error) {
  (void)setting;
  return http_options_parse_open(&self->http, value, error);
}

static int parse_path(struct options *self, const struct setting *setting, const char *value,
                      struct error *error) {
  (void)setting;
  return http_options_parse_path(&self->http, value, error);
}

static int parse_fence(struct options *self, const struct setting *setting, const char *value,
                       struct error *error) {
  (void)setting;
  self->confinement.fence = policy_parse_fence(value, error);
  return self->confinement.fence != NULL ? 0 : -1;
}

static int parse_limits(struct options *self, const struct setting *setting, const char *value,
                        struct error *error) {
  (void)setting;
  self->confinement.limits = policy_parse_limits(value, error);
  return self->confinement.limits != NULL ? 0 : -1;
}

/* The server of a run polls: every 250 ms it reads up to 10,000 events of the last step. At this
   rate it reads all of them, if no page takes it longer. */
enum { EVENTS_PACE_OF_A_RUN = 20000 };

/* A value that the flag cannot have. */
#define EVENTS_PACE_UNSET (RATE_LIMIT_MAX + 1)

/* The key of the server that this program was made for. */
#define RUN_SET_DEFAULT "agentsmith:runs:active"

#define KEY_TTL_MAX_SECONDS (100ULL * 365 * 24 * 3600)

#define AT(FIELD)                                                                                  \
  .offset = offsetof(struct options, FIELD), .size = sizeof(((struct options *)NULL)->FIELD)
#define TEXT(FIELD) .parse = parse_text, AT(FIELD)
#define NAMES(FIELD) .parse = parse_names, AT(FIELD)
#define SWITCH(FIELD) .parse = parse_switch, AT(FIELD)
#define NUMBER(FIELD, LEAST, MOST, INITIAL)                                                        \
  .parse = parse_number, AT(FIELD), .least = (LEAST), .most = (MOST), .initial = (INITIAL)

/* The column of the descriptions in --help, and the beginning of their further lines. */
enum { HELP_COLUMN = 26 };
#define NEXT "\n                          "

/* The bounds are a thousand years of idle time, more memory than any container has, and a hundred
   years, which Redis can add to its clock in milliseconds without an overflow. */
static const struct setting settings[] = {
    {"redis-url", "URL", WITH_REDIS, .variable = "REDIS_URL", .parse = parse_url,
     .help =
         "Redis server to connect to. Forms:" NEXT "redis://[user:password@]host[:port][/db]" NEXT
         "redis+sentinel://[user:password@]host[:port],.../master-name[/db]" NEXT
         "rediss://... and rediss+sentinel://... for TLS" NEXT
         "unix://[user:password@]/path/to/socket[?db=n]" NEXT
         "host[:port],...[,password=...][,user=...][,defaultDatabase=n]" NEXT
         "[,ssl=true][,sslHost=name][,serviceName=master]"},
    {"cacert", "FILE", WITH_REDIS, .variable = "REDIS_CACERT", TEXT(tls.ca_file),
     .help = "With TLS: trust the certificate authorities in this PEM file (default:" NEXT
             "SSL_CERT_FILE and SSL_CERT_DIR, else the system's authorities, else" NEXT
             "ca-certificates.crt beside the program)"},
    {"cacertdir", "DIR", WITH_REDIS, .variable = "REDIS_CACERTDIR", TEXT(tls.ca_directory),
     .help = "With TLS: trust the authorities in the files of this directory"},
    {"cert", "FILE", WITH_REDIS, .variable = "REDIS_CERT", TEXT(tls.certificate),
     .help = "With TLS: authenticate with this client certificate (PEM)"},
    {"key", "FILE", WITH_REDIS, .variable = "REDIS_KEY", TEXT(tls.key),
     .help = "Private key of --cert (PEM, without a passphrase)"},
    {"sni", "NAME", WITH_REDIS, .variable = "REDIS_SNI", TEXT(tls.name),
     .help = "With TLS: server name to request and to verify in the certificate" NEXT
             "(default: the host of the URL)"},
    {"insecure", NULL, WITH_REDIS, SWITCH(tls.insecure),
     .help = "With TLS: do not verify the server's certificate"},
    {"job-id", "ID", WITH_STEPS | OVER_HTTP, .variable = "JOB_ID", TEXT(redis.job_id),
     .help = "Job whose steps to run; with --http only a name"},
    {"run-id", "ID", WITH_REDIS, .alias = "AGENTSMITH_RUN_ID", TEXT(redis.run_id),
     .help =
         "At the idle limit, keep waiting while this run is a member of the set" NEXT "--run-set"},
    {"run-set", "KEY", WITH_REDIS, TEXT(redis.run_set),
     .help = "Redis set of the active runs (default: " RUN_SET_DEFAULT ")"},
    {"idle-cycles", "N", WITH_SERVER, .alias = "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES",
     NUMBER(idle_cycles, 1, 525600000, 30),
     .help = "Exit after N times 60 s without a step (default: 30)"},
    {"idle-exit-code", "N", WITH_SERVER, NUMBER(idle_exit_code, 0, 125, 2),
     .help = "At this limit, exit with N, such as 0 in a Kubernetes Job (default: 2, which" NEXT
             "it always is if Redis was never reached)"},
    {"connect-timeout", "SECONDS", WITH_REDIS, NUMBER(connect_timeout_seconds, 1, 1000000000, 0),
     .help = "Exit with 3 if Redis cannot be reached within this time after the start" NEXT
             "(default: wait until the idle limit, then exit with 2)"},
    {"events-maxlen", "N", WITH_SERVER, NUMBER(redis.delivery.events_maxlen, 0, 1ULL << 62, 10000),
     .help = "Trim the event stream to about N entries, and pause a command with" NEXT
             "flowControl while more are unread; with --http, hold N events" NEXT
             "(default: 10000; 0: no limit)"},
    {"events-keep-bytes", "N", WITH_SERVER,
     NUMBER(redis.delivery.events_keep_bytes, 0, 1ULL << 40, 8ULL * 1024 * 1024),
     .help = "Keep up to N bytes of events beyond that for 5 s, for readers that poll," NEXT
             "and pause a command with flowControl while more are unread; with --http," NEXT
             "hold N bytes (default: 8388608; 0: trim at once)"},
    {"events-pace", "N", WITH_REDIS,
     NUMBER(redis.events_pace, 0, RATE_LIMIT_MAX, EVENTS_PACE_UNSET),
     .help = "After a burst of --events-maxlen events, read a command's output at N" NEXT
             "lines per second, for readers that need every event (default: 20000" NEXT
             "with --run-id, else 0; 0: no limit)"},
    {"hold-bytes", "N", WITH_REDIS,
     NUMBER(redis.delivery.hold_bytes, 65536, 1ULL << 40, 4ULL * 1024 * 1024),
     .help = "Queue up to N bytes of output that Redis has not acknowledged; then the" NEXT
             "command blocks (default: 4194304)"},
    {"line-bytes", "N", WITH_STEPS,
     NUMBER(line_bytes, LINE_BYTES_MIN, LINE_BYTES_MAX, LINE_BYTES_DEFAULT),
     .help = "Split lines that are longer than N bytes (default: 1048576)"},
    {"memory-reserve", "BYTES", ALWAYS, NUMBER(memory_reserve, 0, 1ULL << 62, MEMORY_RESERVE_AUTO),
     .help = "Kill the step that uses the most memory if less than this is left of the" NEXT
             "container's memory (default: a sixteenth, 16 to 64 MiB, if the kernel" NEXT
             "would kill the agent together with the step; else 0; 0: never)"},
    {"fence", "JSON", ALWAYS, .parse = parse_fence,
     .help = "Confine each step by this sandbox policy, which a step can only narrow: an" NEXT
             "object with writePaths, readPaths, network (all, ports, loopback, none)," NEXT
             "tcpConnect, tcpBind and bestEffort"},
    {"limits", "JSON", ALWAYS, .parse = parse_limits,
     .help = "Limit each step: an object with memoryBytes, processes, openFiles," NEXT
             "fileSizeBytes, cpuSeconds and coreBytes"},
    {"allow-commands", "NAMES", ALWAYS, NAMES(confinement.allowed_commands),
     .help = "Run only commands with these base names, separated by commas. Advisory:" NEXT
             "a shell that is allowed runs any other program"},
    {"deny-commands", "NAMES", ALWAYS, NAMES(confinement.denied_commands),
     .help = "Run no commands with these base names. Advisory, like --allow-commands"},
    {"drain-seconds", "N", WITH_STEPS, NUMBER(drain_seconds, 0, 1000000, 0),
     .help = "After the first SIGTERM, start no more steps and let the running one" NEXT
             "finish for N seconds, unless a second SIGTERM stops it (default: 0)"},
    {"nice", "N", ALWAYS, NUMBER(nice, 0, 19, 5),
     .help = "Run commands with a nice value N above the agent's, so that a build" NEXT
             "cannot starve the agent (default: 5)"},
    {"key-ttl", "SECONDS", WITH_REDIS,
     NUMBER(redis.delivery.key_ttl_seconds, 0, KEY_TTL_MAX_SECONDS, 86400),
     .help = "Time to live of the job's keys, which a running agent refreshes" NEXT
             "(default: 86400; 0: no expiry)"},
    {"once", NULL, ACTION, .action = OPTIONS_ONCE,
     .help = "Run one Step from standard input without Redis, write its events and its" NEXT
             "result to standard output as lines of JSON, and exit with its exit code"},
    {"mcp", "[=VERSION,...]", ACTION, .action = OPTIONS_MCP, .parse = parse_versions,
     .help = "Serve the Model Context Protocol on standard input and output, in these" NEXT
             "versions (default: all)"},
    {"ipc", "[=DIR]", ACTION, .action = OPTIONS_IPC, .variable = "SANDBOX_IPC_DIR",
     TEXT(files.directory),
     .help = "Run the commands of the request files in DIR/tools and write a result" NEXT
             "file for each, until the file DIR/done exists (default: /ipc)"},
    {"stdio", NULL, ACTION, .action = OPTIONS_STDIO,
     .help = "Serve tools to a host that writes one request per line to standard input"},
    {"http", "ADDRESS", OVER_HTTP, .action = OPTIONS_HTTP, .parse = parse_address,
     .help = "Listen on this address and run the steps of HTTP requests; with --stdio or" NEXT
             "--mcp, serve these over HTTP. ADDRESS is IP:PORT, localhost:PORT, :PORT or" NEXT
             "unix:/PATH"},
    {"http-key-file", "FILE", OVER_HTTP, TEXT(http.key_file),
     .help = "Requests must have the key in this file (default: the key in the variable" NEXT
         HTTP_KEY_VARIABLE "; no flag has the key, because ps shows flags)"},
    {"http-open", "[=NAME,...]", OVER_HTTP, .parse = parse_open,
     .help = "Allow an address that others can reach without a key. Requests may name" NEXT
             "these hosts, too"},
    {"http-path", "PATH", CALLS_OVER_HTTP, .parse = parse_path,
     .help = "Path of the calls (default: /execute with --stdio, /mcp with --mcp)"},
    {"tool", "NAME", ALL_STDIO, TEXT(stdio.tool), .help = "Serve only this tool"},
    {"deadline", "SECONDS", ALL_STDIO,
     NUMBER(stdio.deadline_seconds, 1, STEP_TIMEOUT_MAX_SECONDS, 0),
     .help = "Answer each request within this time"},
    {"structured", NULL, ALL_MCP, SWITCH(mcp.structured),
     .help = "Return the result of a command as an object, too"},
    {"default-timeout", "SECONDS", WITH_TOOLS,
     NUMBER(tools.limits.timeout_default, 1, STEP_TIMEOUT_MAX_SECONDS, 30),
     .help = "Time limit of commands that name none (default: 30)"},
    {"max-timeout", "SECONDS", WITH_TOOLS,
     NUMBER(tools.limits.timeout_maximum, 1, STEP_TIMEOUT_MAX_SECONDS, 0),
     .help = "Longest time limit of a command (default: 600; with --ipc: 120)"},
    {"concurrency", "N", WITH_IPC | WITH_MCP | CALLS_OVER_HTTP,
     NUMBER(mcp.concurrency, 1, ENGINE_EXECUTIONS_MAX, ENGINE_EXECUTIONS_MAX),
     .help = "Run up to N commands at a time; more wait (default: 16)"},
    {"workdir", "DIR", WITH_TOOLS, TEXT(tools.directory),
     .help = "Working directory of commands, and the base of relative paths (default:" NEXT
             "the current directory; with --ipc: /workspace)"},
    {"env-files", "NAME=PATH:...", WITH_IPC, TEXT(files.env_files),
     .help = "Set these variables of commands to the contents of the files"},
    {"inject", "TARGET", ACTION, .action = OPTIONS_INJECT, TEXT(inject_target),
     .help = "Copy this program and the files beside it in its image to TARGET, a file" NEXT
             "or a directory, and exit"},
    {"dumpable", NULL, ALWAYS, SWITCH(dumpable),
     .help = "Let debuggers of the same user (gdb, strace) attach to the agent. Any" NEXT
             "process of the user can then read its memory, passwords included"},
    {"mask-env", "PATTERNS", ALWAYS, TEXT(mask_env),
     .help = "Mask the values of variables with matching names in all output and in" NEXT
             "the log, such as '*_TOKEN,*_PASSWORD,*_SECRET,*_KEY'"},
    {"log-format", "FORMAT", ALWAYS, .parse = parse_log_format,
     .help = "Format of the log: text, or json for one object per line (default: text)"},
    {"verbose", NULL, ALWAYS, SWITCH(verbose),
     .help = "Log at debug level; with Redis and --once also every line of output"},
    {"help", NULL, ACTION, .action = OPTIONS_HELP, .help = "Show this help and exit"},
    {"version", NULL, ACTION, .action = OPTIONS_VERSION,
     .help = "Show the versions of the program and of its libraries, and exit"},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

struct name {
  char text[80]; /* the longest is SANDBOX_EVENTS_KEEP_BYTES */
};

static struct name variable_of(const struct setting *setting) {
  struct name name;
  bool has_own = setting->variable != NULL;
  (void)snprintf(name.text, sizeof name.text, "%s%s", has_own ? "" : "SANDBOX_",
                 has_own ? setting->variable : setting->flag);
  for (char *at = name.text; *at != '\0'; at++)
    *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
  return name;
}

static bool is_argument_optional(const struct setting *setting) {
  return setting->argument != NULL && setting->argument[0] == '[';
}

static void print_setting(FILE *out, const struct setting *setting) {
  bool is_optional = is_argument_optional(setting);
  int at = fprintf(out, "  --%s%s%s", setting->flag,
                   setting->argument != NULL && !is_optional ? " " : "",
                   setting->argument != NULL ? setting->argument : "");
  (void)fprintf(out, "%s%*s%s", at < HELP_COLUMN ? "" : NEXT,
                at < HELP_COLUMN ? HELP_COLUMN - at : 0, "", setting->help);
  if (setting->variable != NULL)
    (void)fprintf(out, NEXT "[%s]", setting->variable);
  if (setting->alias != NULL)
    (void)fprintf(out, NEXT "[%s, or %s]", variable_of(setting).text, setting->alias);
  (void)fputc('\n', out);
}

void options_print_help(FILE *out) {
  (void)fputs(help_begin, out);
  for (size_t i = 0; i < SETTINGS; i++)
    print_setting(out, &settings[i]);
  (void)fputs(help_end, out);
}

/* The actions of other names of the program. */
static const struct {
  const char *name;
  enum options_action action;
} names[] = {{"tool-executor", OPTIONS_IPC},
             {"tool-executor.sh", OPTIONS_IPC},
             {"tool-runner", OPTIONS_STDIO}};

/* Counts as the flag --tool, and so overrides its variable. */
static void set_tool_flag(const char *given[], const char *name) {
  for (size_t i = 0; i < SETTINGS; i++)
    if (settings[i].parse == parse_text &&
        settings[i].offset == offsetof(struct options, stdio.tool) && given[i] == NULL)
      given[i] = name;
}

static void choose_by_name(struct options *self, const char *given[], const char *program) {
  const char *slash = strrchr(program, '/');
  const char *name = slash != NULL ? slash + 1 : program;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i].name) != 0)
      continue;
    self->action = names[i].action;
    self->stdio.is_runner = self->action == OPTIONS_STDIO;
  }
  if (tool_find(name) != NULL) {
    self->action = OPTIONS_STDIO;
    set_tool_flag(given, name);
  }
}

/* The flags in getopt_long, above every letter. */
enum { FIRST_FLAG = 256 };

static int unexpected(struct error *error, const char *what, const char *argument) {
  /* It may be a URL. The whole text is redacted and then cut, because the password could not be
     found in a part of a URL. */
  char *shown = memory_copy(argument, strlen(argument));
  redis_url_redact(shown);
  (void)error_set(error, "%s '%.99s'", what, shown);
  free(shown);
  return -1;
}

/* Returns the flag of an action; "" for OPTIONS_RUN, which has none. */
static const char *flag_of(enum options_action action) {
  for (size_t i = 0; i < SETTINGS; i++)
    if (action != OPTIONS_RUN && settings[i].action == action)
      return settings[i].flag;
  return "";
}

static int choose(struct options *self, const struct setting *setting, struct error *error) {
  enum options_action before = self->action;
  bool asks = setting->action == OPTIONS_HELP || setting->action == OPTIONS_VERSION;
  if (!asks && before != OPTIONS_RUN && before != setting->action)
    return error_set(error, "--%s cannot be used with --%s", setting->flag, flag_of(before));
  self->action = setting->action;
  return 0;
}

static int read_flags(struct options *self, const char *given[SETTINGS], int argc, char **argv,
                      struct error *error) {
  struct option flags[SETTINGS + 1] = {{0}};
  for (int i = 0; i < SETTINGS; i++)
    flags[i] = (struct option){.name = settings[i].flag,
                               .has_arg = settings[i].argument == NULL         ? no_argument
                                          : is_argument_optional(&settings[i]) ? optional_argument
                                                                               : required_argument,
                               .val = FIRST_FLAG + i};
  opterr = 0;
  optind = 0;
  for (int flag; (flag = getopt_long(argc, argv, ":", flags, NULL)) != -1;) {
    if (flag == ':')
      return unexpected(error, "a value is missing after", argv[optind - 1]);
    /* In -xyz each letter is an option, and optind is not behind the argument yet. */
    const char letter[] = {'-', (char)optopt, '\0'};
    if (flag < FIRST_FLAG && optopt > 0 && optopt < FIRST_FLAG)
      return unexpected(error, "unknown option", letter);
    if (flag < FIRST_FLAG)
      return unexpected(error, optopt > 0 ? "no value is expected in" : "unknown option",
                        argv[optind - 1]);
    const struct setting *setting = &settings[flag - FIRST_FLAG];
    bool has_value = setting->argument != NULL && (optarg != NULL || setting->modes == ACTION);
    given[flag - FIRST_FLAG] = has_value ? optarg : "1";
    if (setting->modes == ACTION && choose(self, setting, error) != 0)
      return -1;
    if (self->action == OPTIONS_HELP || self->action == OPTIONS_VERSION)
      return 0;
  }
  if (self->action == OPTIONS_RUN && argc > 0)
    choose_by_name(self, given, argv[0]);
  if (self->stdio.is_runner && optind < argc)
    set_tool_flag(given, argv[optind++]);
  return optind < argc ? unexpected(error, "unexpected argument", argv[optind]) : 0;
}

/* Chooses the steps over HTTP if nothing else is chosen. `--redis-url` chooses Redis. */
static void choose_http(struct options *self, const char *const given[]) {
  const char *flag = NULL;
  bool is_chosen = self->action != OPTIONS_RUN;
  for (size_t i = 0; i < SETTINGS; i++) {
    if (settings[i].parse == parse_address)
      flag = given[i];
    is_chosen = is_chosen || (settings[i].parse == parse_url && given[i] != NULL);
  }
  bool is_given = flag != NULL || (!is_chosen && variable_read("SANDBOX_HTTP") != NULL);
  if (is_given && self->action == OPTIONS_RUN)
    self->action = OPTIONS_HTTP;
  bool has_calls = self->action == OPTIONS_STDIO || self->action == OPTIONS_MCP;
  self->is_over_http =
      is_given && !self->stdio.is_runner && (has_calls || self->action == OPTIONS_HTTP);
}

static unsigned mode_of(const struct options *self) {
  bool has_calls = self->is_over_http && self->action != OPTIONS_HTTP;
  return 1U << self->action << (has_calls ? OVER_HTTP_SHIFT : 0);
}

static bool applies(const struct options *self, const struct setting *setting) {
  if (setting->modes == ACTION)
    return setting->action == self->action && setting->parse != NULL;
  return (setting->modes & mode_of(self)) != 0;
}

/* A variable may be set for all programs of a pod, but a flag that does not apply is a mistake. */
static int reject_flag(const struct options *self, const struct setting *setting,
                       struct error *error) {
  if ((setting->modes | OVER_HTTP) == OVER_HTTP && setting->parse != parse_address &&
      !self->is_over_http)
    return error_set(error, "--%s needs --http", setting->flag);
  if (setting->modes == CALLS_OVER_HTTP && self->action == OPTIONS_HTTP)
    return error_set(error, "--%s needs --stdio or --mcp", setting->flag);
  const char *name = self->stdio.is_runner         ? "tool-runner"
                     : self->action == OPTIONS_RUN ? "Redis"
                                                   : NULL;
  return error_set(error, "--%s cannot be used with %s%s%s", setting->flag,
                   name != NULL ? "" : "--", name != NULL ? name : flag_of(self->action),
                   setting->modes == WITH_REDIS ? ", which needs no Redis" : "");
}

static int convert(struct options *self, const struct setting *setting, const char *flag,
                   struct error *error) {
  if (setting->parse == parse_number)
    put_number(self, setting, setting->initial);
  if (!applies(self, setting))
    return setting->modes != ACTION && flag != NULL ? reject_flag(self, setting, error) : 0;
  const char *value = flag;
  struct name source = variable_of(setting);
  if (flag == NULL && (setting->modes != ACTION || setting->variable != NULL))
    value = variable_read(source.text);
  if (flag != NULL)
    (void)snprintf(source.text, sizeof source.text, "--%s", setting->flag);
  else if (value == NULL && setting->alias != NULL &&
           (value = variable_read(setting->alias)) != NULL)
    (void)snprintf(source.text, sizeof source.text, "%s", setting->alias);
  struct error reason;
  if (value == NULL || setting->parse(self, setting, value, &reason) == 0)
    return 0;
  if (setting->parse == parse_url && value == flag) /* the error names the URL itself */
    return error_set(error, "%s", reason.text);
  return error_set(error, "%s: %s", source.text, reason.text);
}

#define IPC_DIRECTORY "/ipc"

/* A reader over HTTP can fall behind by this much: it reads as fast as the connection allows. */
#define HTTP_KEEP_BYTES_MIN 65536

/* The longest time limits: as of existing tool executors, and long enough for a build. */
enum { IPC_MAX_TIMEOUT = 120, TOOL_MAX_TIMEOUT = 600 };

/* Only for the name `tool-runner`; it belongs to no flag. */
#define TOOL_VARIABLE "TOOL_NAME"

/* Sets what depends on other settings. */
static void set_defaults(struct options *self) {
  if (self->redis.run_set == NULL)
    put_text(&self->redis.run_set, RUN_SET_DEFAULT);
  if (self->tls.name == NULL && self->url.tls_name != NULL)
    put_text(&self->tls.name, self->url.tls_name);
  if (self->files.directory == NULL)
    put_text(&self->files.directory, IPC_DIRECTORY);
  if (self->redis.events_pace == EVENTS_PACE_UNSET)
    self->redis.events_pace = self->redis.run_id != NULL ? EVENTS_PACE_OF_A_RUN : 0;
  if (self->tools.limits.timeout_maximum == 0)
    self->tools.limits.timeout_maximum =
        self->action == OPTIONS_IPC ? IPC_MAX_TIMEOUT : TOOL_MAX_TIMEOUT;
  if (self->stdio.is_runner && self->stdio.tool == NULL && variable_read(TOOL_VARIABLE) != NULL)
    put_text(&self->stdio.tool, variable_read(TOOL_VARIABLE));
}

static int check(const struct options *self, struct error *error) {
  const struct redis_url *url = &self->url;
  const char *tool = self->stdio.tool;
  bool redis = self->action == OPTIONS_RUN;
  if (redis && url->hosts == NULL)
    return error_set(error, "--redis-url (or REDIS_URL) is required");
  if (redis && self->redis.job_id == NULL)
    return error_set(error, "--job-id (or JOB_ID) is required");
  if (self->action == OPTIONS_HTTP && self->redis.delivery.events_keep_bytes < HTTP_KEEP_BYTES_MIN)
    return error_set(error, "--events-keep-bytes: expected at least %d with --http, got %llu",
                     HTTP_KEEP_BYTES_MIN, self->redis.delivery.events_keep_bytes);
  if (self->is_over_http && self->mcp.versions == 1U << MCP_2024_11_05)
    return error_set(error, "--mcp=2024-11-05 cannot be used with --http: choose a later version");
  if ((self->tls.certificate == NULL) != (self->tls.key == NULL))
    return error_set(error, "--cert and --key: one without the other");
  /* A tool runner reports an unknown tool to its host. */
  if (tool != NULL && !self->stdio.is_runner && tool_find(tool) == NULL)
    return error_set(error, "--tool: unknown tool '%.40s'", tool);
  return 0;
}

int options_parse(struct options *self, int argc, char **argv, struct error *error) {
  const char *given[SETTINGS] = {NULL}; /* values of flags */
  *self = (struct options){.action = OPTIONS_RUN};
  int result = read_flags(self, given, argc, argv, error);
  choose_http(self, given);
  if (result == 0 && (self->action == OPTIONS_HELP || self->action == OPTIONS_VERSION))
    return 0;
  for (size_t i = 0; i < SETTINGS && result == 0; i++)
    result = convert(self, &settings[i], given[i], error);
  if (result == 0) {
    set_defaults(self);
    http_options_set_key(&self->http, variable_read(HTTP_KEY_VARIABLE));
    result = check(self, error);
  }
  if (result == 0 && self->is_over_http)
    result = http_options_complete(&self->http, error);
  if (result != 0)
    options_release(self);
  return result;
}

/* Earlier versions set it for commands, and such a command may have started this agent. */
#define FORMER_VARIABLE "SANDBOX_JOB_ID"

void options_forget_variables(void) {
  for (size_t i = 0; i < SETTINGS; i++) {
    if (settings[i].modes != ACTION || settings[i].variable != NULL)
      (void)unsetenv(variable_of(&settings[i]).text);
    if (settings[i].alias != NULL)
      (void)unsetenv(settings[i].alias);
  }
  (void)unsetenv(HTTP_KEY_VARIABLE);
  (void)unsetenv(TOOL_VARIABLE);
  (void)unsetenv(FORMER_VARIABLE);
}

void options_release(struct options *self) {
  redis_url_release(&self->url);
  http_options_release(&self->http);
  policy_free(&policy_fence_table, self->confinement.fence);
  policy_free(&policy_limits_table, self->confinement.limits);
  for (size_t i = 0; i < SETTINGS; i++)
    if (settings[i].parse == parse_text || settings[i].parse == parse_names)
      free((char *)(uintptr_t)*text_at(self, &settings[i]));
  *self = (struct options){.action = self->action};
}
