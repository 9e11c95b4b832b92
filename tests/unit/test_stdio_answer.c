#include "agent/doors/stdio/stdio_answer.h"

#include <cjson/cJSON.h>

#include "tests/support/quoted.h"
#include "tests/test.h"

static const struct tool_settings settings = {.default_timeout_seconds = 30,
                                              .max_timeout_seconds = 120,
                                              .clamps_timeout = true,
                                              .directory = "/d",
                                              .shell = "sh"};

static const struct stdio_address plain = {.dialect = STDIO_PLAIN, .id = "1", .id_length = 1};
static const struct stdio_address json_rpc = {
    .dialect = STDIO_JSON_RPC, .id = "\"a\"", .id_length = 3};
static const struct stdio_address nobody = {.dialect = STDIO_JSON_RPC};

/* One line, and the buffer is empty again. */
static void expect(struct buffer *out, const char *line) {
  line = quoted(line);
  buffer_add(out, "", 1);
  assert_string_equal(out->bytes, line);
  if (line[0] != '\0') {
    const char *end = NULL;
    cJSON *tree = cJSON_ParseWithOpts(out->bytes, &end, false);
    assert_non_null(tree);
    assert_string_equal(end, "\n");
    cJSON_Delete(tree);
  }
  buffer_release(out);
}

static struct tool_call *make_call(const char *tool, const char *arguments) {
  struct buffer text = {0};
  cJSON *tree = cJSON_Parse(quoted(arguments));
  struct tool_call *call = tool_call_new(tool_find(tool), tree, &settings, "1", &text);
  assert_non_null(call);
  cJSON_Delete(tree);
  return call;
}

static struct run_stream stream(const char *text) {
  return (struct run_stream){.bytes = text, .length = strlen(text)};
}

TEST(an_answer_repeats_the_id) {
  struct buffer out = {0};
  stdio_answer_json(&out, &plain, "{}");
  expect(&out, "{'id':1,'result':{}}\n");
  stdio_answer_json(&out, &json_rpc, "null");
  expect(&out, "{'jsonrpc':'2.0','id':'a','result':null}\n");
  stdio_answer_error(&out, &plain, -1, "a \"b\"\n");
  expect(&out, "{'id':1,'error':{'code':-1,'message':'a \\'b\\'\\n'}}\n");
  stdio_answer_error(&out, &json_rpc, -32700, "a");
  expect(&out, "{'jsonrpc':'2.0','id':'a','error':{'code':-32700,'message':'a'}}\n");
}

TEST(a_refusal_is_an_error_or_a_failure) {
  static const char reason[] = "Error: path: required";
  struct buffer out = {0};
  stdio_answer_refusal(&out, &plain, reason, strlen(reason));
  expect(&out, "{'id':1,'error':{'code':-1,'message':'path: required'}}\n");
  stdio_answer_refusal(&out, &json_rpc, reason, strlen(reason));
  expect(&out, "{'jsonrpc':'2.0','id':'a','result':{'output':'Error: path: "
               "required','success':false}}\n");
}

TEST(a_commands_end_is_a_result_whatever_it_is) {
  struct tool_call *call = make_call("execute_command", "{'command':'x'}");
  struct run_result result = {.exit_code = 3,
                              .duration_ms = 1500,
                              .reason = "",
                              .output = stream("Error: \xFF\n"),
                              .errors = stream("e")};
  struct buffer out = {0};
  stdio_answer_result(&out, &plain, call, &result);
  expect(&out, "{'id':1,'result':{'exitCode':3,'stdout':'Error: \xEF\xBF\xBD\\n','stderr':'e',"
               "'timedOut':false,'durationSeconds':1.5}}\n");
  stdio_answer_result(&out, &json_rpc, call, &result);
  expect(&out, "{'jsonrpc':'2.0','id':'a','result':{'output':'Error: \xEF\xBF\xBD\\nSTDERR: e\\n("
               "exit code: 3)','success':false,'metadata':{'exitCode':3,'timedOut':false,"
               "'durationSeconds':1.5}}}\n");
  tool_call_free(call);
}

TEST(a_command_that_was_not_executed_is_an_error) {
  struct tool_call *call = make_call("execute_command", "{'command':'x','args':['y']}");
  struct run_result result = {.failure = RUN_NOT_FOUND, .exit_code = 127, .reason = ""};
  struct buffer out = {0};
  stdio_answer_result(&out, &plain, call, &result);
  expect(&out, "{'id':1,'error':{'code':-1,'message':'cannot run `x`: No such file or "
               "directory'}}\n");
  tool_call_free(call);
}

TEST(other_tools_have_a_text) {
  struct tool_call *call = make_call("read_file", "{'path':'f'}");
  struct run_result result = {.reason = "", .output = stream("text/plain\na\n")};
  struct buffer out = {0};
  stdio_answer_result(&out, &plain, call, &result);
  expect(&out, "{'id':1,'result':{'output':'a\\n'}}\n");
  result.output = (struct run_stream){0};
  stdio_answer_result(&out, &plain, call, &result);
  expect(&out, "{'id':1,'result':{'output':''}}\n");
  stdio_answer_result(&out, &json_rpc, call, &result);
  expect(&out, "{'jsonrpc':'2.0','id':'a','result':{'output':'','success':true,'metadata':{"
               "'exitCode':0,'timedOut':false,'durationSeconds':0}}}\n");
  result.exit_code = 1;
  result.reason = "file not found: f";
  result.reason_length = strlen(result.reason);
  stdio_answer_result(&out, &plain, call, &result);
  expect(&out, "{'id':1,'error':{'code':-1,'message':'file not found: f'}}\n");
  tool_call_free(call);
}

TEST(a_notification_gets_no_line) {
  struct tool_call *call = make_call("read_file", "{'path':'f'}");
  struct run_result result = {.reason = ""};
  struct buffer out = {0};
  stdio_answer_json(&out, &nobody, "{}");
  stdio_answer_error(&out, &nobody, -1, "a");
  stdio_answer_refusal(&out, &nobody, "a", 1);
  stdio_answer_result(&out, &nobody, call, &result);
  stdio_answer_info(&out, &nobody, NULL, &settings, "1");
  stdio_answer_progress(&out, &nobody, 1, "a", 1);
  expect(&out, "");
  tool_call_free(call);
}

TEST(info_is_of_one_tool_or_of_all) {
  struct buffer out = {0};
  stdio_answer_info(&out, &json_rpc, tool_find("read_file"), &settings, "1.2.3");
  cJSON *answer = cJSON_ParseWithLength(out.bytes, out.length);
  const cJSON *result = cJSON_GetObjectItem(answer, "result");
  assert_int_equal(cJSON_GetArraySize(result), 4);
  assert_string_equal(cJSON_GetObjectItem(result, "name")->valuestring, "read_file");
  assert_string_equal(cJSON_GetObjectItem(result, "version")->valuestring, "1.2.3");
  assert_true(cJSON_IsString(cJSON_GetObjectItem(result, "description")));
  assert_true(cJSON_IsObject(cJSON_GetObjectItem(result, "parameters_schema")));
  cJSON_Delete(answer);
  buffer_release(&out);
  stdio_answer_info(&out, &plain, NULL, &settings, "1");
  answer = cJSON_ParseWithLength(out.bytes, out.length);
  result = cJSON_GetObjectItem(answer, "result");
  assert_string_equal(cJSON_GetObjectItem(result, "name")->valuestring, "execute_command");
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(result, "tools")), 7);
  assert_int_equal(out.bytes[out.length - 1], '\n');
  cJSON_Delete(answer);
  buffer_release(&out);
}

TEST(progress_is_cut_after_200_characters) {
  char text[602] = "";
  struct buffer out = {0};
  for (int i = 0; i < 300; i++)
    strcat(text, "\xC3\xA9");
  stdio_answer_progress(&out, &plain, 99, text, 600);
  text[400] = '\0';
  expect(&out, formatted("{'id':1,'progress':{'percent':99,'message':'%s'}}\n", text));
  stdio_answer_progress(&out, &plain, 0, "\xFF\xC3", 2);
  expect(&out, "{'id':1,'progress':{'percent':0,'message':'\xEF\xBF\xBD\xEF\xBF\xBD'}}\n");
}

TEST(an_only_answer_has_no_id) {
  struct run_result result = {.exit_code = 124, .timed_out = true, .duration_ms = 55000};
  struct buffer out = {0};
  stdio_answer_only(&out, "a", 1, &result);
  expect(&out, "{'output':'a','metadata':{'exitCode':124,'timedOut':true,"
               "'durationSeconds':55}}\n");
  stdio_answer_only(&out, "", 0, NULL);
  expect(&out, "{'output':''}\n");
}
