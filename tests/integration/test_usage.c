/* The command line: what it answers itself, and what it refuses. */

#include "tests/support/agent_process.h"
#include "tests/test.h"

enum { BOUND_MS = 5000 };

static struct agent_process *run(const char *const *arguments, const char *const *environment,
                                 int expected) {
  struct agent_process *agent = agent_process_start(
      &(struct agent_setup){.arguments = arguments, .environment = environment});
  int code = agent_process_wait(agent, BOUND_MS);
  if (code != expected)
    agent_process_fail(agent, "exit code %d, not %d", code, expected);
  return agent;
}

static void expect_usage_error(const char *const *arguments, const char *const *environment,
                               const char *about) {
  struct agent_process *agent = run(arguments, environment, 64);
  if (strstr(agent_process_log(agent), about) == NULL)
    agent_process_fail(agent, "no word of `%s`", about);
  assert_string_equal(agent_process_output(agent), "");
  agent_process_free(agent);
}

TEST(help_names_every_flag) {
  static const char *const flags[] = {"--redis-url",
                                      "--job-id",
                                      "--verbose",
                                      "--idle-cycles",
                                      "--events-maxlen",
                                      "--hold-bytes",
                                      "--key-ttl",
                                      "--help",
                                      "--version",
                                      "--dumpable",
                                      "REDIS_URL",
                                      "JOB_ID",
                                      "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES",
                                      "--run-id",
                                      "AGENTSMITH_RUN_ID"};
  struct agent_process *agent = run((const char *const[]){"--help", NULL}, NULL, 0);
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    if (strstr(agent_process_output(agent), flags[i]) == NULL)
      agent_process_fail(agent, "--help does not speak of %s", flags[i]);
  }
  assert_string_equal(agent_process_log(agent), "");
  agent_process_free(agent);
}

TEST(version_names_the_libraries) {
  static const char *const names[] = {"hiredis 1.", "libevent 2.1.", "cJSON 1.7.", "PCRE2 10."};
  struct agent_process *agent = run((const char *const[]){"--version", NULL}, NULL, 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcasestr(agent_process_output(agent), names[i]) == NULL)
      agent_process_fail(agent, "--version says\n%s", agent_process_output(agent));
  }
  agent_process_free(agent);
}

TEST(help_needs_nothing_else) {
  agent_process_free(run((const char *const[]){"--job-id", "j", "--help", NULL}, NULL, 0));
}

#define URL "--redis-url", "redis://h"
#define JOB "--job-id", "j"

TEST(what_is_missing_or_unknown_is_named) {
  static const struct {
    const char *about;
    const char *arguments[6], *environment[2];
  } rows[] = {{"--redis-url", {NULL}, {NULL}},          {"--redis-url", {JOB}, {NULL}},
              {"--redis-url", {JOB}, {"REDIS_URL="}},   {"--job-id", {URL}, {NULL}},
              {"--job-id", {URL, "--job-id"}, {NULL}},  {"--job-id", {URL, "--job-id", ""}, {NULL}},
              {"--jump", {URL, JOB, "--jump"}, {NULL}}, {"stray", {URL, JOB, "stray"}, {NULL}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_usage_error(rows[i].arguments, rows[i].environment, rows[i].about);
}

TEST(a_number_has_to_be_one) {
  static const char *const flags[] = {"--idle-cycles", "--events-maxlen", "--hold-bytes",
                                      "--key-ttl"};
  static const char *const values[] = {"", "x", "-1", "1.5", "5x", " 5", "99999999999999999999"};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
      expect_usage_error((const char *const[]){URL, JOB, flags[i], values[k], NULL}, NULL,
                         flags[i]);
  }
}

TEST(a_url_has_to_be_one) {
  static const char *const urls[] = {
      "http://h",       "redis://", "redis://h:port",        "redis://h:70000",
      "redis://h/name", "unix://",  "h:1,defaultDatabase=x", "redis+sentinel://h:1"};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
    expect_usage_error((const char *const[]){"--redis-url", urls[i], "--job-id", "j", NULL}, NULL,
                       "redis");
}

TEST(a_bad_url_does_not_show_its_password) {
  struct agent_process *agent =
      run((const char *const[]){"--redis-url", "redis://u:s3cret@h:port", "--job-id", "j", NULL},
          NULL, 64);
  assert_null(strstr(agent_process_log(agent), "s3cret"));
  agent_process_free(agent);
}
