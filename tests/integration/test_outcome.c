/* How a result describes the end of a command, and which part of the output it keeps. */

#include "tests/support/job.h"
#include "tests/support/marks.h"

/* The limits of wire/PROTOCOL.md. */
enum { MESSAGE_MAX = 8192, OUTPUT_UNITS = 1000000, TAIL_MAX = 65536 };

JOB_TEST(the_result_has_the_exit_code) {
  static const int codes[] = {1, 2, 42, 126, 127, 255};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    const cJSON *result = job_run(job, job_script(job, job_format(job, "exit %d", codes[i])));
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, codes[i]);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(result, "outputContent")));
  }
  /* A command may close its streams long before it exits. */
  const cJSON *step = job_script(job, "echo out; exec >&- 2>&-; sleep 0.5; exit 4");
  job_expect_result(job, job_run(job, step), 4, "out", "out\n");
}

JOB_TEST(a_signal_has_the_exit_code_128_plus_its_number) {
  static const struct {
    const char *script;
    int exit_code;
    const char *name;
  } deaths[] = {{"kill -KILL $$", 137, "SIGKILL"},
                {"kill -SEGV $$", 139, "SIGSEGV"},
                {"kill -TERM $$", 143, "SIGTERM"}};
  for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
    const cJSON *result = job_run(job, job_script(job, deaths[i].script));
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, deaths[i].exit_code);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(result, "timedOut")));
    job_expect_part(job, result, "errorMessage", deaths[i].name);
  }
}

JOB_TEST(the_message_prefers_output_to_the_name_of_the_signal) {
  const cJSON *result = job_run(job, job_script(job, "echo last words; kill -KILL $$"));
  job_expect_result(job, result, 137, "last words", "last words\n");
}

JOB_TEST(the_message_has_both_streams_in_order) {
  /* Simultaneous output in the two pipes has no order. */
  const cJSON *step = marks_step(job, "echo a; gate 1; echo b >&2; gate 2; echo c; exit 3");
  job_push_until(job, step, "a");
  marks_open_gate(job, "1");
  job_wait_event(job, step, "stderr", "b");
  marks_open_gate(job, "2");
  job_expect_answer(job, step, 3, "a\nb\nc", "a\nc\n");
  assert_string_equal(job_lines(job, step, "stdout"), "a\nc\n");
  assert_string_equal(job_lines(job, step, "stderr"), "b\n");
}

JOB_TEST(the_message_has_the_last_8_kib) {
  const cJSON *result = job_run(job, job_script(job, "seq 100000 199999 >&2; exit 1"));
  const char *message = job_text(result, "errorMessage");
  size_t length = strlen(message);
  if (length > MESSAGE_MAX || length < MESSAGE_MAX - 8)
    job_fail(job, "%zu bytes of message", length);
  /* Each line has 7 bytes: compares the last complete lines. */
  for (size_t back = 1; back <= MESSAGE_MAX / 7; back++) {
    const char *expected = job_format(job, "%zu", 200000 - back);
    assert_memory_equal(message + length + 1 - back * 7, expected, 6);
  }
}

JOB_TEST(success_has_no_message) {
  const cJSON *step = job_script(job, "echo noise >&2");
  job_expect_result(job, job_run(job, step), 0, NULL, NULL);
  assert_string_equal(job_lines(job, step, "stderr"), "noise\n");
}

static void expect_not_cut(const cJSON *result) {
  assert_false(cJSON_HasObjectItem(result, "outputTruncated"));
  assert_false(cJSON_HasObjectItem(result, "outputBytes"));
  assert_false(cJSON_HasObjectItem(result, "outputTail"));
}

/* Fails unless the tail has this length, begin and end. */
static void expect_cut(const cJSON *result, size_t bytes, size_t length, const char *begin,
                       const char *end) {
  const char *tail = job_text(result, "outputTail");
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(result, "outputTruncated")));
  assert_int_equal(cJSON_GetObjectItem(result, "outputBytes")->valuedouble, bytes);
  assert_int_equal(strlen(tail), length);
  assert_memory_equal(tail, begin, strlen(begin));
  assert_string_equal(tail + length - strlen(end), end);
}

JOB_TEST(the_result_keeps_a_million_units_of_output) {
  /* 8 bytes a line. */
  const cJSON *result = job_run(job, job_script(job, "seq 1000000 1124998"));
  assert_int_equal(strlen(job_text(result, "outputContent")), OUTPUT_UNITS - 8);
  expect_not_cut(result);
  result = job_run(job, job_script(job, "seq 1000000 1124999"));
  assert_int_equal(strlen(job_text(result, "outputContent")), OUTPUT_UNITS);
  expect_not_cut(result);

  result = job_run(job, job_script(job, "seq 1000000 1199999"));
  const char *output = job_text(result, "outputContent");
  assert_int_equal(strlen(output), OUTPUT_UNITS);
  assert_memory_equal(output, "1000000\n1000001\n", 16);
  assert_string_equal(output + OUTPUT_UNITS - 8, "1124999\n");
  expect_cut(result, 200000 * 8, TAIL_MAX, "1191808\n", "1199999\n");

  /* One unit is missing, so that one more line is kept. */
  result = job_run(job, job_script(job, "seq 1000000 1124998; echo 123456; seq 1000 2000"));
  output = job_text(result, "outputContent");
  assert_int_equal(strlen(output), OUTPUT_UNITS - 1 + 5);
  assert_string_equal(output + OUTPUT_UNITS - 8, "123456\n1000\n");
  /* The tail overlaps the kept output. */
  expect_cut(result, OUTPUT_UNITS - 1 + 1001 * 5, TAIL_MAX - 4, "1117434\n", "1999\n2000\n");
}

static bool has_mark(void *job) {
  return marks_count(job) == 1;
}

JOB_TEST(the_result_keeps_the_end_of_the_output) {
  /* 1,500,000 events: a busy machine takes minutes for them. */
  const cJSON *result =
      job_run_within(job, job_script(job, "yes | head -c 3000000; exit 3"), 5 * WAIT_BOUND_MS);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 3);
  expect_cut(result, 3000000, TAIL_MAX, "y\n", "y\n");
  /* A step that is ended from outside, after it has printed everything. */
  const cJSON *step = marks_step(job, "seq 1000000 1199999; echo last; ran; exec sleep 600");
  job_push(job, step);
  assert_true(wait_until(has_mark, job, 5 * WAIT_BOUND_MS));
  job_push_cancel(job, step);
  result = job_result_within(job, 5 * WAIT_BOUND_MS);
  assert_string_equal(job_text(cJSON_GetObjectItem(result, "end"), "cause"), "cancelled");
  expect_cut(result, 200000 * 8 + 5, TAIL_MAX - 3, "1191809\n", "1199999\nlast\n");
}

static void expect_no_start(struct job *job, const cJSON *step, const char *name,
                            const char *reason) {
  const cJSON *result = job_run(job, step);
  job_expect_part(job, result, "errorMessage", name);
  job_expect_part(job, result, "errorMessage", reason);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, -1);
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(result, "timedOut")));
  assert_true(cJSON_IsNull(cJSON_GetObjectItem(result, "outputContent")));
}

JOB_TEST(the_message_explains_why_a_command_cannot_start) {
  expect_no_start(job, job_step(job, "no-such-command-here", NULL), "no-such-command-here",
                  "not found");
  expect_no_start(job, job_step(job, "/nowhere/at/all", NULL), "/nowhere/at/all", "no such file");

  cJSON *step = job_step(job, "true", NULL);
  cJSON_AddStringToObject(step, "workingDirectory", "/no/such/directory");
  expect_no_start(job, step, "/no/such/directory", "no such file or directory");

  const char *plain = job_write(job, "plain", "#!/bin/sh\n", 0644);
  expect_no_start(job, job_step(job, plain, NULL), plain, "permission denied");

  step = job_step(job, "true", NULL);
  cJSON_AddStringToObject(step, "workingDirectory", plain);
  expect_no_start(job, step, plain, "not a directory");

  const char *directory = redis_server_directory(job->server);
  expect_no_start(job, job_step(job, directory, NULL), directory, "permission denied");

  /* An ELF header of no known machine. */
  const char *foreign = job_write(job, "foreign",
                                  "\x7f"
                                  "ELF\x02\x01\x01",
                                  0755);
  expect_no_start(job, job_step(job, foreign, NULL), foreign, "exec format");

  const char *script = job_write(job, "script", "#!/no/such/interpreter\n", 0755);
  expect_no_start(job, job_step(job, script, NULL), script, "/no/such/interpreter");

  job_expect_to_go_on(job);
}
