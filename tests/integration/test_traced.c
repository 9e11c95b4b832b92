/* Commands that ask to be traced by their parent (PTRACE_TRACEME): it is the agent, which does not
   want to know. They go on as if they had not asked. */

#include "tests/support/command.h"
#include "tests/support/job.h"

enum { DONE = 40, SECONDS = 20 };

TEST_OVERLAP(4)

static int setup(void **state) {
  job_setup(state);
  struct job *job = *state;
  command_build("traced", "", job_path(job, "traced"));
  return 0;
}

#define TRACED_TEST(NAME) TEST_WITH(struct job *job, NAME, setup, job_teardown)

static const cJSON *run(struct job *job, const char *mode) {
  cJSON *step = job_step(job, job_path(job, "traced"), mode, NULL);
  cJSON_AddNumberToObject(step, "timeoutSeconds", SECONDS);
  return job_run_within(job, step, 2 * SECONDS * 1000);
}

static void expect_done(struct job *job, const char *mode) {
  const cJSON *result = run(job, mode);
  int code = cJSON_GetObjectItem(result, "exitCode")->valueint;
  if (code != DONE)
    job_fail(job, "%s ends with %d: %s", mode, code, job_text(result, "errorMessage"));
}

TRACED_TEST(a_child_of_it_ends) {
  expect_done(job, "child");
}

TRACED_TEST(it_executes_another_program) {
  expect_done(job, "exec");
  expect_done(job, "exec-exec");
}

TRACED_TEST(it_stops_for_its_tracer) {
  expect_done(job, "stop");
}

TRACED_TEST(it_gets_a_signal_that_it_ignores) {
  expect_done(job, "ignored");
}

TRACED_TEST(another_process_stops_it_and_lets_it_go_on) {
  expect_done(job, "group-stop");
  expect_done(job, "group");
}

TRACED_TEST(its_handlers_are_called) {
  expect_done(job, "handled");
  expect_done(job, "trap");
  expect_done(job, "breakpoint");
}

TRACED_TEST(signals_end_it) {
  job_expect_part(job, run(job, "killed"), "errorMessage", "SIGTERM");
  job_expect_part(job, run(job, "crashed"), "errorMessage", "SIGABRT");
}

TRACED_TEST(a_thread_of_it_asks) {
  expect_done(job, "thread");
  expect_done(job, "thread-end");
  expect_done(job, "thread-group-stop");
}

TRACED_TEST(an_orphan_asks) {
  expect_done(job, "orphan");
}

TRACED_TEST(it_makes_a_child_that_is_traced) {
  expect_done(job, "traced-child");
}

TRACED_TEST(it_asks_again_and_again) {
  expect_done(job, "again");
}

/* The loop is free, and the end of other children is seen. */
TRACED_TEST(many_that_ask_again_and_again_delay_nobody) {
  expect_done(job, "restless");
  for (int i = 0; i < 20; i++)
    job_expect_result(job, job_run(job, job_step(job, "echo", "hello", NULL)), 0, NULL, "hello\n");
  job_shut_down(job);
}
