/* Steps are taken while another one runs, also those that do not fit in memory; they run in their
   order, and what is the same twice is two steps. */

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

static const cJSON *start_gated(struct job *job, const char *gate) {
  const cJSON *step =
      job_script(job, job_format(job, "echo up; until [ -e %s ]; do sleep 0.01; done", gate));
  job_push(job, step);
  events_wait(job, step, "stdout", "up");
  return step;
}

JOB_TEST(more_wait_than_fit_in_memory) {
  enum { STEPS = 300 };
  const char *gate = job_path(job, "gate");
  const cJSON *running = start_gated(job, gate);
  const cJSON *steps[STEPS];
  for (int i = 0; i < STEPS; i++) {
    steps[i] = job_step(job, "echo", job_format(job, "%d", i), NULL);
    job_push(job, steps[i]);
  }
  job_wait_length(job, "inflight", 1 + STEPS);
  assert_int_equal(job_length(job, "results"), 0);
  fclose(fopen(gate, "we"));
  job_expect_answer(job, running, 0, NULL, "up\n");
  for (int i = 0; i < STEPS; i++)
    job_expect_answer(job, steps[i], 0, NULL, job_format(job, "%d\n", i));
  job_wait_length(job, "inflight", 0);
  job_shut_down(job);
}

static long resident_mib(struct job *job) {
  char line[256];
  long kib = -1;
  FILE *status =
      fopen(job_format(job, "/proc/%d/status", (int)agent_process_pid(job->agent)), "re");
  assert_non_null(status);
  while (kib < 0 && fgets(line, sizeof line, status) != NULL)
    (void)sscanf(line, "VmRSS: %ld", &kib);
  fclose(status);
  return kib / 1024;
}

JOB_TEST(payloads_in_memory_are_bounded) {
  enum { STEPS = 80, SIZE = 1 << 20, MOST_MIB = 32 + 16 };
  const char *gate = job_path(job, "gate");
  const cJSON *running = start_gated(job, gate);
  static char padding[SIZE];
  memset(padding, 'x', sizeof padding);
  padding[SIZE - 1] = '\0';
  const cJSON *steps[STEPS];
  for (int i = 0; i < STEPS; i++) {
    cJSON *step = job_step(job, "echo", job_format(job, "%d", i), NULL);
    cJSON_AddStringToObject(step, "padding", padding);
    job_push(job, steps[i] = step);
  }
  job_wait_length(job, "inflight", 1 + STEPS);
  long resident = resident_mib(job);
  if (agent_process_is_shipped() && resident > MOST_MIB)
    job_fail(job, "%ld MiB are resident", resident);
  fclose(fopen(gate, "we"));
  job_expect_answer(job, running, 0, NULL, "up\n");
  for (int i = 0; i < STEPS; i++)
    job_expect_answer(job, steps[i], 0, NULL, job_format(job, "%d\n", i));
  job_shut_down(job);
}

JOB_TEST(the_same_payload_again_is_another_step) {
  enum { TIMES = 5 };
  const char *gate = job_path(job, "gate");
  const cJSON *running = start_gated(job, gate);
  const cJSON *same = job_step(job, "echo", "same", NULL);
  for (int i = 0; i < TIMES; i++)
    job_push(job, same);
  job_push(job, running);
  job_wait_length(job, "inflight", TIMES + 2);
  fclose(fopen(gate, "we"));
  job_expect_answer(job, running, 0, NULL, "up\n");
  for (int i = 0; i < TIMES; i++)
    job_expect_answer(job, same, 0, NULL, "same\n");
  job_expect_answer(job, running, 0, NULL, "up\n");
  assert_int_equal(cJSON_GetArraySize(events_of(job, same)), TIMES * 3);
  job_wait_length(job, "inflight", 0);
  job_shut_down(job);
  assert_int_equal(job_length(job, "results"), 0);
}

JOB_TEST(what_is_refused_keeps_its_place) {
  const char *gate = job_path(job, "gate");
  const cJSON *running = start_gated(job, gate);
  const cJSON *after = job_step(job, "echo", "after", NULL);
  job_push_text(job, "{\"stepId\":\"odd\"", 15);
  job_push(job, after);
  job_wait_length(job, "inflight", 3);
  assert_int_equal(job_length(job, "results"), 0);
  fclose(fopen(gate, "we"));
  job_expect_answer(job, running, 0, NULL, "up\n");
  assert_string_equal(job_text(job_result(job), "stepId"), "odd");
  job_expect_answer(job, after, 0, NULL, "after\n");
  job_wait_length(job, "inflight", 0);
  job_shut_down(job);
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
  redisReply *started = job_ask(job, "GET sandbox:%s:started", job->id);
  assert_string_equal(started->str, job_text(step, "stepId"));
  freeReplyObject(started);
}
