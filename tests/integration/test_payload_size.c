/* Payloads up to 64 MiB are taken, larger ones refused, and the memory for them is given back. */

#include "tests/support/job.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { MIB = 1024 * 1024, USUAL_RSS_KIB = 8 * 1024 };

/* A good step of exactly this size: what does not matter in it is in a field that nobody knows. */
static char *step_of_size(size_t size, const char *step_id) {
  char *payload = malloc(size + 1);
  assert_non_null(payload);
  int head = snprintf(payload, size,
                      "{\"stepId\":\"%s\",\"command\":\"echo\",\"args\":[\"big\"],\"padding\":\"",
                      step_id);
  assert_true(head > 0 && (size_t)head + 2 < size);
  memset(payload + head, 'x', size - (size_t)head);
  memcpy(payload + size - 2, "\"}", 3);
  return payload;
}

static void push_of_size(struct job *job, size_t size, const char *step_id) {
  char *payload = step_of_size(size, step_id);
  job_push_text(job, payload, size);
  free(payload);
}

static bool is_small_again(void *context) {
  const struct job *job = context;
  return proc_status_kib(agent_process_pid(job->agent), "VmRSS") < USUAL_RSS_KIB;
}

static void expect_usual_memory(struct job *job) {
  if (agent_process_is_shipped() && !wait_until(is_small_again, job, WAIT_BOUND_MS))
    job_fail(job, "%ld KiB are still resident",
             proc_status_kib(agent_process_pid(job->agent), "VmRSS"));
}

static void expect_refusal_of_size(struct job *job, size_t size) {
  push_of_size(job, size, "large");
  const cJSON *result = job_result(job);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, -1);
  job_expect_part(job, result, "errorMessage", "67108864");
  /* It is dropped while it comes in, but for its beginning, which has the id. */
  assert_string_equal(job_text(result, "stepId"), "large");
}

JOB_TEST(sixty_four_mib_are_taken) {
  push_of_size(job, (size_t)64 * MIB, "largest");
  const cJSON *result = job_result(job);
  job_expect_result(job, result, 0, NULL, "big\n");
  assert_string_equal(job_text(result, "stepId"), "largest");
  expect_usual_memory(job);
}

JOB_TEST(one_byte_more_is_refused) {
  expect_refusal_of_size(job, (size_t)64 * MIB + 1);
  expect_usual_memory(job);
  job_expect_to_go_on(job);
}

JOB_TEST(two_hundred_mib_are_refused) {
  expect_refusal_of_size(job, (size_t)200 * MIB);
  expect_usual_memory(job);
  job_expect_to_go_on(job);
  if (strlen(agent_process_log(job->agent)) > 8192)
    job_fail(job, "the log is as long as the payload");
}

/* The smallest values that JSON has: what they take in memory is many times their text. */
JOB_TEST(a_payload_of_small_values_is_survived) {
  size_t size = (size_t)60 * MIB;
  char *payload = step_of_size(size, "crowd");
  char *value = strstr(payload, "\"padding\":") + 10;
  value[0] = '[';
  for (char *at = value + 1; at < payload + size - 2; at += 2)
    memcpy(at, "1,", 2);
  memcpy(payload + size - 3, "1]}", 3);
  if (payload[size - 4] == '1')
    payload[size - 4] = ' ';
  job_push_text(job, payload, size);
  free(payload);
  assert_string_equal(job_text(job_result(job), "stepId"), "crowd");
  expect_usual_memory(job);
  job_expect_to_go_on(job);
}
