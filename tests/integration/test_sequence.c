/* A reader of the stream can tell that it has all events: they are numbered, and results count
   them. */

#include "tests/support/job.h"
#include "tests/support/marks.h"

static int number(const cJSON *object, const char *field) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, field);
  assert_true(cJSON_IsNumber(value));
  return (int)value->valuedouble;
}

/* Fails unless the step's events are numbered from `first` to the count in its result. */
static void expect_from(struct job *job, const cJSON *step, const cJSON *result, int first) {
  int next = first;
  const char *kind = "";
  const cJSON *event;
  cJSON_ArrayForEach(event, job_events(job, step)) {
    if (number(event, "seq") != next)
      job_fail(job, "event %d comes where %d should", number(event, "seq"), next);
    kind = job_text(event, "kind");
    if ((next == 1) != (strcmp(kind, "started") == 0))
      job_fail(job, "event %d is `%s`", next, kind);
    next++;
  }
  assert_string_equal(kind, "completed");
  assert_int_equal(next - 1, number(result, "eventCount"));
}

static void expect_all(struct job *job, const cJSON *step, const cJSON *result, int count) {
  expect_from(job, step, result, 1);
  assert_int_equal(number(result, "eventCount"), count);
}

JOB_TEST(the_events_of_both_streams_are_numbered_together) {
  const cJSON *step =
      job_script(job, "for i in $(seq 1 500); do echo \"$i\"; echo \"$i\" >&2; done; printf end");
  expect_all(job, step, job_run(job, step), 1 + 1000 + 1 + 1);
  assert_non_null(strstr(job_lines(job, step, "stdout"), "499\n500\nend\n"));
  assert_non_null(strstr(job_lines(job, step, "stderr"), "499\n500\n"));
}

JOB_TEST(the_events_of_each_step_are_numbered_from_one) {
  const cJSON *first = job_step(job, "seq", "10", NULL);
  const cJSON *silent = job_step(job, "true", NULL);
  const cJSON *failed = job_script(job, "echo out; echo err >&2; exit 3");
  const cJSON *unknown = job_step(job, "no-such-command", NULL);
  job_push(job, first);
  job_push(job, silent);
  job_push(job, failed);
  job_push(job, unknown);
  expect_all(job, first, job_result(job), 12);
  expect_all(job, silent, job_result(job), 2);
  expect_all(job, failed, job_result(job), 4);
  expect_all(job, unknown, job_result(job), 2);
}

JOB_TEST(the_events_of_a_killed_step_are_counted) {
  cJSON *step = job_script(job, job_format(job, "echo out; exec %s", job_sleep(job, 600)));
  cJSON_AddNumberToObject(step, "timeoutSeconds", 3);
  expect_all(job, step, job_run(job, step), 3);
}

JOB_TEST(each_piece_of_a_line_is_numbered) {
  const cJSON *step = job_script(job, "head -c 2500000 /dev/zero | tr '\\0' x");
  const cJSON *result = job_run(job, step);
  expect_from(job, step, result, 1);
  assert_true(number(result, "eventCount") >= 5);
  assert_non_null(strstr(job_raw_events(job), quoted("'seq':2,'partial':true}\n")));
}

static bool has_printed(void *job) {
  return marks_count(job) == 1;
}

/* Redis does not answer and the hold is small, so that the agent stops reading while the command
   writes to both streams. */
JOB_TEST_NO_AGENT(a_blocked_step_loses_no_event) {
  job_start_agent(job, "--hold-bytes", "65536", "--events-maxlen", "0", NULL);
  const cJSON *step =
      marks_step(job, "gate; seq 1 2000; seq 1 2000 >&2; ran; echo end; echo end >&2");
  job_push(job, step);
  job_wait_event(job, step, "started", "sh");
  redis_server_freeze(job->server);
  marks_open_gate(job, "");
  bool is_printed = wait_until(has_printed, job, WAIT_BOUND_MS);
  redis_server_thaw(job->server);
  assert_true(is_printed);
  expect_all(job, step, job_result(job), 1 + 2 * 2001 + 1);
}

JOB_TEST_NO_AGENT(trimmed_events_appear_as_a_gap) {
  job_start_agent(job, "--events-maxlen", "500", "--events-keep-bytes", "0", NULL);
  const cJSON *step = job_step(job, "seq", "5000", NULL);
  const cJSON *result = job_run(job, step);
  assert_int_equal(number(result, "eventCount"), 5002);
  const cJSON *events = job_events(job, step);
  int first = number(cJSON_GetArrayItem(events, 0), "seq");
  assert_int_equal(first, 5002 - cJSON_GetArraySize(events) + 1);
  assert_true(first > 1);
  expect_from(job, step, result, first);
}

JOB_TEST(a_rejected_step_has_no_events) {
  cJSON *step = job_step(job, "true", NULL);
  cJSON_AddNumberToObject(step, "timeoutSeconds", 0);
  assert_int_equal(number(job_run(job, step), "eventCount"), 0);
  job_push_text(job, "{", 1);
  assert_int_equal(number(job_result(job), "eventCount"), 0);
  assert_string_equal(job_raw_events(job), "");
}
