/* The agent restores lost connections by itself. */

#include "tests/support/job.h"
#include "tests/support/marks.h"

/* A result whose acknowledgement was lost arrives again: skips results of earlier steps. */
static const cJSON *result_of(struct job *job, const cJSON *step) {
  const cJSON *result;
  do
    result = job_result(job);
  while (strcmp(job_text(result, "stepId"), job_text(step, "stepId")) < 0);
  assert_string_equal(job_text(result, "stepId"), job_text(step, "stepId"));
  return result;
}

static void expect_step_to_run(struct job *job) {
  const cJSON *step = job_push_echo(job, "on");
  job_expect_result(job, result_of(job, step), 0, NULL, "on\n");
}

static void expect_to_go_on(struct job *job) {
  expect_step_to_run(job);
  job_shut_down(job);
}

static cJSON *gated_step(struct job *job, const char *gate) {
  return marks_step(job, job_format(job, "echo one; gate %s; echo two", gate));
}

JOB_TEST(an_idle_agent_reconnects_to_a_restarted_server) {
  job_run(job, job_step(job, "true", NULL));
  for (int round = 0; round < 3; round++) {
    job_restart_server(job);
    expect_step_to_run(job);
  }
  job_shut_down(job);
}

JOB_TEST(a_step_survives_a_restart_of_the_server) {
  const cJSON *step = job_push_until(job, gated_step(job, ""), "one");
  job_restart_server(job);
  marks_open_gate(job, "");
  job_expect_result(job, result_of(job, step), 0, NULL, "one\ntwo\n");
  /* The restarted server has lost the earlier events, but has all later ones. */
  assert_string_equal(job_lines(job, step, "completed"), "exit=0 timedOut=False\n");
  expect_to_go_on(job);
}

JOB_TEST(a_step_that_ends_during_an_outage_is_answered_afterwards) {
  const cJSON *step = job_push_until(job, gated_step(job, ""), "one");
  redis_server_kill(job->server);
  marks_open_gate(job, "");
  agent_process_wait_log(job->agent, "exit=0");
  redis_server_restart(job->server);
  job_reconnect(job);
  job_expect_result(job, result_of(job, step), 0, NULL, "one\ntwo\n");
  expect_to_go_on(job);
}

static void drop_connections(struct job *job) {
  (void)job_ask_number(job, "CLIENT KILL TYPE normal SKIPME yes");
}

JOB_TEST(the_agent_restores_dropped_connections) {
  for (int round = 0; round < 3; round++) {
    const char *gate = job_format(job, "%d", round);
    const cJSON *step = job_push_until(job, gated_step(job, gate), "one");
    drop_connections(job);
    marks_open_gate(job, gate);
    job_expect_result(job, result_of(job, step), 0, NULL, "one\ntwo\n");
    assert_string_equal(job_lines(job, step, "stdout"), "one\ntwo\n");
    drop_connections(job);
  }
  expect_to_go_on(job);
}

struct writer {
  pid_t pid;
  long written;
  int same; /* the number of checks in a row without new output */
};

static bool watch_writer(void *context) {
  struct writer *writer = context;
  char *io = proc_read(writer->pid, "io", NULL);
  const char *field = io == NULL ? NULL : strstr(io, "wchar: ");
  long written = field == NULL ? 0 : strtol(field + 7, NULL, 10);
  free(io);
  writer->same = written == writer->written ? writer->same + 1 : 0;
  writer->written = written;
  return written > 0 && writer->same > 50;
}

/* The agent stops reading until Redis acknowledges: the command blocks, and memory stays
   bounded. */
JOB_TEST_NO_AGENT(a_frozen_server_blocks_the_command) {
  job_start_agent(job, "--events-maxlen", "0", NULL);
  /* A command line that no other test uses. */
  const char *seq = job_path(job, "seq");
  const char *script =
      job_format(job, "ln -s \"$(command -v seq)\" %s; echo one; gate; exec %s 60000", seq, seq);
  const cJSON *step = job_push_until(job, marks_step(job, script), "one");
  redis_server_freeze(job->server);
  marks_open_gate(job, "");
  struct writer writer = {.pid = proc_wait_for(job_format(job, "%s 60000", seq), WAIT_BOUND_MS)};
  assert_int_not_equal(writer.pid, 0);
  if (!wait_until(watch_writer, &writer, WAIT_BOUND_MS))
    job_fail(job, "the command is not held back");
  long rss = proc_status_kib(agent_process_pid(job->agent), "VmRSS");
  if (agent_process_is_shipped() && rss > 16 * 1024)
    job_fail(job, "%ld KiB are resident", rss);
  redis_server_thaw(job->server);

  const cJSON *result = job_result(job);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  const char *lines = job_lines(job, step, "stdout");
  assert_memory_equal(lines, "one\n1\n2\n", 8);
  assert_string_equal(lines + strlen(lines) - 12, "59999\n60000\n");
  assert_int_equal(cJSON_GetArraySize(job_events(job, step)), 60003);
  expect_to_go_on(job);
}
