/* Payloads that are as large as the send queue may be, or larger: nothing waits for capacity that
   only it could free. */

#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/proxy.h"

#define CANCELLED "cancelled: by a cancel step"

/* Adds this many bytes in an unknown field. */
static cJSON *padded(struct job *job, cJSON *step, size_t bytes) {
  char *padding = malloc(bytes + 1);
  assert_non_null(padding);
  memset(padding, 'x', bytes);
  padding[bytes] = '\0';
  cJSON_AddStringToObject(step, "padding", job_own_text(job, padding));
  return step;
}

static cJSON *cancel_of(struct job *job, const char *step_id) {
  cJSON *order = job_own(job, cJSON_CreateObject());
  cJSON_AddStringToObject(order, "kind", "cancel");
  cJSON_AddStringToObject(order, "stepId", step_id);
  return order;
}

/* Both are pushed before the agent starts, so the step is next while the removal of the cancel is
   queued. */
static void expect_step_behind_cancel(struct job *job, size_t bytes, const char *hold_bytes) {
  job_push(job, padded(job, cancel_of(job, "nobody"), bytes));
  const cJSON *step = job_push_echo(job, "on");
  job_start_agent(job, hold_bytes == NULL ? NULL : "--hold-bytes", hold_bytes, NULL);
  job_expect_answer(job, step, 0, NULL, "on\n");
  job_expect_nothing_left(job);
}

JOB_TEST_NO_AGENT(a_removal_that_fills_a_small_send_queue_blocks_no_step) {
  expect_step_behind_cancel(job, 3000000, "65536");
}

JOB_TEST_NO_AGENT(a_removal_that_fills_the_send_queue_blocks_no_step) {
  expect_step_behind_cancel(job, 5000000, NULL);
}

/* The step fetched ahead is restored in `inflight`, which fills the send queue while lines arrive
   one by one. */
JOB_TEST_NO_AGENT(a_restored_step_leaves_capacity_for_output) {
  enum { LINES = 300 };
  const cJSON *running = marks_step(
      job,
      job_format(job,
                 "echo up; gate; i=0; while [ $i -lt %d ]; do sleep 0; echo $i; i=$((i+1)); done",
                 LINES));
  job_start_agent(job, "--hold-bytes", "65536", NULL);
  const cJSON *waiting = padded(job, job_step(job, "echo", "waited", NULL), 1000000);
  job_push_until(job, running, "up");
  job_push(job, waiting);
  job_wait_length(job, "inflight", 2);
  job_do(job, "FLUSHALL");
  marks_open_gate(job, "");
  const cJSON *result = job_result_of(job, running);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  assert_int_equal(job_event_count(result), 1 + 1 + LINES + 1);
  job_expect_answer(job, waiting, 0, NULL, "waited\n");
  job_expect_nothing_left(job);
}

/* The waiting step is as large as the send queue may be. */
JOB_TEST(a_large_waiting_step_blocks_no_cancel) {
  const cJSON *running = job_script(job, job_format(job, "echo up; exec %s", job_sleep(job, 600)));
  const cJSON *waiting = padded(job, job_step(job, "echo", "waited", NULL), 5000000);
  job_push_until(job, running, "up");
  job_push(job, waiting);
  job_wait_length(job, "inflight", 2);
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  job_expect_answer(job, waiting, 0, NULL, "waited\n");
  job_expect_nothing_left(job);
}

/* Nothing is acknowledged, and every cancel needs a removal. The agent reads only a bounded number
   of messages. */
JOB_TEST_NO_AGENT(messages_that_cannot_be_removed_stay_in_redis) {
  enum { ORDERS = 50, MOST_KIB = 64 * 1024 };
  struct proxy *proxy = proxy_start(redis_server_port(job->server), NULL);
  job_use_port(job, proxy_port(proxy));
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  job_wait_length(job, "inflight", 0);
  proxy_deafen(proxy, RELAY_OUTBOX);
  const cJSON *order = padded(job, cancel_of(job, "nobody"), 2000000);
  for (int i = 0; i < ORDERS; i++)
    job_push(job, order);
  const cJSON *step = job_push_echo(job, "on");
  job_expect_answer(job, step, 0, NULL, "on\n"); /* over the next connection */
  long peak = proc_status_kib(agent_process_pid(job->agent), "VmHWM");
  print_message("resident at most: %ld KiB\n", peak);
  if (agent_process_is_shipped() && peak > MOST_KIB)
    job_fail(job, "%ld KiB resident", peak);
  job_expect_nothing_left(job);
  proxy_stop(proxy);
}
