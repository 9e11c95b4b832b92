/* Deadlines: the whole process tree of the step ends (see also test_escape.c), no other process
   does, and the step is answered. */

#include "tests/support/job.h"

static cJSON *with_timeout(cJSON *step, int seconds) {
  cJSON_AddNumberToObject(step, "timeoutSeconds", seconds);
  return step;
}

JOB_TEST(a_step_over_its_deadline_is_ended) {
  job->schema_version = 2;
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = with_timeout(job_script(job, job_format(job, "exec %s", sleep)), 1);
  const cJSON *result = job_run(job, step);
  job_expect_result(job, result, -1, "timed out after 1s", NULL);
  assert_string_equal(job_lines(job, step, "completed"), "exit=-1 timedOut=True\n");
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
  assert_true(cJSON_GetObjectItem(result, "durationSeconds")->valuedouble >=
              0.99); /* timers have ticks of 4 ms */
}

JOB_TEST(output_before_the_deadline_is_kept) {
  const char *script = "trap 'echo bye; exit 0' TERM; echo out; echo err >&2; sleep 600 & wait";
  const cJSON *step, *result;
  int seconds = 3; /* a busy machine may need more */
  for (;; seconds *= 2) {
    step = with_timeout(job_script(job, script), seconds);
    result = job_run(job, step);
    if (seconds > 10 || strcmp(job_lines(job, step, "stderr"), "err\n") == 0)
      break;
  }
  job_expect_result(job, result, -1, job_format(job, "timed out after %ds", seconds), "out\nbye\n");
  assert_string_equal(job_lines(job, step, "stderr"), "err\n");
}

/* $SLEEP in the script is a unique `sleep 600`, which must not survive the deadline. */
static void expect_gone(struct job *job, const char *script) {
  const char *sleep = job_sleep(job, 600);
  cJSON *step = with_timeout(job_script(job, script), 1);
  cJSON_AddStringToObject(cJSON_AddObjectToObject(step, "env"), "SLEEP", sleep);
  job_expect_result(job, job_run(job, step), -1, "timed out after 1s", NULL);
  if (!proc_wait_gone(sleep, WAIT_BOUND_MS))
    job_fail(job, "`%s` has survived `%s`", sleep, script);
}

/* A stopped process handles SIGTERM only when it continues. */
JOB_TEST(a_stopped_process_does_not_survive_the_deadline) {
  expect_gone(job, "$SLEEP & kill -STOP $!; wait");
}

JOB_TEST(a_deadline_spares_the_processes_of_earlier_steps) {
  const char *earlier = job_sleep(job, 600);
  job_run(job, job_script(job, job_format(job, "%s >/dev/null 2>&1 &", earlier)));
  assert_int_not_equal(proc_wait_for(earlier, WAIT_BOUND_MS), 0);
  expect_gone(job, "setsid $SLEEP & sleep 600");
  assert_int_not_equal(proc_find(earlier), 0);
  job_shut_down(job);
  assert_true(proc_wait_gone(earlier, WAIT_BOUND_MS));
}

JOB_TEST(a_step_within_its_deadline_succeeds) {
  const cJSON *step = with_timeout(job_script(job, "sleep 1.2; echo made it"), 60);
  job_expect_result(job, job_run(job, step), 0, NULL, "made it\n");
}

TEST_OVERLAP(6)
