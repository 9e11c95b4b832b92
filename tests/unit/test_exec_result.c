#include "agent/doors/files/exec_result.h"

#include "tests/support/quoted.h"
#include "tests/test.h"

static void expect(const struct exec_result *result, size_t stream_max, const char *expected) {
  struct buffer out = {0};
  exec_result_add(result, stream_max, &out);
  buffer_add(&out, "", 1);
  assert_string_equal(out.bytes, quoted(expected));
  buffer_release(&out);
}

static struct run_stream stream(const char *text) {
  return (struct run_stream){.bytes = text, .length = strlen(text)};
}

TEST(five_fields_in_one_line) {
  expect(
      &(struct exec_result){.id = "17", .output = stream("Analysis complete: 3 issues found.\n")},
      EXEC_RESULT_STREAM_MAX,
      "{'id':'17','exitCode':0,'stdout':'Analysis complete: 3 issues found.','stderr':'',"
      "'timedOut':false}\n");
  expect(&(struct exec_result){.id = "a\xC3\xA4", .exit_code = 124, .timed_out = true},
         EXEC_RESULT_STREAM_MAX,
         "{'id':'a\xC3\xA4','exitCode':124,'stdout':'','stderr':'','timedOut':true}\n");
}

TEST(line_endings_at_the_end_are_removed) {
  expect(&(struct exec_result){.id = "1", .output = stream("\na\r\n\n\n"), .errors = stream("\n")},
         EXEC_RESULT_STREAM_MAX,
         "{'id':'1','exitCode':0,'stdout':'\\na\\r','stderr':'','timedOut':false}\n");
}

TEST(bytes_that_are_not_utf_8_are_replaced) {
  expect(&(struct exec_result){.id = "1", .output = stream("a\xFF\xC3")}, EXEC_RESULT_STREAM_MAX,
         "{'id':'1','exitCode':0,'stdout':'a\xEF\xBF\xBD\xEF\xBF\xBD','stderr':'',"
         "'timedOut':false}\n");
}

TEST(a_message_is_the_last_line_of_stderr) {
  struct exec_result result = {
      .id = "1", .exit_code = 125, .message = "tool-executor: stopped by SIGTERM"};
  expect(&result, EXEC_RESULT_STREAM_MAX,
         "{'id':'1','exitCode':125,'stdout':'','stderr':'tool-executor: stopped by SIGTERM',"
         "'timedOut':false}\n");
  result.errors = stream("half\n");
  expect(&result, 2,
         "{'id':'1','exitCode':125,'stdout':'',"
         "'stderr':'ha...(truncated)\\ntool-executor: stopped by SIGTERM','timedOut':false}\n");
}

/* Line endings do not count, and no character is cut. */
TEST(what_is_too_long_is_cut_and_marked) {
  expect(&(struct exec_result){.id = "1", .output = stream("abcd\n\n")}, 4,
         "{'id':'1','exitCode':0,'stdout':'abcd','stderr':'','timedOut':false}\n");
  expect(&(struct exec_result){.id = "1", .output = stream("abc\xC3\xA4z")}, 4,
         "{'id':'1','exitCode':0,'stdout':'abc...(truncated)','stderr':'','timedOut':false}\n");
  struct exec_result cut = {.id = "1", .output = stream("ab\n")};
  cut.output.truncated = true;
  expect(&cut, 4,
         "{'id':'1','exitCode':0,'stdout':'ab\\n...(truncated)','stderr':'','timedOut':false}\n");
}
