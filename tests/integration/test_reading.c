/* Read-only kinds do not wait for the acknowledgement of their start. Each step is still answered
   once, whenever the agent is killed. tests/timed/test_reading.c checks the transactions. */

#include "tests/support/job.h"
#include "tests/support/kind_rows.h"

JOB_TEST_NO_AGENT(read_only_steps_are_answered_once_after_kills) {
  enum { KILLS = 12, STEPS = 200 };
  kind_rows_file(job, "file", "content\n");
  const cJSON *steps[STEPS];
  for (int i = 0; i < STEPS; i++)
    job_push(job, steps[i] = kind_rows_step(job, "'kind':'readFile','path':'file'"));
  job_run_with_kills(job, STEPS, KILLS);
  /* On a busy machine a step may take so long that its start is announced, and is then
     interrupted. */
  int interrupted = 0;
  for (int i = 0; i < STEPS; i++) {
    const cJSON *result = job_result_of(job, steps[i]);
    if (strncmp(job_text(result, "errorMessage"), "interrupted", 11) == 0) {
      interrupted++;
      continue;
    }
    job_expect_result(job, result, 0, NULL, "content\n");
    assert_true(job_event_count(result) >= 2);
    assert_string_equal(job_lines(job, steps[i], "completed"), "exit=0 timedOut=False\n");
  }
  assert_in_range(interrupted, 0, KILLS);
  job_wait_length(job, "inflight", 0);
  job_shut_down(job);
  assert_int_equal(job_length(job, "results"), 0);
}
