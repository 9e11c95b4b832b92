/* sandbox run while Redis is killed and restarted with its data: each line arrives once, and the
   exit code is kept. */

#include "tests/support/proxy.h"
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

TEST_OVERLAP(3)

/* Redis writes each change to the disk before it answers. */
static int setup_durable(void **state) {
  static const char *const extra[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
  *state = job_new(redis_server_start(extra));
  job_start_agent(*state, NULL);
  return 0;
}

#define DURABLE_TEST(NAME) TEST_WITH(struct job *job, NAME, setup_durable, job_teardown)

#define LINES 60
#define SCRIPT "i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); sleep 0.05; done; exit 3"

static void expect_lines(struct agent_process *client) {
  char expected[LINES * 4], *end = expected;
  for (int i = 0; i < LINES; i++)
    end += sprintf(end, "%d\n", i);
  assert_string_equal(agent_process_output(client), expected);
  for (const char *line = agent_process_log(client); *line != '\0'; line = strchr(line, '\n') + 1)
    assert_int_equal(strncmp(line, "cannot connect to ", 18), 0);
}

DURABLE_TEST(each_line_arrives_once_and_the_exit_code_is_kept) {
  struct agent_process *client = sandbox_start(job, "$S run -c '" SCRIPT "'");
  sandbox_wait_output(client, "0\n");
  job_restart_server(job);
  sandbox_wait_output(client, "30\n");
  job_restart_server(job);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 3);
  expect_lines(client);
  agent_process_free(client);
  job_wait_length(job, "results", 0);
}

/* The events have the numbers 1, 2, 3, …; the result follows. */
DURABLE_TEST(the_sequence_numbers_have_no_gap) {
  struct agent_process *client = sandbox_start(job, "$S --json run -c '" SCRIPT "'");
  sandbox_wait_output(client, "\n");
  job_restart_server(job);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 3);
  const char *at = agent_process_output(client);
  for (int seq = 1; seq <= LINES + 2; seq++) {
    const char *end = strchr(at, '\n'), *number = strstr(at, "\"seq\":");
    assert_true(end != NULL && number != NULL && number < end);
    assert_int_equal(strtol(number + 6, NULL, 10), seq);
    at = end + 1;
  }
  assert_int_equal(strncmp(at, "{\"result\":{", 11), 0);
  agent_process_free(client);
}

/* The step ends while its result cannot be pushed. */
DURABLE_TEST(a_step_that_ends_without_redis_keeps_its_code) {
  const char *gate = job_path(job, "gate");
  struct agent_process *client = sandbox_start(
      job, job_format(
               job, "$S run -c 'echo up; until [ -e %s ]; do sleep 0.02; done; echo down; exit 5'",
               gate));
  sandbox_wait_output(client, "\n");
  redis_server_kill(job->server);
  (void)job_write(job, "gate", "", 0644);
  agent_process_wait_log(job->agent, "exit=5");
  redis_server_restart(job->server);
  job_reconnect(job);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 5);
  assert_string_equal(agent_process_output(client), "up\ndown\n");
  agent_process_free(client);
  job_wait_length(job, "results", 0);
}

DURABLE_TEST(follow_continues_after_a_restart) {
  const char *id = "11111111-aaaa-4aaa-8aaa-000000000001";
  sandbox_expect(job, job_format(job, "$S run --detach --id %s -c '%s'", id, SCRIPT), 0, NULL, "");
  struct agent_process *client = sandbox_start(job, "exec $S follow 1111");
  sandbox_wait_output(client, "\n");
  job_restart_server(job);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 3);
  expect_lines(client);
  agent_process_free(client);
}

/* The kernel still accepts connections and data. */
DURABLE_TEST(a_frozen_redis_is_reported_as_gone) {
  struct agent_process *client = sandbox_start(job, "exec $S run -c 'echo up; sleep 300'");
  sandbox_wait_output(client, "\n");
  redis_server_freeze(job->server);
  assert_int_equal(agent_process_wait(client, 50000), 125);
  redis_server_thaw(job->server);
  assert_non_null(strstr(agent_process_log(client), "redis is gone"));
  agent_process_free(client);
}

static bool has_asked_and_waits(void *context) {
  return strstr(job_ask_text(context, "CLIENT LIST"), "name=sandbox-run ") != NULL;
}

/* The network may deliver the step after the client has given up its connection. */
JOB_TEST(a_step_is_not_pushed_again_after_a_silence) {
  const char *input = job_path(job, "input"), *runs = job_path(job, "runs");
  struct proxy *proxy = proxy_start(redis_server_port(job->server), NULL);
  assert_int_equal(mkfifo(input, 0600), 0);
  struct agent_process *client = sandbox_start(
      job, job_format(
               job, "exec $S -u redis://127.0.0.1:%d run --detach -w . -i -- sh -c 'cat >>%s' <%s",
               proxy_port(proxy), runs, input));
  const int input_fd = open(input, O_WRONLY | O_CLOEXEC);
  assert_true(wait_until(has_asked_and_waits, job, WAIT_BOUND_MS));
  proxy_freeze(proxy, RELAY_HEARTBEAT); /* the role of a connection that reads the heartbeat */
  assert_int_equal(write(input_fd, "ran\n", 4), 4);
  close(input_fd);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 125);
  assert_non_null(strstr(agent_process_log(client), " may still run"));
  agent_process_free(client);
  job_shut_down(job);
  assert_int_equal(access(runs, F_OK), -1); /* it was not pushed on another connection */
  proxy_stop(proxy);
}
