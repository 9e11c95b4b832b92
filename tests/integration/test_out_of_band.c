/* A cancel is out of band: it reaches its step regardless of what waits in Redis or in the agent.
   Waiting steps cost no memory of the agent. */

#include "tests/support/crowd.h"
#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/proc.h"
#include "tests/support/proxy.h"
#include "tests/test.h"

#define CANCELLED "cancelled: by a cancel step"

/* The running step sleeps for 600 s, so a cancel that waited for it would be too late.
   tests/timed/test_cancel.c measures the time. */
JOB_TEST(a_cancel_is_not_delayed_by_48_mebibytes_of_steps) {
  const cJSON *running = job_push_endless(job, job_sleep(job, 600));
  struct crowd crowd = crowd_push(job, 48, (size_t)1 << 20);
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  crowd_expect(job, &crowd, SIZE_MAX);
  job_expect_nothing_left(job);
}

/* Three cancels, one after the other. */
JOB_TEST(no_cancel_is_delayed_by_waiting_steps) {
  const cJSON *endless[3];
  for (size_t i = 0; i < 3; i++)
    endless[i] = job_script(job, job_format(job, "echo up; exec %s", job_sleep(job, 600)));
  job_push_until(job, endless[0], "up");
  job_push(job, endless[1]);
  job_push(job, endless[2]);
  struct crowd crowd = crowd_push(job, 500, 0);
  for (size_t i = 0; i < 3; i++) {
    job_wait_event(job, endless[i], "stdout", "up");
    job_push_cancel(job, endless[i]);
    job_expect_answer(job, endless[i], -1, CANCELLED, "up\n");
  }
  crowd_expect(job, &crowd, SIZE_MAX);
  job_expect_nothing_left(job);
}

/* Asserts that the step is answered once while another one runs, and that the others keep their
   order. */
static void cancel_waiting(struct job *job, size_t number, size_t count, size_t padding_length) {
  const cJSON *running = job_push_endless(job, job_sleep(job, 600));
  struct crowd crowd = crowd_push(job, count, padding_length);
  const cJSON *waiting = crowd.steps[number];
  job_push_cancel(job, waiting);
  job_push_cancel(job, waiting);
  const cJSON *result = job_expect_answer(job, waiting, -1, CANCELLED, NULL);
  assert_int_equal(job_event_count(result), 0);
  assert_int_equal(cJSON_GetArraySize(job_events(job, waiting)), 0);
  assert_string_equal(job_lines(job, running, "completed"), "");
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  crowd_expect(job, &crowd, number);
  job_expect_nothing_left(job);
}

JOB_TEST(the_900th_waiting_step_can_be_cancelled) {
  cancel_waiting(job, 900, 1000, 0);
}

JOB_TEST(a_step_behind_32_mebibytes_can_be_cancelled) {
  cancel_waiting(job, 44, 48, (size_t)1 << 20);
}

/* The consumer's connection is lost while steps wait. */
JOB_TEST(a_cancel_is_not_delayed_after_a_lost_connection) {
  const cJSON *running = job_push_endless(job, job_sleep(job, 600));
  struct crowd crowd = crowd_push(job, 100, 0);
  job_wait_length(job, "inflight", 2);
  job_do(job, "CLIENT KILL TYPE normal SKIPME yes");
  job_push_cancel(job, crowd.steps[90]);
  job_expect_answer(job, crowd.steps[90], -1, CANCELLED, NULL);
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  crowd_expect(job, &crowd, 90);
  job_expect_nothing_left(job);
}

/* The agent that took the steps has ended before the cancel is pushed. */
JOB_TEST(a_cancel_is_not_delayed_after_a_restart) {
  (void)job_push_endless(job, job_sleep(job, 600));
  struct crowd crowd = crowd_push(job, 300, 0);
  job_push_cancel(job, crowd.steps[250]);
  job_expect_answer(job, crowd.steps[250], -1, CANCELLED, NULL);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  const cJSON *lost = job_result(job);
  assert_int_equal(cJSON_GetObjectItem(lost, "exitCode")->valueint, -1);
  crowd_expect(job, &crowd, 250);
  job_expect_nothing_left(job);
}

/* No output is acknowledged, the send queue is full, and the command blocks. */
static void cancel_while_output_is_stuck(struct job *job, size_t waiting) {
  struct proxy *proxy = proxy_start(redis_server_port(job->server), NULL);
  job_use_port(job, proxy_port(proxy));
  job_start_agent(job, "--hold-bytes", "65536", NULL);
  const char *words = job_format(job, "%s", job->id);
  const cJSON *running = job_step(job, "yes", words, NULL);
  job_push_until(job, running, words);
  const char *command = job_format(job, "yes %s", words);
  pid_t pid = proc_wait_for(command, WAIT_BOUND_MS);
  assert_true(pid > 0);
  proxy_freeze(proxy, RELAY_OUTBOX);
  struct crowd crowd = crowd_push(job, waiting, 0);
  job_push_control(job, "garbage"); /* this cannot be removed meanwhile */
  agent_process_wait_log(job->agent, "a control message of 7 bytes is neither a cancel");
  job_push_cancel(job, running);
  if (!proc_wait_pid_gone(pid, WAIT_BOUND_MS))
    job_fail(job, "`%s` still runs", command);
  proxy_thaw(proxy, RELAY_OUTBOX);
  const cJSON *result = job_result_of(job, running);
  assert_string_equal(job_text(result, "errorMessage"), CANCELLED);
  crowd_expect(job, &crowd, SIZE_MAX);
  job_expect_nothing_left(job);
  proxy_stop(proxy);
}

JOB_TEST_NO_AGENT(a_cancel_is_not_delayed_by_a_full_send_queue) {
  cancel_while_output_is_stuck(job, 0);
}

JOB_TEST_NO_AGENT(a_cancel_is_not_delayed_by_a_full_send_queue_and_300_steps) {
  cancel_while_output_is_stuck(job, 300);
}

enum { MILLION = 1000000, BATCH = 1000, HWM_MAX_KIB = 64 * 1024 };

/* Pipelined LPUSHs with many values push a million steps in some seconds. */
static void push_million(struct job *job) {
  static char texts[BATCH][128];
  const char *words[BATCH + 2] = {"LPUSH", job_format(job, "sandbox:%s:in", job->id)};
  for (int i = 0; i < MILLION; i += BATCH) {
    for (int k = 0; k < BATCH; k++) {
      snprintf(texts[k], sizeof texts[k],
               "{'schemaVersion':1,'stepId':'00000000-0000-4000-8000-%012d','command':'true'}",
               i + k);
      quoted_in_place(texts[k]);
      words[k + 2] = texts[k];
    }
    redisAppendCommandArgv(job->redis, BATCH + 2, words, NULL);
    redisReply *reply = NULL;
    assert_int_equal(redisGetReply(job->redis, (void **)&reply), REDIS_OK);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
  }
}

/* tests/timed/test_cancel.c measures how soon the last one is cancelled. */
JOB_TEST_NO_AGENT(a_million_steps_wait_in_bounded_memory) {
  const cJSON *running = marks_step(job, "echo up; gate");
  job_push(job, running);
  push_million(job);
  job_start_agent(job, NULL);
  job_wait_event(job, running, "stdout", "up");
  job_wait_length(job, "inflight", 2);
  assert_int_equal(job_length(job, "in"), MILLION - 1);
  const cJSON *last = job_step(job, "true", NULL);
  cJSON_ReplaceItemInObject(
      (cJSON *)(uintptr_t)last, "stepId",
      cJSON_CreateString(job_format(job, "00000000-0000-4000-8000-%012d", MILLION - 1)));
  job_push_cancel(job, last);
  job_expect_answer(job, last, -1, CANCELLED, NULL);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  for (int i = 0; i < 100; i++) {
    const cJSON *result = job_result(job);
    assert_string_equal(job_text(result, "stepId"),
                        job_format(job, "00000000-0000-4000-8000-%012d", i));
  }
  assert_in_range(job_length(job, "inflight"), 0, 2);
  long kib = proc_status_kib(agent_process_pid(job->agent), "VmHWM");
  print_message("resident: %ld KiB at most\n", kib);
  if (agent_process_is_shipped() && kib > HWM_MAX_KIB)
    job_fail(job, "%ld KiB were resident", kib);
}

TEST_OVERLAP(3)
