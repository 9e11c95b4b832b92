/* The life of one step: its events in order, its result, and the forms of its payload. */

#include "tests/support/job.h"

JOB_TEST(a_step_has_three_events_and_a_result) {
  const cJSON *step = job_step(job, "echo", "hello", NULL);
  const cJSON *result = job_run(job, step);
  job_expect_result(job, result, 0, NULL, "hello\n");

  const cJSON *events = job_events(job, step);
  static const char *const expected[][2] = {
      {"started", "echo"}, {"stdout", "hello"}, {"completed", "exit=0 timedOut=False"}};
  assert_int_equal(cJSON_GetArraySize(events), 3);
  assert_int_equal(job->events_before_result, 3);
  for (int i = 0; i < 3; i++) {
    const cJSON *event = cJSON_GetArrayItem(events, i);
    assert_string_equal(job_text(event, "kind"), expected[i][0]);
    assert_string_equal(job_text(event, "line"), expected[i][1]);
    assert_null(cJSON_GetObjectItem(event, "partial"));
  }
}

JOB_TEST(every_event_is_in_the_stream_before_the_result) {
  for (int round = 1; round <= 20; round++) {
    const cJSON *step = job_step(job, "seq", "173", NULL);
    job_run(job, step);
    if (job->events_before_result != round * 175LL)
      job_fail(job, "%lld of %lld events were there before the result", job->events_before_result,
               round * 175LL);
  }
}

JOB_TEST(timestamps_do_not_go_back) {
  const cJSON *step = job_script(job, "seq 100; sleep 0.2; seq 100 >&2");
  job_run(job, step);
  const char *last = "";
  const cJSON *event;
  cJSON_ArrayForEach(event, job_events(job, step)) {
    const char *timestamp = job_text(event, "timestamp");
    if (strcmp(timestamp, last) < 0)
      job_fail(job, "%s comes behind %s", timestamp, last);
    last = timestamp;
  }
}

JOB_TEST(a_command_reads_its_standard_input) {
  cJSON *step = job_step(job, "cat", NULL);
  cJSON_AddStringToObject(step, "stdin", "one\ntwo");
  job_expect_result(job, job_run(job, step), 0, NULL, "one\ntwo\n");
  job_expect_result(job, job_run(job, job_step(job, "cat", NULL)), 0, NULL, NULL);
}

JOB_TEST(the_duration_is_in_seconds) {
  double begin_ms = wait_exact_ms();
  const cJSON *result = job_run(job, job_step(job, "sleep", "0.5", NULL));
  double seconds = job_number(result, "durationSeconds");
  /* It is the difference of two times in whole milliseconds. */
  if (seconds < 0.5 || seconds * 1000 > wait_exact_ms() - begin_ms + 1)
    job_fail(job, "half a second took %g", seconds);
}

/* Payloads of older or newer servers. */
JOB_TEST(a_step_needs_only_an_id_and_a_command) {
  static const char *const payloads[] = {
      "{'stepId':'s','command':'true'}", "{'stepId':'s','kind':'RUN','command':'true'}",
      ("{'schemaVersion':1,'stepId':'s','kind':'Run','command':'true','args':null,"
       "'workingDirectory':null,'env':null,'timeoutSeconds':31536000}"),
      "{'stepId':'s','command':'true','args':[],'env':{},'later':{'a':[1,null]}}",
      " \r\n\t{ 'command' : 'tr\\u0075e', 'stepId' : 's' }\n"};
  for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
    job_push_text(job, quoted(payloads[i]), strlen(payloads[i]));
    const cJSON *result = job_result(job);
    job_expect_result(job, result, 0, NULL, NULL);
    assert_string_equal(job_text(result, "stepId"), "s");
  }
}

JOB_TEST(the_step_id_is_returned_byte_for_byte) {
  static const char id[] = "a \"b\" \\c/ \x01\x1f\x7f\t\n é 漢 😀";
  cJSON *step = job_step(job, "echo", "hi", NULL);
  cJSON_ReplaceItemInObject(step, "stepId", cJSON_CreateString(id));
  const cJSON *result = job_run(job, step);
  assert_string_equal(job_text(result, "stepId"), id);
  assert_int_equal(cJSON_GetArraySize(job_events(job, step)), 3);
}

JOB_TEST_NO_AGENT(the_job_id_is_used_verbatim) {
  snprintf(job->id, sizeof job->id, "a b:*?[x]%%s{y}");
  job_start_agent(job, NULL);
  job_expect_result(job, job_run(job, job_step(job, "echo", "hello", NULL)), 0, NULL, "hello\n");
}

JOB_TEST(a_shutdown_waits_for_earlier_steps) {
  job_push(job, job_step(job, "echo", "first", NULL));
  job_push(job, job_step(job, "echo", "second", NULL));
  job_shut_down(job);
  job_expect_result(job, job_result(job), 0, NULL, "first\n");
  job_expect_result(job, job_result(job), 0, NULL, "second\n");
}
