/* Commands that ask to be traced by their parent (PTRACE_TRACEME), which is their supervisor. They
   continue as if they had not asked. */

#include "tests/support/command.h"
#include "tests/support/job.h"

enum { DONE = 40, SECONDS = 20 };

COMMAND_GROUP("traced")

static const cJSON *run(struct job *job, const char *mode) {
  cJSON *step = job_step(job, command_path("traced"), mode, NULL);
  cJSON_AddNumberToObject(step, "timeoutSeconds", SECONDS);
  return job_run_within(job, step, 2 * SECONDS * 1000);
}

/* Runs each mode of traced_command.c, which are separated by spaces. */
static void expect_done(struct job *job, const char *modes) {
  const char *mode;
  for (size_t i = 0; (mode = nth_word(modes, i)) != NULL; i++) {
    const cJSON *result = run(job, mode);
    if (job_number(result, "exitCode") != DONE)
      job_fail(job, "%s: exit code %.0f: %s", mode, job_number(result, "exitCode"),
               job_text(result, "errorMessage"));
  }
}

JOB_TEST(a_traced_command_executes_and_waits_for_children) {
  expect_done(job, "child exec exec-exec orphan traced-child");
}

JOB_TEST(a_traced_command_stops_and_continues) {
  expect_done(job, "stop group-stop group");
}

JOB_TEST(a_traced_command_gets_its_signals) {
  expect_done(job, "ignored handled trap breakpoint");
  job_expect_part(job, run(job, "killed"), "errorMessage", "SIGTERM");
  job_expect_part(job, run(job, "crashed"), "errorMessage", "SIGABRT");
}

JOB_TEST(a_thread_may_ask_to_be_traced) {
  expect_done(job, "thread thread-end thread-group-stop");
}

/* The supervisor also reaps other children. */
JOB_TEST(processes_that_ask_again_and_again_delay_no_other_step) {
  expect_done(job, "again restless");
  for (int i = 0; i < 20; i++)
    job_expect_result(job, job_run(job, job_step(job, "echo", "hello", NULL)), 0, NULL, "hello\n");
  job_shut_down(job);
}

TEST_OVERLAP(4)
