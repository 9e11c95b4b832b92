/* What a StepResult says about how a command ended, and what it keeps of its output. */

#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* The contract's limits. */
enum { MESSAGE_MAX = 8192, OUTPUT_UNITS = 1000000, TAIL_MAX = 65536 };

JOB_TEST(exit_codes_come_through) {
  static const int codes[] = {1, 2, 42, 126, 127, 255};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    const cJSON *result = job_run(job, job_script(job, job_format(job, "exit %d", codes[i])));
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, codes[i]);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(result, "outputContent")));
  }
}

JOB_TEST(a_signal_is_128_and_its_number) {
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

JOB_TEST(output_outranks_the_signals_name) {
  const cJSON *result = job_run(job, job_script(job, "echo last words; kill -KILL $$"));
  job_expect_result(job, result, 137, "last words", "last words\n");
}

JOB_TEST(both_streams_are_in_the_message_in_order) {
  /* The pauses keep the two pipes apart: what is written at one moment has no order. */
  const cJSON *step = job_script(job, "echo a; sleep 0.3; echo b >&2; sleep 0.3; echo c; exit 3");
  job_expect_result(job, job_run(job, step), 3, "a\nb\nc", "a\nc\n");
  assert_string_equal(job_lines(job, step, "stdout"), "a\nc\n");
  assert_string_equal(job_lines(job, step, "stderr"), "b\n");
}

JOB_TEST(the_message_is_the_last_8_kib) {
  const cJSON *result = job_run(job, job_script(job, "seq 100000 199999 >&2; exit 1"));
  const char *message = job_text(result, "errorMessage");
  size_t length = strlen(message);
  if (length > MESSAGE_MAX || length < MESSAGE_MAX - 8)
    job_fail(job, "%zu bytes of message", length);
  /* 7 bytes each: the last whole lines are known, and so is what comes before them. */
  for (size_t back = 1; back <= MESSAGE_MAX / 7; back++) {
    const char *expected = job_format(job, "%zu", 200000 - back);
    assert_memory_equal(message + length + 1 - back * 7, expected, 6);
  }
}

JOB_TEST(the_message_is_cut_between_characters) {
  /* Lines of 3-byte characters: whatever the cut hits, no half of one is left. */
  const cJSON *result = job_run(
      job,
      job_script(job, "i=0; while [ $i -lt 3000 ]; do echo 漢字仮名; i=$((i+1)); done; exit 1"));
  const char *message = job_text(result, "errorMessage");
  assert_null(strstr(message, "\xEF\xBF\xBD"));
  assert_true(strlen(message) > MESSAGE_MAX - 16 && strlen(message) <= MESSAGE_MAX);
}

JOB_TEST(success_has_no_message) {
  const cJSON *step = job_script(job, "echo noise >&2");
  job_expect_result(job, job_run(job, step), 0, NULL, NULL);
  assert_string_equal(job_lines(job, step, "stderr"), "noise\n");
}

/* What a server does: a body of fewer units than a million is whole for it. */
static size_t units_of(const char *text) {
  size_t units = 0;
  for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
    units += (*at & 0xC0) == 0x80 ? 0 : *at >= 0xF0 ? 2 : 1;
  return units;
}

static void expect_not_cut(const cJSON *result) {
  assert_false(cJSON_HasObjectItem(result, "outputTruncated"));
  assert_false(cJSON_HasObjectItem(result, "outputBytes"));
  assert_false(cJSON_HasObjectItem(result, "outputTail"));
}

/* The tail has so many bytes, and begins and ends so. */
static void expect_cut(const cJSON *result, size_t bytes, size_t length, const char *begin,
                       const char *end) {
  const char *tail = job_text(result, "outputTail");
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(result, "outputTruncated")));
  assert_int_equal(cJSON_GetObjectItem(result, "outputBytes")->valuedouble, bytes);
  assert_int_equal(strlen(tail), length);
  assert_memory_equal(tail, begin, strlen(begin));
  assert_string_equal(tail + length - strlen(end), end);
}

JOB_TEST(output_is_kept_until_it_has_a_million_units) {
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

  /* One unit is missing: one more line. */
  result = job_run(job, job_script(job, "seq 1000000 1124998; echo 123456; seq 1000 2000"));
  output = job_text(result, "outputContent");
  assert_int_equal(strlen(output), OUTPUT_UNITS - 1 + 5);
  assert_string_equal(output + OUTPUT_UNITS - 8, "123456\n1000\n");
  /* The end overlaps what is kept. */
  expect_cut(result, OUTPUT_UNITS - 1 + 1001 * 5, TAIL_MAX - 4, "1117434\n", "1999\n2000\n");
}

JOB_TEST(the_end_is_there_however_the_command_ended) {
  /* 1,500,000 events: a busy machine takes minutes for them. */
  const cJSON *result =
      job_run_within(job, job_script(job, "yes | head -c 3000000; exit 3"), 5 * WAIT_BOUND_MS);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 3);
  expect_cut(result, 3000000, TAIL_MAX, "y\n", "y\n");
  cJSON *step = job_script(job, "seq 1000000 1199999; echo last; sleep 600");
  cJSON_AddNumberToObject(step, "timeoutSeconds", 3);
  result = job_run(job, step);
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(result, "timedOut")));
  expect_cut(result, 200000 * 8 + 5, TAIL_MAX - 3, "1191809\n", "1199999\nlast\n");
}

/* "\r\n" and a lone "\r" count as the "\n" that they are in outputContent, and a last line without
   an end has one; the mark at the beginning counts nothing. */
JOB_TEST(bytes_are_counted_as_lines) {
  const char *script = "printf '\\357\\273\\277'; yes `printf '123456\\r'` | head -n 100000; "
                       "yes 123456 | head -n 50000 | tr '\\n' '\\r'; printf end";
  expect_cut(job_run(job, job_script(job, script)), 150000 * 7 + 4, TAIL_MAX - 5, "123456\n",
             "123456\nend\n");
}

/* Where none begins in the last bytes: of one line of characters that are cut, from a whole one
   on. */
JOB_TEST(the_end_of_one_long_line_begins_with_a_character) {
  const char *script = "head -c 400000 /dev/zero | LC_ALL=C sed 's/\\x00/\\xe6\\xbc\\xa2/g'; "
                       "echo; head -c 100000 /dev/zero | LC_ALL=C sed 's/\\x00/\\xe6\\xbc\\xa2/g'; "
                       "printf x";
  const cJSON *result = job_run(job, job_script(job, job_format(job, "seq 200000; %s", script)));
  const char *tail = job_text(result, "outputTail");
  assert_null(strstr(tail, "\xEF\xBF\xBD"));
  assert_int_equal(strlen(tail), (TAIL_MAX - 2) / 3 * 3 + 2);
  assert_memory_equal(tail, "\xE6\xBC\xA2", 3);
  assert_string_equal(tail + strlen(tail) - 5, "\xE6\xBC\xA2x\n");
}

/* Each is one character for a reader, and one byte here. */
JOB_TEST(the_end_of_what_is_no_text_is_replaced) {
  const char *script = "yes `printf '\\377\\377\\377\\377\\377\\377\\377'` | head -n 150000";
  const cJSON *result = job_run(job, job_script(job, script));
  const char *tail = job_text(result, "outputTail");
  assert_int_equal(cJSON_GetObjectItem(result, "outputBytes")->valuedouble, 150000 * 8);
  assert_int_equal(strlen(tail), TAIL_MAX / 8 * (7 * 3 + 1));
}

/* As many units as bytes only where all is ASCII: a verdict at the end must not be lost, since a
   server does not look into the stream where the body is short. */
JOB_TEST(output_of_other_characters_is_counted_in_units) {
  static const struct {
    const char *character; /* as sed writes it */
    const char *text;
    size_t units;
  } rows[] = {{"x", "x", 1},
              {"\\xc3\\xa9", "\xC3\xA9", 1},
              {"\\xe6\\xbc\\xa2", "\xE6\xBC\xA2", 1},
              {"\\xf0\\x9f\\x98\\x80", "\xF0\x9F\x98\x80", 2},
              {"\\xff", "\xEF\xBF\xBD", 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    /* 99 characters a line, and more lines than are kept. */
    const char *script = job_format(job,
                                    "yes $(head -c 99 /dev/zero | tr '\\0' x) | head -n %d | "
                                    "LC_ALL=C sed 's/x/%s/g'; echo VERDICT",
                                    12000, rows[i].character);
    const char *output = job_text(job_run(job, job_script(job, script)), "outputContent");
    size_t lines = (OUTPUT_UNITS + 99 * rows[i].units) / (99 * rows[i].units + 1);
    assert_int_equal(units_of(output), lines * (99 * rows[i].units + 1));
    assert_int_equal(strlen(output), lines * (99 * strlen(rows[i].text) + 1));

    script = job_format(job,
                        "yes $(head -c 99 /dev/zero | tr '\\0' x) | head -n %zu | "
                        "LC_ALL=C sed 's/x/%s/g'; echo VERDICT",
                        lines - 1, rows[i].character);
    output = job_text(job_run(job, job_script(job, script)), "outputContent");
    assert_string_equal(output + strlen(output) - strlen("\nVERDICT\n"), "\nVERDICT\n");
  }
}

JOB_TEST(a_long_line_is_kept_whole) {
  /* 300,000 characters of three bytes have fewer than a million units. */
  const char *script = "head -c 300000 /dev/zero | LC_ALL=C sed 's/\\x00/\\xe6\\xbc\\xa2/g'; echo; "
                       "seq 200000; echo VERDICT";
  const char *output = job_text(job_run(job, job_script(job, script)), "outputContent");
  size_t units = units_of(output);
  assert_true(units >= OUTPUT_UNITS && units < OUTPUT_UNITS + 7);
  assert_memory_equal(output + 900000, "\n1\n2\n", 5);
  assert_int_equal(output[strlen(output) - 1], '\n');
}

JOB_TEST(a_last_line_without_end_gets_one) {
  job_expect_result(job, job_run(job, job_step(job, "printf", "a\\r\\nb", NULL)), 0, NULL,
                    "a\nb\n");
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

JOB_TEST(what_can_not_start_says_why) {
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
