#include "agent/engine/resource_guard.h"
#include "agent/options.h"
#include "base/buffer.h"
#include "tests/support/directory.h"
#include "tests/test.h"
#include "wire/http_key.h"

enum { ARGUMENTS_MAX = 14 };

/* Each flag that is not an action, with its variable, a valid value and an invalid one. */
static const struct {
  const char *flag, *variable, *good, *bad;
} twins[] = {
    {"--redis-url", "REDIS_URL", "redis://h", "h:x"},
    {"--cacert", "REDIS_CACERT", "/ca", NULL},
    {"--cacertdir", "REDIS_CACERTDIR", "/cas", NULL},
    {"--cert", "REDIS_CERT", "/cert", NULL},
    {"--key", "REDIS_KEY", "/key", NULL},
    {"--sni", "REDIS_SNI", "name", NULL},
    {"--job-id", "JOB_ID", "j", NULL},
    {"--run-id", "AGENTSMITH_RUN_ID", "r", NULL},
    {"--idle-cycles", "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES", "7", "0"},
    {"--idle-exit-code", "SANDBOX_IDLE_EXIT_CODE", "7", "126"},
    {"--events-maxlen", "SANDBOX_EVENTS_MAXLEN", "7", "x"},
    {"--events-keep-bytes", "SANDBOX_EVENTS_KEEP_BYTES", "7", "-1"},
    {"--events-pace", "SANDBOX_EVENTS_PACE", "7", "1e3"},
    {"--hold-bytes", "SANDBOX_HOLD_BYTES", "70000", "7"},
    {"--line-bytes", "SANDBOX_LINE_BYTES", "7000", "7"},
    {"--memory-reserve", "SANDBOX_MEMORY_RESERVE", "7", "1M"},
    {"--log-format", "SANDBOX_LOG_FORMAT", "json", "xml"},
    {"--drain-seconds", "SANDBOX_DRAIN_SECONDS", "7", "x"},
    {"--nice", "SANDBOX_NICE", "7", "20"},
    {"--key-ttl", "SANDBOX_KEY_TTL", "7", "x"},
    {"--dumpable", "SANDBOX_DUMPABLE", "1", "yes"},
    {"--verbose", "SANDBOX_VERBOSE", "true", "2"},
};

enum { TWINS = sizeof twins / sizeof *twins };

/* The same for other frontends, with a frontend that has the flag. */
static const struct {
  const char *flag, *variable, *good, *bad, *frontend;
} tool_twins[] = {
    {"--ipc", "SANDBOX_IPC_DIR", "/d", NULL, "--ipc"},
    {"--tool", "SANDBOX_TOOL", "grep", "no_such_tool", "--stdio"},
    {"--deadline", "SANDBOX_DEADLINE", "7", "0", "--stdio"},
    {"--structured", "SANDBOX_STRUCTURED", "1", "yes", "--mcp"},
    {"--default-timeout", "SANDBOX_DEFAULT_TIMEOUT", "7", "0", "--mcp"},
    {"--max-timeout", "SANDBOX_MAX_TIMEOUT", "7", "x", "--stdio"},
    {"--concurrency", "SANDBOX_CONCURRENCY", "7", "17", "--ipc"},
    {"--workdir", "SANDBOX_WORKDIR", "/w", NULL, "--mcp"},
    {"--env-files", "SANDBOX_ENV_FILES", "A=/a", NULL, "--ipc"},
};

enum { TOOL_TWINS = sizeof tool_twins / sizeof *tool_twins };

static int clear_environment(void **state) {
  (void)state;
  for (size_t i = 0; i < TWINS; i++)
    assert_int_equal(unsetenv(twins[i].variable), 0);
  for (size_t i = 0; i < TOOL_TWINS; i++)
    assert_int_equal(unsetenv(tool_twins[i].variable), 0);
  static const char *const others[] = {
      "SANDBOX_INSECURE",       "SANDBOX_RUN_ID",        "SANDBOX_RUN_SET",   "SANDBOX_MASK_ENV",
      "SANDBOX_ALLOW_COMMANDS", "SANDBOX_DENY_COMMANDS", "TOOL_NAME",         "SANDBOX_HTTP",
      "SANDBOX_HTTP_KEY_FILE",  "SANDBOX_HTTP_OPEN",     "SANDBOX_HTTP_PATH", "SANDBOX_HTTP_KEY"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_int_equal(unsetenv(others[i]), 0);
  return 0;
}

/* Parses copies and frees them, so that the options must have copied their texts. */
static int parse_as(const char *program, struct options *options, struct error *error,
                    const char *const *arguments) {
  char *argv[ARGUMENTS_MAX + 2] = {strdup(program)};
  char *copies[ARGUMENTS_MAX + 2] = {argv[0]};
  int argc = 1;
  for (; *arguments != NULL; arguments++, argc++) {
    assert_true(argc <= ARGUMENTS_MAX);
    copies[argc] = argv[argc] = strdup(*arguments);
  }
  int result = options_parse(options, argc, argv, error);
  for (int i = 0; i < argc; i++)
    free(copies[i]);
  return result;
}

static int parse(struct options *options, struct error *error, const char *const *arguments) {
  return parse_as("agent", options, error, arguments);
}

static void assert_accepted(struct options *options, const char *const *arguments) {
  struct error error = {.text = "untouched"};
  if (parse(options, &error, arguments) != 0)
    fail_msg("%s", error.text);
  assert_string_equal(error.text, "untouched");
}

static void assert_rejected(const char *const *arguments, const char *message) {
  struct options options;
  struct error error = {.text = ""};
  assert_int_equal(parse(&options, &error, arguments), -1);
  assert_string_equal(error.text, message);
  assert_null(options.redis.job_id);
  assert_null(options.url.hosts);
}

static void add_text(struct buffer *to, const char *name, const char *value, const char *usual) {
  if (value != NULL && (usual == NULL || strcmp(value, usual) != 0))
    buffer_add_string(to, formatted(" %s=%s", name, value));
}

static void add_number(struct buffer *to, const char *name, unsigned long long value,
                       unsigned long long usual) {
  if (value != usual)
    buffer_add_string(to, formatted(" %s=%llu", name, value));
}

/* Returns the action and each setting that is not the default, valid until the next call. */
static const char *described(const struct options *options) {
  static const char *const actions[] = {
      [OPTIONS_RUN] = "run",     [OPTIONS_ONCE] = "once",       [OPTIONS_IPC] = "ipc",
      [OPTIONS_STDIO] = "stdio", [OPTIONS_MCP] = "mcp",         [OPTIONS_INJECT] = "inject",
      [OPTIONS_HELP] = "help",   [OPTIONS_VERSION] = "version", [OPTIONS_HTTP] = "http",
  };
  static struct buffer text;
  buffer_release(&text);
  buffer_add_string(&text, actions[options->action]);
  if (options->action == OPTIONS_HELP || options->action == OPTIONS_VERSION)
    return actions[options->action];
  const struct redis_address *server = options->url.hosts;
  if (server != NULL)
    add_text(&text, server->port > 0 ? "host" : "path", server->host, NULL);
  add_text(&text, "password", options->url.password, NULL);
  if (options->is_over_http)
    add_text(&text, "on", options->http.address.text, NULL);
  add_text(&text, "http-key", options->http.key, NULL);
  add_text(&text, "source", options->http.key_source, "SANDBOX_HTTP_KEY");
  add_number(&text, "open", options->http.is_open, false);
  add_text(&text, "names", options->http.names, NULL);
  add_text(&text, "path", options->http.path, NULL);
  add_text(&text, "job", options->redis.job_id, NULL);
  add_text(&text, "run", options->redis.run_id, NULL);
  add_text(&text, "set", options->redis.run_set, "agentsmith:runs:active");
  add_text(&text, "sni", options->tls.name, NULL);
  add_number(&text, "insecure", options->tls.insecure, false);
  add_number(&text, "verbose", options->verbose, false);
  add_number(&text, "dumpable", options->dumpable, false);
  add_number(&text, "idle", options->idle_cycles, 30);
  add_number(&text, "idle-code", options->idle_exit_code, 2);
  add_number(&text, "maxlen", options->redis.delivery.events_maxlen, 10000);
  add_number(&text, "keep", options->redis.delivery.events_keep_bytes, 8388608);
  add_number(&text, "pace", options->redis.events_pace, 0);
  add_number(&text, "hold", options->redis.delivery.hold_bytes, 4194304);
  add_number(&text, "line", options->line_bytes, 1048576);
  add_number(&text, "reserve", options->memory_reserve, MEMORY_RESERVE_AUTO);
  add_number(&text, "format", options->log_format, LOG_TEXT);
  add_number(&text, "drain", options->drain_seconds, 0);
  add_number(&text, "nice", options->nice, 5);
  add_number(&text, "ttl", options->redis.delivery.key_ttl_seconds, 86400);
  add_text(&text, "ipc", options->files.directory, "/ipc");
  add_text(&text, "tool", options->stdio.tool, NULL);
  add_number(&text, "runner", options->stdio.is_runner, false);
  add_text(&text, "workdir", options->tools.directory, NULL);
  add_text(&text, "files", options->files.env_files, NULL);
  add_text(&text, "inject", options->inject_target, NULL);
  add_number(&text, "concurrency", options->mcp.concurrency, 16);
  add_number(&text, "default", options->tools.limits.timeout_default, 30);
  add_number(&text, "max", options->tools.limits.timeout_maximum, 600);
  add_number(&text, "deadline", options->stdio.deadline_seconds, 0);
  add_number(&text, "versions", options->mcp.versions, 0);
  add_number(&text, "structured", options->mcp.structured, false);
  buffer_add(&text, "", 1);
  return text.bytes;
}

struct row {
  const char *variables;     /* "NAME=value", separated by "|"; NULL: none */
  const char *arguments[11]; /* the first may be "as NAME": the name of the program */
  const char *expected;      /* as described, or the error */
};

#define REDIS "--redis-url=h", "--job-id=j"

static void check_row(const struct row *row) {
  char *const words = strdup(row->variables != NULL ? row->variables : "");
  char *rest = words;
  for (char *word; (word = strsep(&rest, "|")) != NULL && *word != '\0';) {
    const char *name = strsep(&word, "=");
    assert_int_equal(setenv(name, word, 1), 0);
  }
  free(words);
  const char *const *arguments = row->arguments;
  bool is_named = *arguments != NULL && strncmp(*arguments, "as ", 3) == 0;
  struct options options;
  struct error error = {.text = "untouched"};
  const char *name = is_named ? *arguments + 3 : "agent";
  int result = parse_as(name, &options, &error, arguments + is_named);
  assert_string_equal(result == 0 ? described(&options) : error.text, row->expected);
  if (result == 0) {
    assert_string_equal(error.text, "untouched");
    options_release(&options);
  }
  assert_null(options.redis.job_id);
  assert_null(options.url.hosts);
  (void)clear_environment(NULL);
}

static void check_rows(const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++)
    check_row(&rows[i]);
}

#define CHECK_ROWS(...)                                                                            \
  do {                                                                                             \
    static const struct row rows[] = {__VA_ARGS__};                                                \
    check_rows(rows, sizeof rows / sizeof *rows);                                                  \
  } while (0)

/* An empty variable counts as not set. An empty flag is a mistake. */
TEST(redis_has_flags_and_variables, clear_environment) {
  CHECK_ROWS(
      {NULL, {"--redis-url", "redis://h", "--job-id", "j"}, "run host=h job=j"},
      {NULL,
       {"--verbose", "--dumpable", "--hold-bytes=65536", "--events-maxlen", "0", "--idle-cycles",
        "1", "--job-id={pipe 42}", "--key-ttl=60", "--redis-url=unix://u:p@/s"},
       "run path=/s password=p job={pipe 42} verbose=1 dumpable=1 idle=1 maxlen=0 hold=65536 "
       "ttl=60"},
      {NULL, {"--redis-url=a", "--job-id=1", "--redis-url=b", "--job-id=2"}, "run host=b job=2"},
      {"REDIS_URL=x|JOB_ID=x", {"--job-id="}, "--job-id: expected a value, got nothing"},
      {"AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES=9",
       {REDIS, "--idle-cycles="},
       "--idle-cycles: expected a whole number from 1 to 525600000, got ''"},
      {"REDIS_URL=|AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES=", {REDIS}, "run host=h job=j"},
      /* Values from files and Secrets. */
      {"REDIS_URL=redis://h\n|JOB_ID=j\r\n|SANDBOX_KEY_TTL=60\n",
       {"--verbose"},
       "run host=h job=j verbose=1 ttl=60"},
      {"JOB_ID=\n", {"--redis-url=h"}, "--job-id (or JOB_ID) is required"},
      {"REDIS_URL=", {"--job-id=j"}, "--redis-url (or REDIS_URL) is required"},
      /* The name that TLS verifies. */
      {NULL, {"--redis-url=h,ssl=true,sslHost=a", "--job-id=j"}, "run host=h job=j sni=a"},
      {NULL,
       {"--redis-url=h,ssl=true,sslHost=a", "--job-id=j", "--sni=b", "--insecure"},
       "run host=h job=j sni=b insecure=1"},
      {"SANDBOX_INSECURE=1",
       {"--redis-url=rediss://h", "--job-id=j"},
       "run host=h job=j insecure=1"},
      /* A run, whose server polls. */
      {"AGENTSMITH_RUN_ID=", {REDIS}, "run host=h job=j"},
      {"AGENTSMITH_RUN_ID=v", {REDIS}, "run host=h job=j run=v pace=20000"},
      {"AGENTSMITH_RUN_ID=r",
       {REDIS, "--idle-cycles=5"},
       "run host=h job=j run=r idle=5 pace=20000"},
      {"AGENTSMITH_RUN_ID=r", {REDIS, "--events-pace=0"}, "run host=h job=j run=r"},
      {"AGENTSMITH_RUN_ID=r", {REDIS, "--events-pace=7"}, "run host=h job=j run=r pace=7"},
      {NULL, {REDIS, "--run-id", "run 7"}, "run host=h job=j run=run 7 pace=20000"},
      {NULL, {REDIS, "--events-pace=20000"}, "run host=h job=j pace=20000"},
      {"AGENTSMITH_RUN_ID=v", {REDIS, "--run-id=7"}, "run host=h job=j run=7 pace=20000"},
      {"SANDBOX_EVENTS_PACE=0", {REDIS, "--run-id=r"}, "run host=h job=j run=r"},
      {"SANDBOX_EVENTS_PACE=500", {REDIS, "--run-id=r"}, "run host=h job=j run=r pace=500"},
      {"SANDBOX_RUN_ID=general|SANDBOX_RUN_SET=runs|AGENTSMITH_RUN_ID=of one server",
       {REDIS},
       "run host=h job=j run=general set=runs pace=20000"});
}

static void assert_sevens(const struct options *options) {
  assert_int_equal(options->idle_cycles, 7);
  assert_int_equal(options->redis.delivery.events_maxlen, 7);
  assert_int_equal(options->redis.delivery.events_keep_bytes, 7);
  assert_int_equal(options->redis.events_pace, 7);
  assert_int_equal(options->redis.delivery.hold_bytes, 70000);
  assert_int_equal(options->line_bytes, 7000);
  assert_int_equal(options->redis.delivery.key_ttl_seconds, 7);
  assert_string_equal(options->redis.run_id, "r");
  assert_string_equal(options->tls.ca_file, "/ca");
  assert_string_equal(options->tls.ca_directory, "/cas");
  assert_string_equal(options->tls.certificate, "/cert");
  assert_string_equal(options->tls.key, "/key");
  assert_string_equal(options->tls.name, "name");
  assert_true(options->dumpable);
  assert_true(options->verbose);
}

TEST(every_flag_has_a_variable, clear_environment) {
  struct options options;
  for (size_t i = 0; i < TWINS; i++)
    assert_int_equal(setenv(twins[i].variable, twins[i].good, 1), 0);
  assert_accepted(&options, (const char *[]){NULL});
  assert_sevens(&options);
  options_release(&options);
  for (size_t i = 0; i < TWINS; i++) {
    const char *value = twins[i].good;
    if (twins[i].bad == NULL)
      continue;
    assert_int_equal(setenv(twins[i].variable, twins[i].bad, 1), 0);
    const char *found = formatted("%s: ", twins[i].variable);
    struct error error = {.text = ""};
    assert_int_equal(parse(&options, &error, (const char *[]){NULL}), -1);
    assert_int_equal(strncmp(error.text, found, strlen(found)), 0);
    bool is_switch = i >= TWINS - 2;
    assert_accepted(&options, (const char *[]){twins[i].flag, is_switch ? NULL : value, NULL});
    assert_sevens(&options);
    options_release(&options);
    assert_int_equal(setenv(twins[i].variable, value, 1), 0);
  }
  assert_int_equal(setenv("SANDBOX_VERBOSE", "0", 1), 0);
  assert_int_equal(setenv("SANDBOX_DUMPABLE", "false", 1), 0);
  assert_accepted(&options, (const char *[]){NULL});
  assert_false(options.verbose);
  assert_false(options.dumpable);
  options_release(&options);
}

/* A wrong value is rejected for its frontend, and ignored for others. */
TEST(flags_of_frontends_have_variables, clear_environment) {
  struct options options;
  for (size_t i = 0; i < TOOL_TWINS; i++) {
    struct error error;
    const char *const by_flag[] = {tool_twins[i].frontend, tool_twins[i].flag, tool_twins[i].bad,
                                   NULL};
    const char *const by_variable[] = {tool_twins[i].frontend, NULL};
    if (tool_twins[i].bad != NULL) {
      bool is_switch = strcmp(tool_twins[i].bad, "yes") == 0;
      assert_int_equal(is_switch ? -1 : parse(&options, &error, by_flag), -1);
      assert_int_equal(setenv(tool_twins[i].variable, tool_twins[i].bad, 1), 0);
      assert_int_equal(parse(&options, &error, by_variable), -1);
      assert_accepted(&options, (const char *[]){"--once", NULL});
      options_release(&options);
    }
    assert_int_equal(setenv(tool_twins[i].variable, tool_twins[i].good, 1), 0);
  }
  assert_accepted(&options, (const char *[]){"--stdio", NULL});
  assert_string_equal(options.stdio.tool, "grep");
  assert_int_equal(options.stdio.deadline_seconds, 7);
  assert_int_equal(options.tools.limits.timeout_default, 7);
  assert_int_equal(options.tools.limits.timeout_maximum, 7);
  assert_string_equal(options.tools.directory, "/w");
  options_release(&options);
  assert_accepted(&options, (const char *[]){"--ipc", NULL});
  assert_int_equal(options.mcp.concurrency, 7);
  assert_string_equal(options.files.env_files, "A=/a");
  options_release(&options);
  assert_accepted(&options, (const char *[]){"--mcp", NULL});
  assert_true(options.mcp.structured);
  options_release(&options);
}

/* A variable may be set for all programs of a pod; a flag that does not apply is an error. */
TEST(once_rejects_the_flags_of_redis, clear_environment) {
  static const char *const flags[] = {"--redis-url", "--run-id", "--hold-bytes", "--key-ttl",
                                      "--events-pace"};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    const char *message =
        formatted("%s cannot be used with --once, which needs no Redis", flags[i]);
    assert_rejected((const char *[]){"--once", flags[i], "1", NULL}, message);
    assert_rejected((const char *[]){flags[i], "1", "--once", NULL}, message);
  }
  CHECK_ROWS({NULL, {"--once"}, "once"},
             {NULL, {"--verbose", "--once", "--job-id", "j"}, "once job=j verbose=1"},
             {"REDIS_URL=no url at all|AGENTSMITH_RUN_ID=r|AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES=x|"
              "JOB_ID=v|SANDBOX_KEY_TTL=x|SANDBOX_LINE_BYTES=7000",
              {"--once"},
              "once job=v line=7000"},
             {"JOB_ID=", {"--once"}, "once"});
}

/* The name of the program chooses one, for hosts that cannot pass flags. */
TEST(frontends_have_names_and_arguments, clear_environment) {
  CHECK_ROWS(
      {NULL, {"--ipc"}, "ipc max=120"}, {NULL, {"--stdio"}, "stdio"}, {NULL, {"--mcp"}, "mcp"},
      {NULL, {"--mcp=2025-11-25,2026-07-28"}, "mcp versions=24"},
      {"SANDBOX_IPC_DIR=/variable", {"--ipc=/flag"}, "ipc ipc=/flag max=120"},
      {"SANDBOX_IPC_DIR=/variable", {"--ipc"}, "ipc ipc=/variable max=120"},
      {NULL, {"as /usr/local/bin/tool-executor.sh"}, "ipc max=120"},
      {NULL, {"as tool-executor", "--concurrency=2"}, "ipc concurrency=2 max=120"},
      {NULL, {"as tool-executor", "--mcp"}, "mcp"},
      {NULL, {"as /x/tool-runner", "grep"}, "stdio tool=grep runner=1"},
      {NULL, {"as tool-runner", "no_such_tool"}, "stdio tool=no_such_tool runner=1"},
      {NULL, {"as tool-runner", "--version"}, "version"},
      {NULL, {"as tool-runner", "--inject=x"}, "inject inject=x"},
      {NULL, {"as ./read_file"}, "stdio tool=read_file"},
      {NULL, {"as ./read_file", "--tool=grep"}, "stdio tool=grep"},
      {NULL, {"as directory_tree", "--once"}, "once"},
      {"TOOL_NAME=grep", {"as tool-runner"}, "stdio tool=grep runner=1"},
      {"TOOL_NAME=grep", {"as tool-runner", "read_file"}, "stdio tool=read_file runner=1"},
      {"SANDBOX_TOOL=grep", {"as tool-runner", "read_file"}, "stdio tool=read_file runner=1"},
      {"SANDBOX_TOOL=grep", {"as ./write_file"}, "stdio tool=write_file"});
}

#define KEY "0123456789abcdef"
#define OPEN_TO_OTHERS                                                                             \
  ": others can reach this address. Set SANDBOX_HTTP_KEY (16 characters or more), or use "         \
  "--http-open"

TEST(http_is_a_mode_of_its_own_and_modifies_two, clear_environment) {
  CHECK_ROWS(
      {NULL, {"--http", "localhost:1"}, "http on=localhost:1"},
      {NULL, {"--stdio", "--http=unix:/s"}, "stdio on=unix:/s"},
      {NULL, {"--http=[::1]:1", "--mcp=2025-11-25"}, "mcp on=[::1]:1 versions=8"},
      {NULL, {"as grep", "--http=localhost:1"}, "stdio on=localhost:1 tool=grep"},
      {"REDIS_URL=no url at all|JOB_ID=j", {"--http=localhost:1"}, "http on=localhost:1 job=j"},
      {NULL,
       {"--stdio", "--http=localhost:1", "--job-id=j", "--concurrency=2", "--deadline=5"},
       "stdio on=localhost:1 job=j concurrency=2 deadline=5"},
      {NULL,
       {"--http=localhost:1", "--idle-cycles=3", "--idle-exit-code=0", "--events-maxlen=0",
        "--events-keep-bytes=65536", "--line-bytes=7000", "--drain-seconds=7", "--memory-reserve=0",
        "--nice=1"},
       "http on=localhost:1 idle=3 idle-code=0 maxlen=0 keep=65536 line=7000 reserve=0 "
       "drain=7 nice=1"},
      {NULL,
       {"--mcp", "--http=localhost:1", "--http-path=/a/b", "--http-open=a,b.c"},
       "mcp on=localhost:1 open=1 names=a,b.c path=/a/b"},
      {"SANDBOX_HTTP_OPEN=true|SANDBOX_HTTP_PATH=/a", {"--http=:1"}, "http on=:1 open=1"});
}

/* So that `kubectl exec … agent --mcp` does not listen on the port of the pod's agent. */
TEST(the_variable_of_http_counts_only_if_nothing_else_chooses_a_mode, clear_environment) {
  static const char variable[] = "SANDBOX_HTTP=localhost:1|SANDBOX_HTTP_KEY=" KEY;
  static const char other[] = "SANDBOX_HTTP=no address|SANDBOX_HTTP_OPEN=a b|SANDBOX_HTTP_KEY=x";
  CHECK_ROWS({variable, {NULL}, "http on=localhost:1 http-key=" KEY},
             {"SANDBOX_HTTP=localhost:1|REDIS_URL=redis://h|JOB_ID=j",
              {NULL},
              "http on=localhost:1 job=j"},
             {"SANDBOX_HTTP=localhost:1", {"--http=localhost:2"}, "http on=localhost:2"},
             {"SANDBOX_HTTP=", {REDIS}, "run host=h job=j"},
             {variable, {"--mcp"}, "mcp http-key=" KEY},
             {variable, {"--mcp", "--http=localhost:2"}, "mcp on=localhost:2 http-key=" KEY},
             {variable, {REDIS}, "run host=h http-key=" KEY " job=j"},
             {other, {"--mcp"}, "mcp http-key=x"}, {other, {"--once"}, "once http-key=x"},
             {other, {"--ipc"}, "ipc http-key=x max=120"},
             {other, {"as tool-executor"}, "ipc http-key=x max=120"},
             {other, {"as tool-runner"}, "stdio http-key=x runner=1"},
             {other, {"as grep"}, "stdio http-key=x tool=grep"});
}

TEST(wrong_usage_of_http_is_explained, clear_environment) {
  static const char form[] =
      "--http: expected IP:PORT, localhost:PORT, :PORT or unix:/PATH, got ''";
  static const char variable[] = "SANDBOX_HTTP: expected a port from 1 to 65535, got '0'";
  CHECK_ROWS(
      {NULL, {"--http="}, form}, {NULL, {"--http"}, "a value is missing after '--http'"},
      {"SANDBOX_HTTP=:0", {NULL}, variable},
      {NULL, {"--once", "--http=:1"}, "--http cannot be used with --once"},
      {NULL, {"--http=:1", "--ipc"}, "--http cannot be used with --ipc"},
      {NULL, {"as tool-executor", "--http=:1"}, "--http cannot be used with --ipc"},
      {NULL, {"as tool-runner", "--http=:1"}, "--http cannot be used with tool-runner"},
      {NULL, {REDIS, "--http=:1"}, "--redis-url cannot be used with --http, which needs no Redis"},
      {NULL,
       {"--http=localhost:1", "--hold-bytes=70000"},
       "--hold-bytes cannot be used with --http, which needs no Redis"},
      {NULL, {"--http=localhost:1", "--concurrency=2"}, "--concurrency cannot be used with --http"},
      {NULL,
       {"--stdio", "--http=localhost:1", "--idle-cycles=2"},
       "--idle-cycles cannot be used with --stdio"},
      {NULL, {"--stdio", "--job-id=j"}, "--job-id cannot be used with --stdio"},
      {NULL, {"--mcp", "--http-open"}, "--http-open needs --http"},
      {NULL, {"--mcp", "--http-path=/a"}, "--http-path needs --http"},
      {NULL, {"--http-key-file=/k"}, "--http-key-file needs --http"},
      {NULL, {"--http=:1", "--http-path=/a"}, "--http-path needs --stdio or --mcp"},
      {NULL,
       {"--http=localhost:1", "--events-keep-bytes=65535"},
       "--events-keep-bytes: expected at least 65536 with --http, got 65535"},
      {NULL, {"--http=0.0.0.0:1"}, "--http 0.0.0.0:1" OPEN_TO_OTHERS},
      {NULL, {"--stdio", "--http=:1"}, "--http :1" OPEN_TO_OTHERS},
      {"SANDBOX_HTTP=10.0.0.7:1", {NULL}, "--http 10.0.0.7:1" OPEN_TO_OTHERS},
      {"SANDBOX_HTTP_OPEN=0", {"--http=:1"}, "--http :1" OPEN_TO_OTHERS},
      {NULL,
       {"--http=:1", "--http-open=a b"},
       "--http-open: expected host names, separated by commas, got 'a b'"},
      {"SANDBOX_HTTP_KEY=" KEY,
       {"--http=:1", "--http-open"},
       "--http-open cannot be used with a key (SANDBOX_HTTP_KEY)"},
      {"SANDBOX_HTTP_KEY=" KEY,
       {"--http=:1", "--http-key-file=/k"},
       "--http-key-file cannot be used with SANDBOX_HTTP_KEY"},
      {"SANDBOX_HTTP_KEY=short",
       {"--http=localhost:1"},
       "SANDBOX_HTTP_KEY: a key has 16 to 256 characters"},
      {"SANDBOX_HTTP_KEY=0123456789 abcdef",
       {"--http=localhost:1"},
       "SANDBOX_HTTP_KEY: a key has only visible ASCII characters, and no spaces"});
}

TEST(a_route_has_a_path_that_requests_can_have, clear_environment) {
  static const char *const never[] = {"",      "/",         "a",      "/a/",   "//a",  "/a//b",
                                      "/.",    "/a/..",     "/a b",   "/a%20", "/a?b", "/a#b",
                                      "/a\\b", "/\xC3\xA4", "/v1/{}", "/a{",   "/a}"};
  static const char *const good[] = {"/a", "/predict/v1", "/.a", "/...", "/a..b:c,d"};
  struct options options;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_accepted(&options,
                    (const char *[]){"--mcp", "--http=localhost:1", "--http-path", good[i], NULL});
    assert_string_equal(options.http.path, good[i]);
    options_release(&options);
  }
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    assert_rejected((const char *[]){"--mcp", "--http=localhost:1", "--http-path", never[i], NULL},
                    formatted("--http-path: expected a path such as /predict, got '%s'", never[i]));
  static const char *const own[] = {"/health", "/metrics"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    assert_rejected((const char *[]){"--mcp", "--http=localhost:1", "--http-path", own[i], NULL},
                    formatted("--http-path: %s is another route", own[i]));
}

/* Writes the file and returns the error of the options, or the key, until the next call. */
static const char *key_of_file(const struct directory *directory, const char *bytes, size_t length,
                               int *code) {
  static struct error error;
  static char key[300];
  const char *path = directory_path(directory, "key");
  struct options options;
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  fclose(file);
  if (parse(&options, &error,
            (const char *[]){"--http=:1", formatted("--http-key-file=%s", path), NULL}) != 0) {
    *code = error.code;
    return error.text;
  }
  (void)snprintf(key, sizeof key, "%s", options.http.key);
  assert_string_equal(options.http.key_source, path);
  options_release(&options);
  *code = 0;
  return key;
}

TEST(the_key_can_be_the_content_of_a_file, clear_environment) {
  struct directory directory;
  struct options options;
  struct error error;
  int code;
  char longest[HTTP_KEY_MAX + 3];
  memset(longest, 'k', sizeof longest);
  directory_init(&directory);
  assert_string_equal(key_of_file(&directory, KEY, 16, &code), KEY);
  assert_string_equal(key_of_file(&directory, KEY "\n", 17, &code), KEY);
  assert_string_equal(key_of_file(&directory, KEY "\r\n", 18, &code), KEY);
  memcpy(longest + HTTP_KEY_MAX, "\r\n", 2);
  assert_int_equal(strlen(key_of_file(&directory, longest, HTTP_KEY_MAX + 2, &code)), HTTP_KEY_MAX);
  const struct {
    const char *bytes;
    size_t length;
    const char *why;
  } rows[] = {
      {"", 0, "characters"},       {"\n", 1, "characters"},           {KEY, 15, "characters"},
      {KEY "\n\n", 18, "visible"}, {"a" KEY "\0" KEY, 34, "visible"}, {KEY " ", 17, "visible"},
      {longest, 257, "visible"},   {longest, 259, "visible"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *text = key_of_file(&directory, rows[i].bytes, rows[i].length, &code);
    if (strstr(text, ": a key has") == NULL || strstr(text, rows[i].why) == NULL || code != 0)
      fail_msg("row %zu: %s", i, text);
  }
  assert_int_equal(
      parse(&options, &error,
            (const char *[]){"--http=:1",
                             formatted("--http-key-file=%s", directory_path(&directory, "no")),
                             NULL}),
      -1);
  assert_string_equal(error.text,
                      formatted("cannot read the key file %s: No such file or directory",
                                directory_path(&directory, "no")));
  assert_int_equal(error.code, ENOENT);
  assert_int_equal(
      parse(&options, &error, (const char *[]){"--http=:1", "--http-key-file=/", NULL}), -1);
  assert_int_equal(error.code, EISDIR);
  directory_release(&directory);
}

TEST(help_and_version_need_no_other_flag, clear_environment) {
  CHECK_ROWS({NULL, {"--help"}, "help"}, {NULL, {"--version"}, "version"},
             {NULL, {"--version", "--help"}, "version"},
             {NULL, {"--job-id", "j", "--help"}, "help"},
             {NULL, {"--redis-url=://", "--idle-cycles=x", "--help"}, "help"},
             {NULL, {"--help", "--unknown"}, "help"});
}

TEST(help_names_every_flag_and_exit_code, clear_environment) {
  char words[] =
      "--redis-url URL|--job-id ID|--idle-cycles N|--idle-exit-code N|--events-maxlen N|"
      "--hold-bytes N|"
      "--line-bytes N|default: 1048576|--key-ttl SECONDS|--run-id "
      "|--verbose|--dumpable|--help|--version|[REDIS_URL]|[JOB_ID]|"
      "--cacert FILE|--cacertdir DIR|--cert FILE|--key FILE|--sni NAME|--insecure|[REDIS_CACERT]|"
      "[REDIS_CACERTDIR]|[REDIS_CERT]|[REDIS_KEY]|[REDIS_SNI]|rediss://|rediss+sentinel://"
      "|ssl=true|"
      ", or AGENTSMITH_RUN_ID]|"
      ", or AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES]|SANDBOX_ and the "
      "name|redis+sentinel://|redis://|unix://|"
      "defaultDatabase|default: 30|default: 10000|default: 20000|default: 4194304|default: "
      "86400|"
      "--http ADDRESS|--http-key-file FILE|--http-open[=NAME,...]|--http-path "
      "PATH|SANDBOX_HTTP_KEY|"
      "0 shutdown|2 idle|3 an error|64 wrong usage|128+N";
  char *help, *rest = words;
  size_t size;
  FILE *out = open_memstream(&help, &size);
  assert_non_null(out);
  options_print_help(out);
  fclose(out);
  for (const char *word; (word = strsep(&rest, "|")) != NULL;)
    if (strstr(help, word) == NULL)
      fail_msg("no word of %s", word);
  free(help);
}

/* A script whose variable is not set must not start an agent without a key or without a list. */
TEST(an_empty_text_is_a_mistake_only_of_a_flag, clear_environment) {
  static const struct {
    const char *flag, *variable, *mode;
  } rows[] = {{"--job-id", "JOB_ID", "--once"},
              {"--run-id", "SANDBOX_RUN_ID", "--job-id=j"},
              {"--run-set", "SANDBOX_RUN_SET", "--job-id=j"},
              {"--cacert", "REDIS_CACERT", "--job-id=j"},
              {"--sni", "REDIS_SNI", "--job-id=j"},
              {"--ipc", "SANDBOX_IPC_DIR", "--ipc"},
              {"--http-key-file", "SANDBOX_HTTP_KEY_FILE", "--http=localhost:1"},
              {"--tool", "SANDBOX_TOOL", "--stdio"},
              {"--workdir", "SANDBOX_WORKDIR", "--mcp"},
              {"--env-files", "SANDBOX_ENV_FILES", "--ipc"},
              {"--mask-env", "SANDBOX_MASK_ENV", "--once"}};
  struct options options;
  assert_int_equal(setenv("REDIS_URL", "redis://h", 1), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_rejected((const char *[]){rows[i].mode, formatted("%s=", rows[i].flag), NULL},
                    formatted("%s: expected a value, got nothing", rows[i].flag));
    assert_int_equal(setenv(rows[i].variable, "", 1), 0);
    assert_accepted(&options, (const char *[]){rows[i].mode, NULL});
    options_release(&options);
  }
}

TEST(the_lists_of_commands_have_base_names, clear_environment) {
  static const char *const good[] = {"sh", "sh,bash", "sh, bash", " sh bash ,[", "g++,clang-17"};
  static const char *const never[] = {
      "",     ",", " ", "sh,", ",sh", "sh,,bash", "sh, ,bash", "/usr/bin/true", "sh,/bin/true",
      "true/"};
  struct options options;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_accepted(&options, (const char *[]){"--once", "--allow-commands", good[i],
                                               "--deny-commands", good[i], NULL});
    assert_string_equal(options.confinement.allowed_commands, good[i]);
    assert_string_equal(options.confinement.denied_commands, good[i]);
    options_release(&options);
  }
  for (size_t i = 0; i < 2 * sizeof never / sizeof *never; i++) {
    const char *flag = i % 2 == 0 ? "--allow-commands" : "--deny-commands";
    assert_rejected(
        (const char *[]){"--once", flag, never[i / 2], NULL},
        formatted("%s: expected base names, separated by commas, got '%s'", flag, never[i / 2]));
  }
}

TEST(wrong_usage_is_explained, clear_environment) {
  CHECK_ROWS({NULL, {NULL}, "--redis-url (or REDIS_URL) is required"},
             {NULL, {"--job-id=j"}, "--redis-url (or REDIS_URL) is required"},
             {"REDIS_URL=h", {"--redis-url=", "--job-id=j"}, "redis url: the host is missing"},
             {NULL, {"--redis-url=h"}, "--job-id (or JOB_ID) is required"},
             {NULL,
              {"--redis-url=h:x", "--job-id=j"},
              "redis url: the port must be a number from 1 to 65535"},
             {NULL, {"--redis-url"}, "a value is missing after '--redis-url'"},
             {NULL, {"--job-id=j", "--idle-cycles"}, "a value is missing after '--idle-cycles'"},
             {NULL,
              {"--redis-url=rediss://h", "--job-id=j", "--cert=c"},
              "--cert and --key: one without the other"},
             {NULL,
              {"--redis-url=rediss://h", "--job-id=j", "--key=k"},
              "--cert and --key: one without the other"},
             {NULL, {"--jump"}, "unknown option '--jump'"},
             {NULL, {"--jump=1", "--redis-url=h"}, "unknown option '--jump=1'"},
             {NULL, {"--h"}, "unknown option '--h'"}, /* it is ambiguous: --help, --hold-bytes */
             {NULL, {"-v"}, "unknown option '-v'"}, {NULL, {"-xyz"}, "unknown option '-x'"},
             {NULL, {"--verbose=yes"}, "no value is expected in '--verbose=yes'"},
             {NULL, {"stray"}, "unexpected argument 'stray'"},
             {NULL, {"--redis-url=h", "stray", "--job-id=j"}, "unexpected argument 'stray'"},
             {NULL, {REDIS, "--", "--verbose"}, "unexpected argument '--verbose'"},
             {NULL, {""}, "unexpected argument ''"},
             /* Only one frontend at a time. */
             {NULL, {"--mcp", "--stdio"}, "--stdio cannot be used with --mcp"},
             {NULL, {"--once", "--ipc"}, "--ipc cannot be used with --once"},
             {NULL, {"--inject=x", "--mcp"}, "--mcp cannot be used with --inject"},
             {NULL, {"--mcp", "--inject=x"}, "--inject cannot be used with --mcp"},
             {NULL, {"--inject="}, "--inject: expected a value, got nothing"},
             {NULL, {"--inject=x", "--job-id=j"}, "--job-id cannot be used with --inject"},
             {NULL, {"--fence={}", "--inject=x"}, "--fence cannot be used with --inject"},
             {NULL, {"--inject=x", "--http=:1"}, "--http cannot be used with --inject"},
             {NULL, {"--inject=x", "--workdir=/w"}, "--workdir cannot be used with --inject"},
             {NULL,
              {"--redis-url=h", "--inject=x"},
              "--redis-url cannot be used with --inject, which needs no Redis"},
             {NULL, {"as tool-runner", ""}, "--tool: expected a value, got nothing"},
             {NULL,
              {"--mcp", "--redis-url=h"},
              "--redis-url cannot be used with --mcp, which needs no Redis"},
             {NULL, {"--job-id=j", "--ipc"}, "--job-id cannot be used with --ipc"},
             {NULL, {"--stdio", "--structured"}, "--structured cannot be used with --stdio"},
             {NULL, {REDIS, "--tool=grep"}, "--tool cannot be used with Redis"},
             {NULL, {"--stdio", "--tool=sed"}, "--tool: unknown tool 'sed'"},
             {NULL, {"--mcp", "2025-11-25"}, "unexpected argument '2025-11-25'"},
             {NULL,
              {"as tool-runner", "--concurrency=2"},
              "--concurrency cannot be used with tool-runner"});
}

TEST(numbers_out_of_range_are_rejected, clear_environment) {
  static const struct {
    const char *flag;
    const char *good[2];
    const char *bad[2];
  } rows[] = {{"--idle-cycles", {"1", "525600000"}, {"0", "525600001"}},
              {"--idle-exit-code", {"0", "125"}, {"-0", "126"}},
              {"--events-maxlen", {"0", "4611686018427387904"}, {"-0", "4611686018427387905"}},
              {"--events-keep-bytes", {"0", "1099511627776"}, {"-0", "1099511627777"}},
              {"--events-pace", {"0", "1000000000"}, {"-0", "1000000001"}},
              {"--hold-bytes", {"65536", "1099511627776"}, {"65535", "1099511627777"}},
              {"--line-bytes", {"1024", "67108864"}, {"1023", "67108865"}},
              {"--memory-reserve", {"0", "4611686018427387904"}, {"-0", "4611686018427387905"}},
              {"--drain-seconds", {"0", "1000000"}, {"-0", "1000001"}},
              {"--nice", {"0", "19"}, {"-0", "20"}},
              {"--key-ttl", {"0", "3153600000"}, {"-0", "3153600001"}}};
  static const char *const never[] = {"",    "x",           "-1",   "+1",  " 5",
                                      "5 ",  "1e5",         "0x10", "1.5", "99999999999999999999",
                                      "5\n", "\xEF\xBC\x95"};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *arguments[] = {"--redis-url=h", "--job-id=j", rows[i].flag, "", NULL};
    for (size_t k = 0; k < 2; k++) {
      struct options options;
      arguments[3] = rows[i].good[k];
      assert_accepted(&options, arguments);
      options_release(&options);
    }
    for (size_t k = 0; k < 2 + sizeof never / sizeof never[0]; k++) {
      arguments[3] = k < 2 ? rows[i].bad[k] : never[k - 2];
      const char *message = formatted("%s: expected a whole number from %s to %s, got '%s'",
                                      rows[i].flag, rows[i].good[0], rows[i].good[1], arguments[3]);
      assert_rejected(arguments, message);
    }
  }
}

TEST(no_message_shows_a_password, clear_environment) {
  char url[512];
  for (int length = 6; length < 300; length += 7) {
    (void)snprintf(url, sizeof url, "redis://u:%0*d%s@h", length, 0, "s3cret");
    static const char *const first[] = {"--verbose", "--jump", "--"};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
      struct options options;
      struct error error = {.text = ""};
      assert_int_equal(parse(&options, &error, (const char *[]){first[i], url, NULL}), -1);
      assert_null(strstr(error.text, "s3cret"));
      assert_null(strstr(error.text, "u:0"));
    }
  }
  assert_rejected((const char *[]){"--redis-uri=redis://u:s3cret@h", NULL},
                  "unknown option '--redis-uri=redis://u:******@h'");
  assert_rejected((const char *[]){"h:1,password=s3cret", NULL},
                  "unexpected argument 'h:1,password=******'");
}
