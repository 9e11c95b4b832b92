/* The command line: --help, --version and wrong usage. */

#include "tests/support/agent_process.h"
#include "tests/test.h"

#define URL "--redis-url", "redis://h"
#define JOB "--job-id", "j"

static struct agent_process *run(const char *const *arguments, const char *const *environment,
                                 int expected) {
  struct agent_process *agent = agent_process_start(
      &(struct agent_setup){.arguments = arguments, .environment = environment});
  int code = agent_process_wait(agent, WAIT_BOUND_MS);
  if (code != expected)
    agent_process_fail(agent, "exit code %d, not %d", code, expected);
  return agent;
}

static void expect_usage_error(const char *const *arguments, const char *const *environment,
                               const char *about) {
  struct agent_process *agent = run(arguments, environment, 64);
  if (strstr(agent_process_log(agent), about) == NULL)
    agent_process_fail(agent, "the log lacks `%s`", about);
  assert_string_equal(agent_process_output(agent), "");
  assert_null(strstr(agent_process_log(agent), "s3cret"));
  agent_process_free(agent);
}

TEST(help_prints_only_to_standard_output) {
  struct agent_process *agent = run((const char *const[]){JOB, "--help", NULL}, NULL, 0);
  assert_non_null(strstr(agent_process_output(agent), "--redis-url"));
  assert_string_equal(agent_process_log(agent), "");
  agent_process_free(agent);
}

TEST(version_names_the_libraries) {
  static const char *const names[] = {"libevent 2.1.", "cJSON 1.7.", "PCRE2 10.", "mbedTLS 3.6."};
  struct agent_process *agent = run((const char *const[]){"--version", NULL}, NULL, 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcasestr(agent_process_output(agent), names[i]) == NULL)
      agent_process_fail(agent, "--version says\n%s", agent_process_output(agent));
  }
  agent_process_free(agent);
}

static void put_output_on_a_full_disk(const void *context) {
  (void)context;
  if (dup2(open("/dev/full", O_WRONLY | O_CLOEXEC), STDOUT_FILENO) < 0)
    _exit(99);
}

TEST(output_that_cannot_be_written_is_an_error) {
  static const char *const flags[] = {"--help", "--version"};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    struct agent_process *agent = agent_process_start(&(struct agent_setup){
        .arguments = (const char *const[]){flags[i], NULL}, .prepare = put_output_on_a_full_disk});
    assert_int_equal(agent_process_wait(agent, WAIT_BOUND_MS), 3);
    assert_string_equal(agent_process_log(agent),
                        "agent: standard output: No space left on device\n");
    agent_process_free(agent);
  }
}

TEST(wrong_usage_is_named) {
  static const struct {
    const char *about;
    const char *arguments[6], *environment[2];
  } rows[] = {{"--redis-url", {NULL}, {NULL}},
              {"--redis-url", {JOB}, {"REDIS_URL="}},
              {"--job-id", {URL}, {NULL}},
              {"stray", {URL, JOB, "stray"}, {NULL}},
              {"SANDBOX_KEY_TTL", {URL, JOB}, {"SANDBOX_KEY_TTL=x"}},
              {"******@h", {JOB, "--redis-uri=redis://u:s3cret@h"}, {NULL}},
              {"redis url: ", {JOB, "--redis-url", "redis://u:s3cret@h:port"}, {NULL}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_usage_error(rows[i].arguments, rows[i].environment, rows[i].about);
}
