#include "agent/tools/answer.h"
#include "agent/tools/tool.h"
#include "agent/tools/tool_outcome.h"
#include "tests/support/quoted.h"
#include "tests/test.h"
#include "wire/json_guard.h"

static const struct tool_settings settings = {.default_timeout_seconds = 30,
                                              .max_timeout_seconds = 600,
                                              .directory = "/box",
                                              .shell = "bash"};

static struct run_stream stream(const char *bytes) {
  return (struct run_stream){.bytes = bytes, .length = strlen(bytes)};
}

static struct run_result printed(const char *output) {
  return (struct run_result){.reason = "", .output = stream(output)};
}

static struct run_result failed(enum run_failure failure, int exit_code, const char *reason) {
  return (struct run_result){.failure = failure,
                             .exit_code = exit_code,
                             .reason = reason,
                             .reason_length = strlen(reason)};
}

/* The text of a call with these arguments (quotes as in quoted.h), to be freed. */
static char *answer_of(const char *tool, const char *json, const struct run_result *result,
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

static void expect(const char *tool, const char *json, struct run_result result, bool fails,
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
  struct run_result result = printed(output);
  result.errors = stream(errors);
  result.exit_code = exit_code;
  result.timed_out = timed_out;
  EXPECT_COMMAND(result, exit_code != 0, expected);
}

TEST(what_a_command_prints_and_how_it_ends_are_lines) {
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

TEST(a_stream_that_was_cut_says_so) {
  struct run_result result = printed("abc\n");
  result.output.truncated = true;
  result.errors = (struct run_stream){"err", 3, true};
  EXPECT_COMMAND(result, false, "abc\n...(truncated)\nSTDERR: err...(truncated)");
}

TEST(a_command_that_was_not_executed_is_an_error) {
  EXPECT_COMMAND(failed(RUN_NOT_FOUND, 127, "foo: command not found on PATH"), true,
                 "Error: cannot run 'foo': No such file or directory");
  EXPECT_COMMAND(failed(RUN_NOT_EXECUTABLE, 126, "cannot run /bin/foo: permission denied"), true,
                 "Error: cannot run /bin/foo: permission denied");
  EXPECT_COMMAND(failed(RUN_NO_PROCESS, 125, "cannot start foo: Resource busy"), true,
                 "Error: cannot start foo: Resource busy");
  EXPECT_COMMAND(
      failed(RUN_NO_DIRECTORY, 125, "working directory /box/sub: No such file or directory"), true,
      "Error: workdir: no such directory: sub");
  EXPECT_COMMAND(failed(RUN_NO_DIRECTORY, 125, "working directory /box/sub: Not a directory"), true,
                 "Error: workdir: no such directory: sub");
  EXPECT_COMMAND(failed(RUN_NO_DIRECTORY, 125, "working directory /box/sub: Permission denied"),
                 true, "Error: working directory /box/sub: Permission denied");
  expect("execute_command", "{'command':'x'}",
         failed(RUN_NO_DIRECTORY, 125, "working directory /box: No such file or directory"), true,
         "Error: workdir: no such directory: /box");
}

TEST(a_call_that_was_stopped_is_cancelled) {
  EXPECT_COMMAND(failed(RUN_STOPPED, 143, "cancelled: x"), true, "Error: cancelled: x");
  expect("grep", "{'pattern':'x'}", failed(RUN_STOPPED, 143, "cancelled: x"), true,
         "Error: cancelled: x");
}

/* --- the file tools --- */

#define LISTED "{'path':'d'}"

static void expect_listing(const char *json, const char *warnings, const char *expected) {
  struct run_result result = printed(quoted(json));
  result.errors = stream(warnings);
  expect("list_directory", LISTED, result, false, expected);
}

TEST(a_listing_has_a_line_for_each_entry) {
  expect_listing("[]", "", "(empty directory)");
  expect_listing("[{'path':'/box/d/main.c','size_bytes':420,'mtime':'x','is_directory':false},"
                 "{'path':'/box/d/src','mtime':'x','is_directory':true},"
                 "{'path':'/box/d/unknown','is_directory':false},"
                 "{'path':'/box/d/large','size_bytes':123456789012,'is_directory':false}]",
                 "",
                 "file        420  main.c\n"
                 "dir           -  src\n"
                 "file          -  unknown\n"
                 "file   123456789012  large\n");
}

TEST(names_are_one_line) {
  expect_listing(
      "[{'path':'/box/a\\nb\\u0085\\u2028c\xC3\xA9','size_bytes':0,'is_directory':false}]", "",
      "file          0  a\xEF\xBF\xBD"
      "b\xEF\xBF\xBD\xEF\xBF\xBD"
      "c\xC3\xA9\n");
}

TEST(warnings_of_a_listing_come_last) {
  expect_listing("[{'path':'/a','size_bytes':1,'is_directory':false}]",
                 "directory truncated at 1000 entries\n2 directories could not be looked into\n",
                 "file          1  a\n... (truncated at 1000 entries)\n"
                 "... (2 directories could not be looked into)");
}

static void expect_matches(const char *json, const char *warnings, const char *expected) {
  struct run_result result = printed(quoted(json));
  result.errors = stream(warnings);
  expect("grep", "{'pattern':'x'}", result, false, expected);
}

TEST(matches_are_lines) {
  expect_matches("[]", "", "(no matches)");
  expect_matches("[{'path':'a/b.c','line':11,'text':'before','kind':'context'},"
                 "{'path':'a/b.c','line':12,'text':'it\\u0009is: x','kind':'match'}]",
                 "", "a/b.c-11-before\na/b.c:12:it\tis: x");
  expect_matches("[{'path':'a'},{'path':'b\\nc'}]", "",
                 "a\nb\xEF\xBF\xBD"
                 "c");
  expect_matches("[{'path':'a','count':3},{'path':'b','count':1}]", "", "a:3\nb:1");
}

TEST(matches_that_were_cut_say_so) {
  expect_matches("[{'path':'a'}]", "grep truncated at 200 matches\n",
                 "a\n... (truncated at 200 matches)");
  expect_matches(
      "[]", "grep left out 1 directories and 2 files that are hidden or ignored\n",
      "(no matches)\n... (left out 1 directories and 2 files that are hidden or ignored)");
}

#define TEXT "text/plain\n"

TEST(a_read_is_the_text_or_a_page_of_it) {
  expect("read_file", "{'path':'f'}", printed(TEXT "a\nb\n"), false, "a\nb\n");
  expect("read_file", "{'path':'f'}", printed(TEXT), false, "");
  expect("read_file", "{'path':'f'}", printed(TEXT "image/png\nAAAA"), false, "image/png\nAAAA");
  expect("read_file", "{'path':'f','offset':2,'limit':1}", printed(TEXT "a\nb\nc\n"), false,
         "b\n... (showing lines 2-2 of 3; continue with offset=3)");
  expect("read_file", "{'path':'f','offset':99}", printed(TEXT "a\nb\nc\n"), true,
         "Error: offset 99 is past the end of the file (3 lines)");
}

/* What the call has for who can show it; type "": nothing. */
static void expect_image(const char *tool, const char *json, struct run_result result,
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
  expect_image("read_file", "{'path':'f'}", failed(RUN_EXECUTED, 1, "image exceeds 5 MB limit"), "",
               "");
  expect_image("read_file", "{'path':'f'}", printed("image/png"), "", "");
  struct run_result late = printed("image/png\nAAAA");
  late.timed_out = true;
  late.exit_code = 124;
  expect_image("read_file", "{'path':'f'}", late, "", "");
  expect_image("execute_command", "{'command':'x'}", printed("image/png\nAAAA"), "", "");
}

TEST(a_write_says_how_much) {
  expect("write_file", "{'path':'../a b','content':'h\xC3\xA9llo\\n'}", printed(""), false,
         "Successfully wrote 7 bytes to ../a b");
  expect("write_file", "{'path':'a','content':''}", printed(""), false,
         "Successfully wrote 0 bytes to a");
  expect("write_file", "{'path':'a','content':'" JSON_GUARD_NUL "x" JSON_GUARD_NUL "'}",
         printed(""), false, "Successfully wrote 3 bytes to a");
}

TEST(an_edit_and_a_tree_are_the_texts_of_the_engine) {
  static const char report[] = "Edited a (1 change)\n\n@ line 2:\n- x\n+ y\n";
  expect("edit_file", "{'path':'a','edits':[{'old_string':'x','new_string':'y'}]}", printed(report),
         false, report);
  expect("directory_tree", "{}", printed("./\n\u2514\u2500\u2500 a"), false,
         "./\n\u2514\u2500\u2500 a");
}

TEST(a_file_tool_that_fails_says_why) {
  expect("read_file", "{'path':'f'}", failed(RUN_EXECUTED, 1, "file not found: /box/f"), true,
         "Error: file not found: /box/f");
  expect("list_directory", "{'path':'f'}", failed(RUN_EXECUTED, 1, "directory not found: /box/f"),
         true, "Error: directory not found: /box/f");
}

TEST(a_file_tool_that_was_ended_says_how) {
  struct run_result result = printed("[{");
  result.timed_out = true;
  result.exit_code = RUN_EXIT_TIMED_OUT;
  result.reason = "timed out after 30s";
  result.reason_length = strlen(result.reason);
  expect("list_directory", LISTED, result, true, "(command timed out)\n(exit code: 124)");
  result = printed("");
  result.exit_code = 137;
  expect("list_directory", LISTED, result, true, "(exit code: 137)");
}

static struct buffer lines(const char *line, size_t count) {
  struct buffer text = {0};
  for (size_t i = 0; i < count; i++)
    buffer_add_string(&text, line);
  buffer_add(&text, "", 1);
  return text;
}

TEST(a_long_answer_is_cut_after_its_last_whole_line) {
  /* 16 bytes a line: 6400 of them are 102400 bytes with the last newline */
  struct buffer whole = lines("0123456789abcde\n", 6400);
  struct buffer more = lines("0123456789abcde\n", 6402);
  struct run_result result = printed(more.bytes);
  result.errors = stream("1 directories x");
  char *text = answer_of("directory_tree", "{}", &result, false);
  assert_memory_equal(text, whole.bytes, 102400);
  assert_string_equal(text + 102400, "... (truncated at 100 KB)\n... (1 directories x)");
  free(text);
  expect("directory_tree", "{}", printed(whole.bytes), false, whole.bytes);
  buffer_release(&whole);
  buffer_release(&more);
}

TEST(a_long_listing_is_cut_too) {
  struct buffer json = {0};
  char name[201];
  memset(name, 'n', 200);
  name[200] = '\0';
  for (int i = 0; i < 1000; i++) {
    buffer_add_string(&json, i == 0 ? "[" : ",");
    buffer_add_string(&json, formatted("{\"path\":\"/box/%s\",\"is_directory\":true}", name));
  }
  buffer_add(&json, "]", 2);
  char *text = answer_of("list_directory", LISTED,
                         &(struct run_result){.output = stream(json.bytes)}, false);
  /* 218 bytes a line */
  assert_int_equal(strlen(text), 218 * (102400 / 218) + strlen("... (truncated at 100 KB)"));
  assert_non_null(strstr(text, "n\n... (truncated at 100 KB)"));
  free(text);
  buffer_release(&json);
}

TEST(broken_content_ends_the_answer) {
  expect_matches("[{'path':'a'},{'path':", "", "a");
  expect_matches("", "", "(no matches)");
  expect_matches("[", "", "(no matches)");
}

/* --- for programs --- */

static void expect_outcome(enum tool_outcome form, const struct run_result *result,
                           const char *expected) {
  struct buffer text = {0};
  tool_outcome_add(form, result, &text);
  buffer_add(&text, "", 1);
  assert_string_equal(text.bytes, quoted(expected));
  buffer_release(&text);
}

TEST(outcomes_have_their_members_in_order) {
  struct run_result result = printed("hi\n");
  result.duration_ms = 3;
  expect_outcome(TOOL_OUTCOME_METADATA, &result,
                 "{'exitCode':0,'timedOut':false,'durationSeconds':0.003}");
  expect_outcome(TOOL_OUTCOME_STREAMS, &result,
                 "{'exitCode':0,'stdout':'hi\\n','stderr':'','timedOut':false,"
                 "'durationSeconds':0.003}");
  result.errors = (struct run_stream){"\xFF", 1, true};
  result.exit_code = 124;
  result.timed_out = true;
  result.duration_ms = 30000;
  expect_outcome(TOOL_OUTCOME_STRUCTURED, &result,
                 "{'exitCode':124,'timedOut':true,'durationSeconds':30,'stdout':'hi\\n',"
                 "'stderr':'\xEF\xBF\xBD...(truncated)','stdoutTruncated':false,"
                 "'stderrTruncated':true}");
}

/* 50 KB of each stream, of which every byte is an escape. */
TEST(a_structured_outcome_is_bounded_in_any_escaping) {
  enum { LENGTH = 51200 };
  char *control = malloc(LENGTH + 1);
  assert_non_null(control);
  memset(control, 1, LENGTH);
  control[LENGTH] = '\0';
  struct run_result result = printed(control);
  result.errors = stream(control);
  struct buffer text = {0};
  tool_outcome_add(TOOL_OUTCOME_STRUCTURED, &result, &text);
  assert_in_range(text.length, TOOL_OUTCOME_STREAM_MAX, 2 * TOOL_OUTCOME_STREAM_MAX + 200);
  buffer_add(&text, "", 1);
  assert_non_null(strstr(text.bytes, "\"stdoutTruncated\":true,\"stderrTruncated\":true"));
  buffer_release(&text);
  memset(control, 'x', LENGTH);
  tool_outcome_add(TOOL_OUTCOME_STRUCTURED, &result, &text);
  assert_in_range(text.length, 2 * LENGTH, 2 * LENGTH + 200);
  buffer_release(&text);
  free(control);
}

TEST(a_long_name_is_cut_in_an_error) {
  enum { LENGTH = 3000 };
  char *arguments = malloc(LENGTH + 64);
  assert_non_null(arguments);
  (void)snprintf(arguments, LENGTH + 64, "{'command':'%0*d','args':['a']}", LENGTH, 0);
  const struct run_result result = failed(RUN_NOT_FOUND, 127, "not found");
  char *text = answer_of("execute_command", arguments, &result, true);
  assert_in_range(strlen(text), 256, 400);
  assert_non_null(strstr(text, "\xE2\x80\xA6': No such file or directory"));
  free(text);
  free(arguments);
}

TEST(an_answer_of_the_largest_size_is_kept) {
  struct buffer text = lines("x", ANSWER_MAX);
  expect("directory_tree", "{}", printed(text.bytes), false, text.bytes);
  text.length--;
  text.bytes[1] = '\n';
  buffer_add(&text, "\ny", 3);
  char *cut =
      answer_of("directory_tree", "{}", &(struct run_result){.output = stream(text.bytes)}, false);
  assert_memory_equal(cut, text.bytes, ANSWER_MAX);
  assert_string_equal(cut + ANSWER_MAX, "\n... (truncated at 100 KB)");
  free(cut);
  buffer_release(&text);
}
