/* How soon a step is answered after its deadline, or if it leaves a background process. */

#include "tests/support/job.h"
#include "tests/support/machine_clock.h"

/* $SLEEP in the scripts is a unique process. The time is from the push to the answer. */
struct row {
  const char *script;
  int timeout_seconds;
  int bound_ms;
  int exit_code;
};

static void expect_answer_in_time(struct job *job, const struct row *row) {
  const char *sleep = job_sleep(job, 600);
  cJSON *step = job_script(job, row->script);
  cJSON_AddNumberToObject(step, "timeoutSeconds", row->timeout_seconds);
  cJSON_AddStringToObject(cJSON_AddObjectToObject(step, "env"), "SLEEP", sleep);
  double pushed_ms = machine_clock_ms();
  const cJSON *result = job_run_within(job, step, 3 * WAIT_BOUND_MS);
  double took_ms = machine_clock_ms() - pushed_ms;
  if (took_ms > row->bound_ms)
    job_fail(job, "`%s` is answered after %.0f ms", row->script, took_ms);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, row->exit_code);
  if (row->exit_code == -1 && !proc_wait_gone(sleep, WAIT_BOUND_MS))
    job_fail(job, "`%s` has survived `%s`", sleep, row->script);
}

JOB_TEST(a_step_that_obeys_is_answered_3_s_after_its_deadline) {
  static const struct row rows[] = {
      {"exec $SLEEP", 1, 4000, -1},
      {"setsid $SLEEP & sleep 600", 1, 4000, -1},
      {"env -i setsid $SLEEP & sleep 600", 1, 4000, -1},
      {"setsid sh -c '$SLEEP >/dev/null 2>&1 &'; sleep 600", 1, 4000, -1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_answer_in_time(job, &rows[i]);
}

/* The deadline of 1 s and the grace period of 10 s. */
JOB_TEST(a_step_that_ignores_sigterm_is_killed_10_s_after_its_deadline) {
  expect_answer_in_time(job, &(struct row){"trap '' TERM; setsid $SLEEP & $SLEEP", 1, 12500, -1});
}

JOB_TEST(a_tree_that_grows_is_killed_after_its_deadline) {
  expect_answer_in_time(
      job, &(struct row){
               "trap '' TERM; while :; do setsid sh -c 'trap \"\" TERM; $SLEEP' & sleep 0.05; done",
               1, 13500, -1});
}

/* The orphans come and go; their ends must not be taken for processes of the step. */
JOB_TEST(orphans_of_an_earlier_step_do_not_delay_the_answer) {
  const char *restless = "(while :; do (true &); sleep 0.005; done) >/dev/null 2>&1 &";
  job_run(job, job_script(job, restless));
  expect_answer_in_time(job, &(struct row){"$SLEEP & sleep 600", 1, 4000, -1});
}

JOB_TEST(a_silent_background_process_does_not_delay_the_answer) {
  expect_answer_in_time(job, &(struct row){"$SLEEP >/dev/null 2>&1 & echo hi", 600, 1500, 0});
}

JOB_TEST(a_background_process_delays_the_answer_by_at_most_2_s) {
  expect_answer_in_time(job, &(struct row){"$SLEEP & echo hi", 600, 2500, 0});
}

TEST_OVERLAP(2)
