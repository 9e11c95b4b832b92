/* sandbox run while Redis is killed and comes back with its data: each line once, and the step's
   code. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/sandbox_client.h"
#include "tests/support/wait.h"
#include "tests/test.h"

TEST_OVERLAP(3)

/* What it has answered is on the disk, and comes back. */
static int setup_durable(void **state) {
  static const char *const extra[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
  *state = job_new(redis_server_start(extra));
  job_start_agent(*state, NULL);
  return 0;
}

#define DURABLE_TEST(NAME) TEST_WITH(struct job *job, NAME, setup_durable, job_teardown)

struct output {
  struct agent_process *client;
  size_t length; /* of what was seen */
};

static bool has_more_output(void *context) {
  const struct output *output = context;
  return strlen(agent_process_output(output->client)) > output->length;
}

static void wait_for_output(struct output *output) {
  assert_true(wait_until(has_more_output, output, WAIT_BOUND_MS));
  output->length = strlen(agent_process_output(output->client));
}

#define LINES 60
#define SCRIPT "i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); sleep 0.05; done; exit 3"

static void expect_lines(struct agent_process *client) {
  char expected[LINES * 4], *end = expected;
  for (int i = 0; i < LINES; i++)
    end += sprintf(end, "%d\n", i);
  assert_string_equal(agent_process_output(client), expected);
  assert_string_equal(agent_process_log(client), "");
}

DURABLE_TEST(each_line_comes_once_and_the_code_is_the_steps) {
  struct agent_process *client = sandbox_start(job, "$S run -c '" SCRIPT "'");
  struct output output = {.client = client};
  for (int i = 0; i < 2; i++) {
    wait_for_output(&output);
    job_restart_server(job);
  }
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 3);
  expect_lines(client);
  agent_process_free(client);
  job_wait_length(job, "results", 0);
}

/* The numbers of the events are 1, 2, 3, …, and then comes the result. */
DURABLE_TEST(the_numbers_have_no_gap) {
  struct agent_process *client = sandbox_start(job, "$S --json run -c '" SCRIPT "'");
  struct output output = {.client = client};
  wait_for_output(&output);
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

/* The step ends, and its result cannot be pushed yet. */
DURABLE_TEST(a_step_that_ends_meanwhile_has_its_code) {
  const char *gate = job_path(job, "gate");
  struct agent_process *client = sandbox_start(
      job, job_format(
               job, "$S run -c 'echo up; until [ -e %s ]; do sleep 0.02; done; echo down; exit 5'",
               gate));
  struct output output = {.client = client};
  wait_for_output(&output);
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

DURABLE_TEST(a_follow_goes_on_too) {
  const char *id = "11111111-aaaa-4aaa-8aaa-000000000001";
  sandbox_expect(job, job_format(job, "$S run --detach --id %s -c '%s'", id, SCRIPT), 0, NULL, "");
  struct agent_process *client = sandbox_start(job, "exec $S follow 1111");
  struct output output = {.client = client};
  wait_for_output(&output);
  job_restart_server(job);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 3);
  expect_lines(client);
  agent_process_free(client);
}

/* The kernel connects to it, and takes what is sent. */
DURABLE_TEST(a_server_that_stands_still_is_gone_after_a_while) {
  struct agent_process *client = sandbox_start(job, "exec $S run -c 'echo up; sleep 300'");
  struct output output = {.client = client};
  wait_for_output(&output);
  redis_server_freeze(job->server);
  assert_int_equal(agent_process_wait(client, 50000), 125);
  redis_server_thaw(job->server);
  assert_non_null(strstr(agent_process_log(client), "redis is gone"));
  agent_process_free(client);
}
