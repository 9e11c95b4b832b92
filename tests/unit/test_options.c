#include "agent/options.h"

#include "agent/doors/mcp/version.h"
#include "tests/support/quoted.h"
#include "tests/test.h"

enum { ARGUMENTS_MAX = 14 };

/* Every flag but those that say what the program does, and its variable. */
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
    {"--events-maxlen", "SANDBOX_EVENTS_MAXLEN", "7", "x"},
    {"--events-keep-bytes", "SANDBOX_EVENTS_KEEP_BYTES", "7", "-1"},
    {"--events-pace", "SANDBOX_EVENTS_PACE", "7", "1e3"},
    {"--hold-bytes", "SANDBOX_HOLD_BYTES", "70000", "7"},
    {"--line-bytes", "SANDBOX_LINE_BYTES", "7000", "7"},
    {"--key-ttl", "SANDBOX_KEY_TTL", "7", "x"},
    {"--dumpable", "SANDBOX_DUMPABLE", "1", "yes"},
    {"--verbose", "SANDBOX_VERBOSE", "true", "2"},
};

enum { TWINS = sizeof twins / sizeof *twins };

/* The same of the doors without steps, with one that each is for. */
static const struct {
  const char *flag, *variable, *good, *bad, *door;
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
  assert_int_equal(unsetenv("SANDBOX_INSECURE"), 0);
  return 0;
}

/* Parses copies, which are gone afterwards: what is kept must have been copied. */
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

static void assert_taken(struct options *options, const char *const *arguments) {
  struct error error = {"untouched"};
  if (parse(options, &error, arguments) != 0)
    fail_msg("%s", error.text);
  assert_string_equal(error.text, "untouched");
}

static void assert_refused(const char *const *arguments, const char *message) {
  struct options options;
  struct error error = {""};
  assert_int_equal(parse(&options, &error, arguments), -1);
  assert_string_equal(error.text, message);
  assert_null(options.job_id);
  assert_null(options.redis.host);
}

TEST(defaults, clear_environment) {
  struct options options;
  assert_taken(&options, (const char *[]){"--redis-url", "redis://h", "--job-id", "j", NULL});
  assert_int_equal(options.action, OPTIONS_RUN);
  assert_string_equal(options.redis.host, "h");
  assert_string_equal(options.job_id, "j");
  assert_false(options.verbose);
  assert_false(options.dumpable);
  assert_int_equal(options.idle_cycles, 30);
  assert_int_equal(options.events_maxlen, 10000);
  assert_int_equal(options.events_keep_bytes, 8388608);
  assert_int_equal(options.events_pace, 0);
  assert_int_equal(options.hold_bytes, 4194304);
  assert_int_equal(options.line_bytes, 1048576);
  assert_int_equal(options.key_ttl_seconds, 86400);
  options_release(&options);
  assert_null(options.job_id);
  assert_null(options.redis.host);
}

TEST(every_flag, clear_environment) {
  struct options options;
  assert_taken(&options,
               (const char *[]){"--verbose", "--dumpable", "--hold-bytes=65536", "--events-maxlen",
                                "0", "--idle-cycles", "1", "--job-id={pipe 42}", "--key-ttl", "60",
                                "--redis-url=unix://u:p@/s", NULL});
  assert_string_equal(options.redis.path, "/s");
  assert_string_equal(options.redis.password, "p");
  assert_string_equal(options.job_id, "{pipe 42}");
  assert_true(options.verbose);
  assert_true(options.dumpable);
  assert_int_equal(options.idle_cycles, 1);
  assert_int_equal(options.events_maxlen, 0);
  assert_int_equal(options.hold_bytes, 65536);
  assert_int_equal(options.key_ttl_seconds, 60);
  options_release(&options);
}

TEST(the_last_of_two_flags_counts, clear_environment) {
  struct options options;
  assert_taken(&options, (const char *[]){"--redis-url=a", "--job-id=1", "--redis-url=b",
                                          "--job-id=2", NULL});
  assert_string_equal(options.redis.host, "b");
  assert_string_equal(options.job_id, "2");
  options_release(&options);
}

TEST(a_flag_wins_even_when_it_is_of_no_use, clear_environment) {
  assert_int_equal(setenv("REDIS_URL", "redis-host:7,password=p", 1), 0);
  assert_int_equal(setenv("JOB_ID", "from-environment", 1), 0);
  assert_int_equal(setenv("AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES", "9", 1), 0);
  assert_refused((const char *[]){"--job-id=", NULL}, "--job-id (or JOB_ID) is required");
  assert_refused((const char *[]){"--idle-cycles=", NULL},
                 "--idle-cycles: expected a whole number from 1 to 525600000, got ''");
}

static void assert_sevens(const struct options *options) {
  assert_int_equal(options->idle_cycles, 7);
  assert_int_equal(options->events_maxlen, 7);
  assert_int_equal(options->events_keep_bytes, 7);
  assert_int_equal(options->events_pace, 7);
  assert_int_equal(options->hold_bytes, 70000);
  assert_int_equal(options->line_bytes, 7000);
  assert_int_equal(options->key_ttl_seconds, 7);
  assert_string_equal(options->run_id, "r");
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
  assert_taken(&options, (const char *[]){NULL});
  assert_sevens(&options);
  options_release(&options);
  for (size_t i = 0; i < TWINS; i++) {
    const char *value = twins[i].good;
    if (twins[i].bad == NULL)
      continue;
    assert_int_equal(setenv(twins[i].variable, twins[i].bad, 1), 0);
    const char *found = formatted("%s: ", twins[i].variable);
    struct error error = {""};
    assert_int_equal(parse(&options, &error, (const char *[]){NULL}), -1);
    assert_int_equal(strncmp(error.text, found, strlen(found)), 0);
    bool is_switch = i >= TWINS - 2;
    assert_taken(&options, (const char *[]){twins[i].flag, is_switch ? NULL : value, NULL});
    assert_sevens(&options);
    options_release(&options);
    assert_int_equal(setenv(twins[i].variable, value, 1), 0);
  }
  assert_int_equal(setenv("SANDBOX_VERBOSE", "0", 1), 0);
  assert_int_equal(setenv("SANDBOX_DUMPABLE", "false", 1), 0);
  assert_taken(&options, (const char *[]){NULL});
  assert_false(options.verbose);
  assert_false(options.dumpable);
  options_release(&options);
}

TEST(what_is_checked_by_tls, clear_environment) {
  struct options options;
  assert_taken(&options, (const char *[]){"--redis-url=h,ssl=true,sslHost=a", "--job-id=j", NULL});
  assert_string_equal(options.tls.name, "a");
  assert_false(options.tls.insecure);
  options_release(&options);
  assert_taken(&options, (const char *[]){"--redis-url=h,ssl=true,sslHost=a", "--job-id=j",
                                          "--sni=b", "--insecure", NULL});
  assert_string_equal(options.tls.name, "b");
  assert_true(options.tls.insecure);
  options_release(&options);
  assert_int_equal(setenv("SANDBOX_INSECURE", "1", 1), 0);
  assert_taken(&options, (const char *[]){"--redis-url=rediss://h", "--job-id=j", NULL});
  assert_true(options.tls.insecure);
  options_release(&options);
}

TEST(an_empty_variable_is_none, clear_environment) {
  struct options options;
  assert_int_equal(setenv("REDIS_URL", "", 1), 0);
  assert_int_equal(setenv("AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES", "", 1), 0);
  assert_taken(&options, (const char *[]){"--redis-url=h", "--job-id=j", NULL});
  assert_int_equal(options.idle_cycles, 30);
  options_release(&options);
  assert_refused((const char *[]){"--job-id=j", NULL}, "--redis-url (or REDIS_URL) is required");
}

TEST(a_pace_of_the_variable_counts_with_a_run, clear_environment) {
  static const char *const paces[] = {"0", "500"};
  for (size_t i = 0; i < sizeof paces / sizeof *paces; i++) {
    struct options options;
    assert_int_equal(setenv("SANDBOX_EVENTS_PACE", paces[i], 1), 0);
    assert_taken(&options, (const char *[]){"--redis-url=h", "--job-id=j", "--run-id=r", NULL});
    assert_int_equal(options.events_pace, strtoull(paces[i], NULL, 10));
    options_release(&options);
  }
}

TEST(a_run_is_named_by_flag_or_variable, clear_environment) {
  static const struct {
    const char *variable;
    const char *arguments[6];
    const char *run_id;
    unsigned idle_cycles;
    unsigned events_pace; /* the server of a run polls */
  } rows[] = {{NULL, {"--redis-url=h", "--job-id=j"}, NULL, 30, 0},
              {"", {"--redis-url=h", "--job-id=j"}, NULL, 30, 0},
              {"of the variable", {"--redis-url=h", "--job-id=j"}, "of the variable", 30, 20000},
              {"r", {"--redis-url=h", "--job-id=j", "--idle-cycles=5"}, "r", 5, 20000},
              {"r", {"--redis-url=h", "--job-id=j", "--events-pace=0"}, "r", 30, 0},
              {"r", {"--redis-url=h", "--job-id=j", "--events-pace=7"}, "r", 30, 7},
              {NULL, {"--redis-url=h", "--job-id=j", "--run-id", "run 7"}, "run 7", 30, 20000},
              {NULL, {"--redis-url=h", "--job-id=j", "--events-pace=20000"}, NULL, 30, 20000},
              {"of the variable", {"--redis-url=h", "--job-id=j", "--run-id=7"}, "7", 30, 20000},
              {"of the variable", {"--redis-url=h", "--job-id=j", "--run-id="}, NULL, 30, 0}};
  struct options general;
  assert_int_equal(setenv("SANDBOX_RUN_ID", "general", 1), 0);
  assert_int_equal(setenv("SANDBOX_RUN_SET", "runs", 1), 0);
  assert_int_equal(setenv("AGENTSMITH_RUN_ID", "of one server", 1), 0);
  assert_taken(&general, (const char *[]){"--redis-url=h", "--job-id=j", NULL});
  assert_string_equal(general.run_id, "general");
  assert_string_equal(general.run_set, "runs");
  options_release(&general);
  assert_int_equal(unsetenv("SANDBOX_RUN_ID") | unsetenv("SANDBOX_RUN_SET"), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct options options;
    assert_int_equal(unsetenv("AGENTSMITH_RUN_ID"), 0);
    if (rows[i].variable != NULL)
      assert_int_equal(setenv("AGENTSMITH_RUN_ID", rows[i].variable, 1), 0);
    assert_taken(&options, rows[i].arguments);
    assert_int_equal(options.idle_cycles, rows[i].idle_cycles);
    assert_int_equal(options.events_pace, rows[i].events_pace);
    assert_string_equal(options.run_set, "agentsmith:runs:active");
    if (rows[i].run_id == NULL)
      assert_null(options.run_id);
    else
      assert_string_equal(options.run_id, rows[i].run_id);
    options_release(&options);
    assert_null(options.run_id);
  }
}

TEST(help_and_version_need_nothing, clear_environment) {
  static const struct {
    const char *arguments[4];
    enum options_action action;
  } rows[] = {{{"--help"}, OPTIONS_HELP},
              {{"--version"}, OPTIONS_VERSION},
              {{"--version", "--help"}, OPTIONS_VERSION},
              {{"--job-id", "j", "--help"}, OPTIONS_HELP},
              {{"--redis-url=://", "--idle-cycles=x", "--help"}, OPTIONS_HELP},
              {{"--help", "--unknown"}, OPTIONS_HELP}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct options options;
    assert_taken(&options, rows[i].arguments);
    assert_int_equal(options.action, rows[i].action);
    options_release(&options);
  }
}

TEST(help_names_every_flag_and_exit_code, clear_environment) {
  char words[] =
      "--redis-url URL|--job-id ID|--idle-cycles N|--events-maxlen N|--hold-bytes N|"
      "--line-bytes N|default 1048576|--key-ttl SECONDS|--run-id "
      "|--verbose|--dumpable|--help|--version|[REDIS_URL]|[JOB_ID]|"
      "--cacert FILE|--cacertdir DIR|--cert FILE|--key FILE|--sni NAME|--insecure|[REDIS_CACERT]|"
      "[REDIS_CACERTDIR]|[REDIS_CERT]|[REDIS_KEY]|[REDIS_SNI]|rediss://|rediss+sentinel://"
      "|ssl=true|"
      ", or AGENTSMITH_RUN_ID]|"
      ", or AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES]|SANDBOX_ and the "
      "name|redis+sentinel://|redis://|unix://|"
      "defaultDatabase|default 30|default 10000|default 20000|default 4194304|default "
      "86400|"
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

TEST(wrong_usage, clear_environment) {
  static const struct {
    const char *arguments[5];
    const char *message;
  } rows[] = {
      {{NULL}, "--redis-url (or REDIS_URL) is required"},
      {{"--job-id=j"}, "--redis-url (or REDIS_URL) is required"},
      {{"--redis-url=", "--job-id=j"}, "--redis-url (or REDIS_URL) is required"},
      {{"--redis-url=h"}, "--job-id (or JOB_ID) is required"},
      {{"--redis-url=h:x", "--job-id=j"}, "redis url: the port must be a number from 1 to 65535"},
      {{"--redis-url"}, "a value is missing after '--redis-url'"},
      {{"--job-id=j", "--idle-cycles"}, "a value is missing after '--idle-cycles'"},
      {{"--redis-url=rediss://h", "--job-id=j", "--cert=c"},
       "--cert and --key: one without the other"},
      {{"--redis-url=rediss://h", "--job-id=j", "--key=k"},
       "--cert and --key: one without the other"},
      {{"--jump"}, "unknown option '--jump'"},
      {{"--jump=1", "--redis-url=h"}, "unknown option '--jump=1'"},
      {{"--h"}, "unknown option '--h'"}, /* may be two of them */
      {{"-v"}, "unknown option '-v'"},
      {{"-xyz"}, "unknown option '-x'"},
      {{"--verbose=yes"}, "no value is expected in '--verbose=yes'"},
      {{"stray"}, "unexpected argument 'stray'"},
      {{"--redis-url=h", "stray", "--job-id=j"}, "unexpected argument 'stray'"},
      {{"--redis-url=h", "--job-id=j", "--", "--verbose"}, "unexpected argument '--verbose'"},
      {{""}, "unexpected argument ''"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_refused(rows[i].arguments, rows[i].message);
}

TEST(numbers, clear_environment) {
  static const struct {
    const char *flag;
    const char *good[2];
    const char *bad[2];
  } rows[] = {{"--idle-cycles", {"1", "525600000"}, {"0", "525600001"}},
              {"--events-maxlen", {"0", "4611686018427387904"}, {"-0", "4611686018427387905"}},
              {"--events-keep-bytes", {"0", "1099511627776"}, {"-0", "1099511627777"}},
              {"--events-pace", {"0", "1000000000"}, {"-0", "1000000001"}},
              {"--hold-bytes", {"65536", "1099511627776"}, {"65535", "1099511627777"}},
              {"--line-bytes", {"1024", "67108864"}, {"1023", "67108865"}},
              {"--key-ttl", {"0", "3153600000"}, {"-0", "3153600001"}}};
  static const char *const never[] = {"",    "x",           "-1",   "+1",  " 5",
                                      "5 ",  "1e5",         "0x10", "1.5", "99999999999999999999",
                                      "5\n", "\xEF\xBC\x95"};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *arguments[] = {"--redis-url=h", "--job-id=j", rows[i].flag, "", NULL};
    for (size_t k = 0; k < 2; k++) {
      struct options options;
      arguments[3] = rows[i].good[k];
      assert_taken(&options, arguments);
      options_release(&options);
    }
    for (size_t k = 0; k < 2 + sizeof never / sizeof never[0]; k++) {
      arguments[3] = k < 2 ? rows[i].bad[k] : never[k - 2];
      const char *message = formatted("%s: expected a whole number from %s to %s, got '%s'",
                                      rows[i].flag, rows[i].good[0], rows[i].good[1], arguments[3]);
      assert_refused(arguments, message);
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
      struct error error = {""};
      assert_int_equal(parse(&options, &error, (const char *[]){first[i], url, NULL}), -1);
      assert_null(strstr(error.text, "s3cret"));
      assert_null(strstr(error.text, "u:0"));
    }
  }
  assert_refused((const char *[]){"--redis-uri=redis://u:s3cret@h", NULL},
                 "unknown option '--redis-uri=redis://u:******@h'");
  assert_refused((const char *[]){"h:1,password=s3cret", NULL},
                 "unexpected argument 'h:1,password=******'");
}

TEST(once_needs_nothing_else, clear_environment) {
  struct options options;
  assert_taken(&options, (const char *[]){"--once", NULL});
  assert_int_equal(options.action, OPTIONS_ONCE);
  assert_null(options.job_id);
  assert_null(options.redis.host);
  assert_false(options.verbose);
  options_release(&options);
  assert_taken(&options, (const char *[]){"--verbose", "--once", "--job-id", "j", NULL});
  assert_int_equal(options.action, OPTIONS_ONCE);
  assert_string_equal(options.job_id, "j");
  assert_true(options.verbose);
  options_release(&options);
}

/* What a pod sets for all of its programs is no mistake; what somebody types is. */
TEST(once_knows_no_redis, clear_environment) {
  static const char *const flags[] = {"--redis-url",         "--run-id",        "--idle-cycles",
                                      "--hold-bytes",        "--events-maxlen", "--key-ttl",
                                      "--events-keep-bytes", "--events-pace"};
  struct options options;
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    const char *message = formatted("%s: not with --once, which needs no Redis", flags[i]);
    assert_refused((const char *[]){"--once", flags[i], "1", NULL}, message);
    assert_refused((const char *[]){flags[i], "1", "--once", NULL}, message);
  }
  assert_int_equal(setenv("REDIS_URL", "no url at all", 1), 0);
  assert_int_equal(setenv("AGENTSMITH_RUN_ID", "r", 1), 0);
  assert_int_equal(setenv("AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES", "no number", 1), 0);
  assert_int_equal(setenv("JOB_ID", "from-environment", 1), 0);
  assert_int_equal(setenv("SANDBOX_KEY_TTL", "no number", 1), 0);
  assert_int_equal(setenv("SANDBOX_LINE_BYTES", "7000", 1), 0);
  assert_taken(&options, (const char *[]){"--once", NULL});
  assert_int_equal(options.line_bytes, 7000);
  assert_string_equal(options.job_id, "from-environment");
  assert_null(options.redis.host);
  assert_null(options.run_id);
  options_release(&options);
  assert_int_equal(setenv("JOB_ID", "", 1), 0);
  assert_taken(&options, (const char *[]){"--once", NULL});
  assert_null(options.job_id);
  options_release(&options);
}

TEST(a_door_has_its_defaults, clear_environment) {
  static const struct {
    const char *argument;
    enum options_action action;
    unsigned max_timeout;
  } rows[] = {
      {"--ipc", OPTIONS_IPC, 120}, {"--stdio", OPTIONS_STDIO, 600}, {"--mcp", OPTIONS_MCP, 600}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct options options;
    assert_taken(&options, (const char *[]){rows[i].argument, NULL});
    assert_int_equal(options.action, rows[i].action);
    assert_int_equal(options.default_timeout, 30);
    assert_int_equal(options.max_timeout, rows[i].max_timeout);
    assert_int_equal(options.concurrency, 16);
    assert_int_equal(options.deadline, 0);
    assert_string_equal(options.ipc_directory, "/ipc");
    assert_null(options.tool);
    assert_int_equal(options.mcp_versions, 0);
    assert_null(options.workdir);
    assert_null(options.env_files);
    assert_false(options.tool_runner);
    assert_false(options.structured);
    options_release(&options);
  }
}

TEST(a_door_may_have_an_argument, clear_environment) {
  struct options options;
  assert_taken(&options, (const char *[]){"--mcp=2025-11-25,2026-07-28", NULL});
  assert_int_equal(options.mcp_versions, 1U << MCP_2025_11_25 | 1U << MCP_2026_07_28);
  options_release(&options);
  assert_int_equal(setenv("SANDBOX_IPC_DIR", "/variable", 1), 0);
  assert_taken(&options, (const char *[]){"--ipc=/flag", NULL});
  assert_string_equal(options.ipc_directory, "/flag");
  options_release(&options);
  assert_taken(&options, (const char *[]){"--ipc", NULL});
  assert_string_equal(options.ipc_directory, "/variable");
  options_release(&options);
  assert_taken(&options, (const char *[]){"--mcp", NULL});
  assert_int_equal(options.action, OPTIONS_MCP);
  options_release(&options);
}

/* Every value that may be wrong is refused with its door, and nobody minds it elsewhere. */
TEST(flags_of_doors_have_variables, clear_environment) {
  struct options options;
  for (size_t i = 0; i < TOOL_TWINS; i++) {
    struct error error;
    const char *const by_flag[] = {tool_twins[i].door, tool_twins[i].flag, tool_twins[i].bad, NULL};
    const char *const by_variable[] = {tool_twins[i].door, NULL};
    if (tool_twins[i].bad != NULL) {
      bool is_switch = strcmp(tool_twins[i].bad, "yes") == 0;
      assert_int_equal(is_switch ? -1 : parse(&options, &error, by_flag), -1);
      assert_int_equal(setenv(tool_twins[i].variable, tool_twins[i].bad, 1), 0);
      assert_int_equal(parse(&options, &error, by_variable), -1);
      assert_taken(&options, (const char *[]){"--once", NULL});
      options_release(&options);
    }
    assert_int_equal(setenv(tool_twins[i].variable, tool_twins[i].good, 1), 0);
  }
  assert_taken(&options, (const char *[]){"--stdio", NULL});
  assert_string_equal(options.tool, "grep");
  assert_int_equal(options.deadline, 7);
  assert_int_equal(options.default_timeout, 7);
  assert_int_equal(options.max_timeout, 7);
  assert_string_equal(options.workdir, "/w");
  options_release(&options);
  assert_taken(&options, (const char *[]){"--ipc", NULL});
  assert_int_equal(options.concurrency, 7);
  assert_string_equal(options.env_files, "A=/a");
  options_release(&options);
  assert_taken(&options, (const char *[]){"--mcp", NULL});
  assert_true(options.structured);
  options_release(&options);
}

TEST(the_name_of_the_program_may_choose_its_door, clear_environment) {
  static const struct {
    const char *program;
    const char *arguments[3];
    enum options_action action;
    bool tool_runner;
    const char *tool;
  } rows[] = {{"/usr/local/bin/tool-executor.sh", {NULL}, OPTIONS_IPC, false, NULL},
              {"tool-executor", {"--concurrency=2"}, OPTIONS_IPC, false, NULL},
              {"tool-executor", {"--mcp"}, OPTIONS_MCP, false, NULL},
              {"/x/tool-runner", {"grep"}, OPTIONS_STDIO, true, "grep"},
              {"tool-runner", {"no_such_tool"}, OPTIONS_STDIO, true, "no_such_tool"},
              {"tool-runner", {"--version"}, OPTIONS_VERSION, false, NULL},
              {"tool-runner", {"--inject=x"}, OPTIONS_INJECT, false, NULL},
              {"./read_file", {NULL}, OPTIONS_STDIO, false, "read_file"},
              {"./read_file", {"--tool=grep"}, OPTIONS_STDIO, false, "grep"},
              {"directory_tree", {"--once"}, OPTIONS_ONCE, false, NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct options options;
    struct error error = {""};
    if (parse_as(rows[i].program, &options, &error, rows[i].arguments) != 0)
      fail_msg("%s: %s", rows[i].program, error.text);
    assert_int_equal(options.action, rows[i].action);
    assert_int_equal(options.tool_runner, rows[i].tool_runner);
    if (rows[i].tool != NULL)
      assert_string_equal(options.tool, rows[i].tool);
    else
      assert_null(options.tool);
    options_release(&options);
  }
}

TEST(a_tool_runner_may_find_its_tool_in_the_environment, clear_environment) {
  struct options options;
  struct error error;
  assert_int_equal(setenv("TOOL_NAME", "grep", 1), 0);
  assert_int_equal(parse_as("tool-runner", &options, &error, (const char *[]){NULL}), 0);
  assert_string_equal(options.tool, "grep");
  options_release(&options);
  assert_int_equal(parse_as("tool-runner", &options, &error, (const char *[]){"read_file", NULL}),
                   0);
  assert_string_equal(options.tool, "read_file");
  options_release(&options);
  assert_int_equal(unsetenv("TOOL_NAME"), 0);
}

TEST(a_tool_that_is_named_wins_over_its_variable, clear_environment) {
  struct options options;
  struct error error;
  assert_int_equal(setenv("SANDBOX_TOOL", "grep", 1), 0);
  assert_int_equal(parse_as("tool-runner", &options, &error, (const char *[]){"read_file", NULL}),
                   0);
  assert_string_equal(options.tool, "read_file");
  options_release(&options);
  assert_int_equal(parse_as("./write_file", &options, &error, (const char *[]){NULL}), 0);
  assert_string_equal(options.tool, "write_file");
  options_release(&options);
  assert_int_equal(unsetenv("SANDBOX_TOOL"), 0);
}

TEST(a_tool_runner_is_named_as_it_was_called, clear_environment) {
  struct options options;
  struct error error;
  const char *const arguments[] = {"--concurrency=2", NULL};
  assert_int_equal(parse_as("tool-runner", &options, &error, arguments), -1);
  assert_string_equal(error.text, "--concurrency: not with tool-runner");
}

TEST(one_door_is_enough, clear_environment) {
  assert_refused((const char *[]){"--mcp", "--stdio", NULL}, "--stdio: not with --mcp");
  assert_refused((const char *[]){"--once", "--ipc", NULL}, "--ipc: not with --once");
  assert_refused((const char *[]){"--inject=x", "--mcp", NULL}, "--mcp: not with --inject");
  assert_refused((const char *[]){"--mcp", "--inject=x", NULL}, "--inject: not with --mcp");
  assert_refused((const char *[]){"--mcp", "--redis-url=h", NULL},
                 "--redis-url: not with --mcp, which needs no Redis");
  assert_refused((const char *[]){"--job-id=j", "--ipc", NULL}, "--job-id: not with --ipc");
  assert_refused((const char *[]){"--stdio", "--structured", NULL},
                 "--structured: not with --stdio");
  assert_refused((const char *[]){"--redis-url=h", "--job-id=j", "--tool=grep", NULL},
                 "--tool: not with Redis");
  assert_refused((const char *[]){"--stdio", "--tool=sed", NULL}, "--tool: unknown tool 'sed'");
  assert_refused((const char *[]){"--mcp", "2025-11-25", NULL}, "unexpected argument '2025-11-25'");
}
