#include "agent/tools/answer.h"
#include "agent/tools/tool.h"
#include "tests/test.h"
#include "wire/json.h"

static const struct tool_settings settings = {
    .limits = {.timeout_default = 30, .timeout_maximum = 600},
    .directory = "/box",
    .shell = "bash"};

static struct captured_stream stream(const char *bytes) {
  return (struct captured_stream){.bytes = bytes, .length = strlen(bytes)};
}

static struct execution_result printed(const char *output) {
  return (struct execution_result){.output = stream(output)};
}

static struct execution_result failed(enum execution_outcome how, int exit_code,
                                      const char *reason) {
  struct execution_result end = {.outcome = how, .exit_code = exit_code};
  if (execution_result_is_own(&end))
    end.errors = stream(reason);
  else
    (void)error_set(&end.error, "%s", reason);
  return end;
}

/* Returns the text of a call with these arguments (quotes as in quoted.h), to be freed. */
static char *answer_of(const char *tool, const char *json, const struct execution_result *result,
                       bool fails) {
  cJSON *arguments = cJSON_Parse(quoted(json));
  struct buffer text = {0};
  struct tool_call *call = tool_call_new(tool_find(tool), arguments, &settings, "id-1", &text);
  if (call == NULL)
    fail_msg("refused: %.*s", (int)text.length, text.bytes);
  cJSON_Delete(arguments);
  buffer_add(&text, "before ", 7);
  assert_int_equal(tool_call_answer(call, result, &text), fails);
  tool_call_free(call);
  buffer_add(&text, "", 1);
  assert_memory_equal(text.bytes, "before ", 7);
  memmove(text.bytes, text.bytes + 7, text.length - 7);
  return text.bytes;
}

static void expect(const char *tool, const char *json, struct execution_result result, bool fails,
                   const char *expected) {
  char *text = answer_of(tool, json, &result, fails);
  assert_string_equal(text, expected);
  free(text);
}

#define EXPECT_COMMAND(RESULT, FAILS, TEXT) expect("execute_command", COMMAND, RESULT, FAILS, TEXT)
#define COMMAND "{'command':'foo','args':['-x'],'workdir':'sub'}"

/* --- a command --- */

static void expect_end(const char *output, const char *errors, int exit_code, bool timed_out,
                       const char *expected) {
  struct execution_result result = printed(output);
  result.errors = stream(errors);
  result.exit_code = exit_code;
  result.outcome = timed_out ? EXECUTION_TIMED_OUT : EXECUTION_EXITED;
  EXPECT_COMMAND(result, exit_code != 0, expected);
}

TEST(the_answer_has_the_output_and_the_exit_of_a_command) {
  expect_end("hi\n", "", 0, false, "hi");
  expect_end("", "", 0, false, "(no output)");
  expect_end("\n\n", "\n", 0, false, "(no output)");
  expect_end("  a\n\nb \r\n\n\n", "", 0, false, "  a\n\nb \r");
  expect_end("out\n", "err\n", 3, false, "out\nSTDERR: err\n(exit code: 3)");
  expect_end("", "err", 0, false, "STDERR: err");
  expect_end("", "", 1, false, "(exit code: 1)");
  expect_end("out", "", 124, true, "out\n(command timed out)\n(exit code: 124)");
  expect_end("", "", 124, true, "(command timed out)\n(exit code: 124)");
  expect_end("", "", 137, false, "(exit code: 137)");
}

TEST(the_answer_explains_an_out_of_memory_kill) {
  static const char why[] = "the container's memory was exhausted (94 of 100 MiB)";
  struct execution_result end = failed(EXECUTION_MEMORY_LIMIT, 137, why);
  EXPECT_COMMAND(end, true,
                 "(the container's memory was exhausted (94 of 100 MiB))\n(exit code: 137)");
  end.output = stream("out\n");
  EXPECT_COMMAND(end, true,
                 "out\n(the container's memory was exhausted (94 of 100 MiB))\n(exit code: 137)");
  end.output.length = 0;
  expect("grep", "{'pattern':'x'}", end, true,
         "Error: the container's memory was exhausted (94 of 100 MiB)");
}

TEST(the_answer_explains_the_signal_of_a_limit) {
  static const char why[] = "killed by signal 24 (SIGXCPU): a process used 1 s";
  struct execution_result end = failed(EXECUTION_SIGNALED, 152, "");
  (void)error_set(&end.error, "%s", why);
  end.cost.cause = STEP_CAUSE_CPU_LIMIT;
  EXPECT_COMMAND(end, true,
                 "(killed by signal 24 (SIGXCPU): a process used 1 s)\n(exit code: 152)");
}

static struct captured_stream cut_stream(const char *head, const char *tail, uint64_t total) {
  return (struct captured_stream){.bytes = head,
                                  .length = strlen(head),
                                  .truncated = true,
                                  .tail = tail,
                                  .tail_length = strlen(tail),
                                  .total = total};
}

TEST(the_answer_shows_where_a_stream_was_cut) {
  struct execution_result result = {.output = cut_stream("abc\n", "xyz\n\n", 60000),
                                    .errors = cut_stream("err", "or", 70000)};
  EXPECT_COMMAND(result, false,
                 "abc\n...(59991 bytes left out)\nxyz\n"
                 "STDERR: err\n...(69995 bytes left out)\nor");
  result.output = cut_stream("abc\r", "\n\n\n", 60000);
  result.errors.length = 0;
  result.errors.truncated = false;
  EXPECT_COMMAND(result, false, "abc\r\n...(59993 bytes left out)");
}

TEST(a_stream_of_exactly_the_maximum_is_not_cut) {
  enum { SIDE = 25600 };
  char text[2 * SIDE + 2] = "", expected[2 * SIDE + 100];
  memset(text, 'x', 2 * SIDE);
  EXPECT_COMMAND(printed(text), false, text);
  text[2 * SIDE] = 'y';
  (void)snprintf(expected, sizeof expected, "%.*s\n...(1 bytes left out)\n%s", SIDE, text,
                 text + SIDE + 1);
  EXPECT_COMMAND(printed(text), false, expected);
}

TEST(a_command_that_was_not_executed_is_an_error) {
  EXPECT_COMMAND(failed(EXECUTION_NOT_FOUND, 127, "foo: command not found on PATH"), true,
                 "Error: cannot run 'foo': No such file or directory");
  EXPECT_COMMAND(failed(EXECUTION_NOT_EXECUTABLE, 126, "cannot run /bin/foo: permission denied"),
                 true, "Error: cannot run /bin/foo: permission denied");
  EXPECT_COMMAND(failed(EXECUTION_NO_PROCESS, 125, "cannot start foo: Resource busy"), true,
                 "Error: cannot start foo: Resource busy");
  struct execution_result end =
      failed(EXECUTION_NO_DIRECTORY, 125, "working directory /box/sub: Denied");
  end.error.code = ENOENT;
  EXPECT_COMMAND(end, true, "Error: workdir: no such directory: sub");
  expect("execute_command", "{'command':'x'}", end, true,
         "Error: workdir: no such directory: /box");
  end.error.code = ENOTDIR;
  EXPECT_COMMAND(end, true, "Error: workdir: no such directory: sub");
  end.error.code = EACCES;
  EXPECT_COMMAND(end, true, "Error: working directory /box/sub: Denied");
}

/* --- the file tools --- */

#define LISTED "{'path':'d'}"

#define TEXT "text/plain\n"

/* Expects this image, or none if `type` is "". */
static void expect_image(const char *tool, const char *json, struct execution_result result,
                         const char *type, const char *data) {
  cJSON *arguments = cJSON_Parse(quoted(json));
  struct buffer text = {0};
  struct tool_call *call = tool_call_new(tool_find(tool), arguments, &settings, "id-1", &text);
  assert_non_null(call);
  cJSON_Delete(arguments);
  struct tool_image image;
  assert_int_equal(tool_call_image(call, &result, &image), *type != '\0');
  if (*type != '\0') {
    assert_int_equal(image.type_length, strlen(type));
    assert_memory_equal(image.type, type, strlen(type));
    assert_int_equal(image.length, strlen(data));
    assert_memory_equal(image.base64, data, strlen(data));
  }
  tool_call_free(call);
  buffer_release(&text);
}

TEST(an_image_is_named_and_can_be_shown) {
  expect("read_file", "{'path':'f'}", printed("image/png\nAAAA"), false,
         "(image/png, 3 bytes: not shown as text)");
  expect("read_file", "{'path':'f'}", printed("image/gif\nAAAAAA=="), false,
         "(image/gif, 4 bytes: not shown as text)");
  expect("read_file", "{'path':'f'}", printed("image/jpeg\nAAA="), false,
         "(image/jpeg, 2 bytes: not shown as text)");
  expect_image("read_file", "{'path':'f'}", printed("image/png\nAAAA"), "image/png", "AAAA");
  expect_image("read_file", "{'path':'f'}", printed(TEXT "image/png\nAAAA"), "", "");
  expect_image("read_file", "{'path':'f'}", printed(TEXT), "", "");
  expect_image("read_file", "{'path':'f'}", failed(EXECUTION_EXITED, 1, "image exceeds 5 MB limit"),
               "", "");
  expect_image("read_file", "{'path':'f'}", printed("image/png"), "", "");
  struct execution_result late = printed("image/png\nAAAA");
  late.outcome = EXECUTION_TIMED_OUT;
  late.exit_code = 124;
  expect_image("read_file", "{'path':'f'}", late, "", "");
  expect_image("execute_command", "{'command':'x'}", printed("image/png\nAAAA"), "", "");
}

TEST(the_answer_explains_how_a_file_tool_was_ended) {
  struct execution_result result = printed("[{");
  result.outcome = EXECUTION_TIMED_OUT;
  result.exit_code = EXECUTION_EXIT_TIMED_OUT;
  expect("list_directory", LISTED, result, true, "(command timed out)\n(exit code: 124)");
  result = printed("");
  result.outcome = EXECUTION_SIGNALED;
  result.signal = 9;
  expect("list_directory", LISTED, result, true, "Error: killed by signal 9 (SIGKILL)");
}

/* --- for programs --- */

static void expect_outcome(enum answer_form form, const struct execution_result *result,
                           const char *expected) {
  struct buffer text = {0};
  answer_outcome(form, result, &text);
  buffer_add(&text, "", 1);
  assert_string_equal(text.bytes, quoted(expected));
  buffer_release(&text);
}

TEST(outcomes_have_their_members_in_order) {
  struct execution_result result = printed("hi\n");
  result.duration_ms = 3;
  expect_outcome(ANSWER_METADATA, &result,
                 "{'exitCode':0,'timedOut':false,'durationSeconds':0.003}");
  expect_outcome(ANSWER_STREAMS, &result,
                 "{'exitCode':0,'stdout':'hi\\n','stderr':'','timedOut':false,"
                 "'durationSeconds':0.003}");
  result.errors = cut_stream("\xFF", "\n\xFF\n", 60000);
  result.exit_code = 124;
  result.outcome = EXECUTION_TIMED_OUT;
  result.duration_ms = 30000;
  expect_outcome(ANSWER_STRUCTURED, &result,
                 "{'exitCode':124,'timedOut':true,'durationSeconds':30,'stdout':'hi\\n',"
                 "'stderr':'\xEF\xBF\xBD\\n...(59996 bytes left out)\\n\\n\xEF\xBF\xBD\\n',"
                 "'stdoutTruncated':false,'stderrTruncated':true}");
  expect_outcome(ANSWER_STREAMS, &result,
                 "{'exitCode':124,'stdout':'hi\\n','stderr':"
                 "'\xEF\xBF\xBD\\n...(59996 bytes left out)\\n\\n\xEF\xBF\xBD\\n',"
                 "'timedOut':true,'durationSeconds':30}");
}

#define REASON "the step had 5 of its 3 processes (limits.processes); it was killed"

TEST(an_outcome_names_the_limit_that_ended_the_command) {
  const struct execution_result result = failed(EXECUTION_PROCESS_LIMIT, 137, REASON);
  expect_outcome(ANSWER_METADATA, &result,
                 "{'exitCode':137,'timedOut':false,'durationSeconds':0,'errorMessage':'" REASON
                 "'}");
  expect_outcome(ANSWER_STREAMS, &result,
                 "{'exitCode':137,'stdout':'','stderr':'','timedOut':false,'durationSeconds':0,"
                 "'errorMessage':'" REASON "'}");
  expect_outcome(ANSWER_STRUCTURED, &result,
                 "{'exitCode':137,'timedOut':false,'durationSeconds':0,'stdout':'','stderr':'',"
                 "'stdoutTruncated':false,'stderrTruncated':false,'errorMessage':'" REASON "'}");
}

/* 50 KB of each stream, of which every byte is an escape. */
TEST(a_structured_outcome_is_bounded_in_any_escaping) {
  enum { LENGTH = 51200 };
  char *control = malloc(LENGTH + 1);
  assert_non_null(control);
  memset(control, 1, LENGTH);
  control[LENGTH] = '\0';
  struct execution_result result = printed(control);
  result.errors = stream(control);
  struct buffer text = {0};
  answer_outcome(ANSWER_STRUCTURED, &result, &text);
  assert_in_range(text.length, ANSWER_STREAM_MAX, 2 * ANSWER_STREAM_MAX + 200);
  buffer_add(&text, "", 1);
  assert_non_null(strstr(text.bytes, "\"stdoutTruncated\":true,\"stderrTruncated\":true"));
  assert_non_null(strstr(text.bytes, "\\u0001\\n...(17868 bytes left out)\\n\\u0001"));
  buffer_release(&text);
  memset(control, 'x', LENGTH);
  answer_outcome(ANSWER_STRUCTURED, &result, &text);
  assert_in_range(text.length, 2 * LENGTH, 2 * LENGTH + 200);
  buffer_release(&text);
  free(control);
}

TEST(a_long_name_is_cut_in_an_error) {
  enum { LENGTH = 3000 };
  char *arguments = malloc(LENGTH + 64);
  assert_non_null(arguments);
  (void)snprintf(arguments, LENGTH + 64, "{'command':'%0*d','args':['a']}", LENGTH, 0);
  const struct execution_result result = failed(EXECUTION_NOT_FOUND, 127, "not found");
  char *text = answer_of("execute_command", arguments, &result, true);
  assert_in_range(strlen(text), 256, 400);
  assert_non_null(strstr(text, "\xE2\x80\xA6': No such file or directory"));
  free(text);
  free(arguments);
}
