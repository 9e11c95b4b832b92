/* Steps are taken while another one runs, also those that do not fit in memory; they run in their
   order, and what is the same twice is two steps. */

#include "tests/support/crowd.h"
#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

static const cJSON *start_gated(struct job *job) {
  return events_push(job, marks_step(job, "echo up; gate"), "up");
}

JOB_TEST(more_wait_than_fit_in_memory) {
  enum { STEPS = 300 };
  const cJSON *running = start_gated(job);
  struct crowd crowd = crowd_push(job, STEPS, 0);
  job_wait_length(job, "inflight", 1 + STEPS);
  assert_int_equal(job_length(job, "results"), 0);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  crowd_expect(job, &crowd, SIZE_MAX);
  job_expect_nothing_left(job);
}

JOB_TEST(payloads_in_memory_are_bounded) {
  enum { STEPS = 80, SIZE = 1 << 20, MOST_KIB = (32 + 16) * 1024 };
  const cJSON *running = start_gated(job);
  struct crowd crowd = crowd_push(job, STEPS, SIZE);
  job_wait_length(job, "inflight", 1 + STEPS);
  long resident = proc_status_kib(agent_process_pid(job->agent), "VmRSS");
  if (agent_process_is_shipped() && resident > MOST_KIB)
    job_fail(job, "%ld KiB are resident", resident);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  crowd_expect(job, &crowd, SIZE_MAX);
  job_shut_down(job);
}

JOB_TEST(the_same_payload_again_is_another_step) {
  enum { TIMES = 5 };
  const cJSON *running = start_gated(job);
  const cJSON *same = job_step(job, "echo", "same", NULL);
  for (int i = 0; i < TIMES; i++)
    job_push(job, same);
  job_push(job, running);
  job_wait_length(job, "inflight", TIMES + 2);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  for (int i = 0; i < TIMES; i++)
    job_expect_answer(job, same, 0, NULL, "same\n");
  job_expect_answer(job, running, 0, NULL, "up\n");
  assert_int_equal(cJSON_GetArraySize(events_of(job, same)), TIMES * 3);
  job_expect_nothing_left(job);
}

JOB_TEST(what_is_refused_keeps_its_place) {
  const cJSON *running = start_gated(job);
  const cJSON *after = job_step(job, "echo", "after", NULL);
  job_push_json(job, "{'stepId':'odd'");
  job_push(job, after);
  job_wait_length(job, "inflight", 3);
  assert_int_equal(job_length(job, "results"), 0);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  assert_string_equal(job_text(job_result(job), "stepId"), "odd");
  job_expect_answer(job, after, 0, NULL, "after\n");
  job_expect_nothing_left(job);
}

/* The command does not run before Redis knows that it will. */
JOB_TEST(nothing_runs_before_redis_knows) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_script(job, job_format(job, "exec %s", sleep));
  job_run(job, job_step(job, "true", NULL));
  char *payload = cJSON_PrintUnformatted(step);
  /* What arrives together is handled before anybody is written to. */
  redisAppendCommand(job->redis, "LPUSH sandbox:%s:in %s", job->id, payload);
  redisAppendCommand(job->redis, "CLIENT PAUSE 600000 WRITE");
  cJSON_free(payload);
  for (int i = 0; i < 2; i++) {
    redisReply *reply;
    assert_int_equal(redisGetReply(job->redis, (void **)&reply), REDIS_OK);
    freeReplyObject(reply);
  }
  assert_int_equal(job_length(job, "inflight"), 1);
  int64_t end = wait_now_ms() + 500;
  while (wait_now_ms() < end)
    assert_int_equal(proc_find(sleep), 0);
  job_do(job, "CLIENT UNPAUSE");
  assert_int_not_equal(proc_wait_for(sleep, WAIT_BOUND_MS), 0);
  assert_string_equal(job_ask_text(job, "GET sandbox:%s:started", job->id),
                      job_text(step, "stepId"));
}
