#include "agent/doors/stdio/stdio_request.h"

#include "tests/support/quoted.h"
#include "tests/test.h"

struct trial {
  struct stdio_rules rules;
  struct stdio_request request;
  char *line;
};

static int set_up(void **state) {
  struct trial *self = calloc(1, sizeof *self);
  assert_non_null(self);
  *state = self;
  return 0;
}

static void release(struct trial *self) {
  stdio_request_release(&self->request);
  free(self->line);
  self->line = NULL;
}

static int tear_down(void **state) {
  release(*state);
  free(*state);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

/* A copy without a NUL after it, for the sanitizer. */
static const struct stdio_request *parse(struct trial *self, const char *line) {
  release(self);
  line = quoted(line);
  size_t length = strlen(line);
  self->line = malloc(length > 0 ? length : 1);
  assert_non_null(self->line);
  memcpy(self->line, line, length);
  stdio_request_parse(&self->request, &self->rules, self->line, length);
  return &self->request;
}

static void expect_id(const struct stdio_request *request, const char *id) {
  if (id == NULL) {
    assert_null(request->id.text);
    return;
  }
  assert_non_null(request->id.text);
  assert_int_equal(request->id.length, strlen(quoted(id)));
  assert_memory_equal(request->id.text, quoted(id), request->id.length);
}

static void expect_call(struct trial *self, const char *line, const char *tool,
                        const char *arguments) {
  const struct stdio_request *request = parse(self, line);
  if (request->method != STDIO_CALL)
    fail_msg("%s: %s", line, request->error.text);
  assert_string_equal(request->tool->name, tool);
  char *text = request->arguments == NULL ? NULL : cJSON_PrintUnformatted(request->arguments);
  assert_string_equal(text == NULL ? "none" : text, quoted(arguments));
  cJSON_free(text);
}

static void expect_error(struct trial *self, const char *line, int code, const char *error) {
  const struct stdio_request *request = parse(self, line);
  assert_int_equal(request->method, STDIO_INVALID);
  assert_string_equal(request->error.text, quoted(error));
  assert_int_equal(request->code, code);
}

/* --- what is asked for ------------------------------------------------------------------------ */

TRIAL_TEST(execute_has_the_arguments_of_the_doors_tool) {
  expect_call(trial, "{'id':1,'method':'execute','params':{'command':'x'}}", "execute_command",
              "{'command':'x'}");
  expect_call(trial, "{'id':1,'method':'execute'}", "execute_command", "none");
  expect_call(trial, "{'id':1,'method':'execute','params':null}", "execute_command", "none");
  trial->rules.tool = tool_find("grep");
  expect_call(trial, "{'id':1,'method':'execute','params':{'pattern':'x'}}", "grep",
              "{'pattern':'x'}");
}

TRIAL_TEST(execute_may_name_its_tool) {
  expect_call(trial, "{'method':'execute','params':{'tool':'grep','pattern':'x'}}", "grep",
              "{'pattern':'x'}");
  expect_call(trial, "{'method':'execute','params':{'arguments':{'path':'x'},'tool':'read_file'}}",
              "read_file", "{'path':'x'}");
  expect_call(trial, "{'method':'execute','params':{'tool':'grep','arguments':null,'path':'x'}}",
              "grep", "{'arguments':null,'path':'x'}");
  trial->rules.tool = tool_find("grep");
  expect_call(trial, "{'method':'execute','params':{'tool':'grep','pattern':'x'}}", "grep",
              "{'pattern':'x'}");
}

TRIAL_TEST(a_tool_is_a_method) {
  for (size_t i = 0; tool_at(i) != NULL; i++)
    expect_call(trial, formatted("{'method':'%s','params':{'a':1}}", tool_at(i)->name),
                tool_at(i)->name, "{'a':1}");
}

TRIAL_TEST(what_is_meant_for_the_door_is_no_argument) {
  expect_call(trial, "{'method':'execute','params':{'_progress':true,'command':'x'}}",
              "execute_command", "{'command':'x'}");
  assert_true(trial->request.wants_progress);
  expect_call(trial, "{'method':'execute','params':{'_progress':'yes'}}", "execute_command", "{}");
  assert_false(trial->request.wants_progress);
  expect_call(trial, "{'method':'grep','params':{'method':'grep'}}", "grep", "{}");
  expect_call(trial, "{'method':'grep','params':{'method':'other'}}", "grep", "{'method':'other'}");
  expect_call(trial, "{'jsonrpc':'2.0','method':'grep','params':{'method':'grep'}}", "grep",
              "{'method':'grep'}");
}

TRIAL_TEST(what_overtakes_is_no_call) {
  static const struct {
    const char *name;
    enum stdio_method method;
  } rows[] = {{"info", STDIO_INFO}, {"ping", STDIO_PING}, {"shutdown", STDIO_SHUTDOWN}};
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(parse(trial, formatted("{'method':'%s'}", rows[i].name))->method,
                     rows[i].method);
  const struct stdio_request *request =
      parse(trial, "{'params':{'x':{'id':1},'id': 'a\\u0062' },'id':9,'method':'cancel'}");
  assert_int_equal(request->method, STDIO_CANCEL);
  assert_int_equal(request->cancelled.length, 9);
  assert_memory_equal(request->cancelled.text, quoted("'a\\u0062'"), 9);
}

/* --- dialects and ids ------------------------------------------------------------------------- */

TRIAL_TEST(a_version_makes_it_json_rpc) {
  assert_int_equal(parse(trial, "{'jsonrpc':'2.0','method':'ping','id':1}")->dialect,
                   STDIO_JSON_RPC);
  assert_int_equal(parse(trial, "{'method':'ping','id':1}")->dialect, STDIO_PLAIN);
  trial->rules.speaks_json_rpc = true;
  assert_int_equal(parse(trial, "{'method':'ping','id':1}")->dialect, STDIO_PLAIN);
  assert_int_equal(parse(trial, "ping")->dialect, STDIO_JSON_RPC);
}

TRIAL_TEST(ids_are_kept_as_they_came) {
  static const char *const ids[] = {"1", "'a'", "null", "1.0", "9007199254740993", "'\\u0000'"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    expect_id(parse(trial, formatted("{'id':%s,'method':'ping'}", ids[i])), ids[i]);
    expect_id(parse(trial, formatted("{'params':{'id':7},'id':%s,'method':'execute'}", ids[i])),
              ids[i]);
    expect_id(parse(trial, formatted("{'jsonrpc':'2.0','id':%s,'method':'none'}", ids[i])), ids[i]);
    expect_id(parse(trial, formatted("{'jsonrpc':'3.0','id':%s,'method':'ping'}", ids[i])), ids[i]);
  }
}

TRIAL_TEST(without_an_id_there_is_null_or_no_answer) {
  expect_id(parse(trial, "{'method':'ping'}"), "null");
  expect_id(parse(trial, "{'method':'none'}"), "null");
  expect_id(parse(trial, "{'id':{},'method':'ping'}"), "null");
  expect_id(parse(trial, "garbage"), "null");
  expect_id(parse(trial, "7"), "null");
  expect_id(parse(trial, "{'jsonrpc':'2.0','method':'ping'}"), NULL);
  expect_id(parse(trial, "{'jsonrpc':'2.0','method':'none'}"), NULL);
  expect_id(parse(trial, "{'jsonrpc':'2.0','method':'execute','params':[]}"), NULL);
  /* What is no notification either; a reader may want a number. */
  expect_id(parse(trial, "{'jsonrpc':'2.0'}"), "0");
  expect_id(parse(trial, "{'jsonrpc':'2.0','id':true,'method':'ping'}"), "0");
  trial->rules.speaks_json_rpc = true;
  expect_id(parse(trial, "garbage"), "0");
  expect_id(parse(trial, "[]"), "0");
}

/* --- what is wrong ---------------------------------------------------------------------------- */

TRIAL_TEST(errors_of_plain_lines_have_one_code) {
  expect_error(trial, "{'id':1}", -1, "method: required");
  expect_error(trial, "{'method':null}", -1, "method: required");
  expect_error(trial, "{'method':[]}", -1, "method: expected a string, got an array");
  expect_error(trial, "{'method':'execute','params':'x'}", -1,
               "params: expected an object, got a string");
  expect_error(trial, "{'method':'execute','params':{'tool':7}}", -1,
               "tool: expected a string, got a number");
  expect_error(trial, "{'method':'execute','params':{'tool':'x'}}", -1, "unknown tool: x");
  expect_error(trial, "{'method':'execute','params':{'tool':'grep','arguments':[]}}", -1,
               "arguments: expected an object, got an array");
  expect_error(trial, "{'method':'cancel','params':{}}", -1, "id: required");
  expect_error(trial, "{'method':'ping','params':{'a':1,'a':2}}", -1,
               "params.a: expected once, got it twice");
  expect_error(trial, "'x'", -1, "request: expected an object, got a string");
}

TRIAL_TEST(errors_of_json_rpc_have_its_codes) {
  expect_error(trial, "{'jsonrpc':'2.0','id':1}", -32600, "method: required");
  expect_error(trial, "{'jsonrpc':2,'id':1,'method':'ping'}", -32600, "jsonrpc: expected '2.0'");
  expect_error(trial, "{'jsonrpc':'2.0','id':1,'method':'ping','params':[]}", -32602,
               "params: expected an object, got an array");
  expect_error(trial, "{'jsonrpc':'2.0','id':1,'method':'execute','params':{'tool':'x'}}", -32602,
               "unknown tool: x");
  assert_int_equal(parse(trial, "{'jsonrpc':'2.0','id':1,'method':'x'}")->code, -32601);
  trial->rules.tool = tool_find("grep");
  expect_error(trial, "{'jsonrpc':'2.0','id':1,'method':'read_file'}", -32601,
               "read_file: this process serves grep only");
  expect_error(trial, "{'jsonrpc':'2.0','id':1,'method':'execute','params':{'tool':'read_file'}}",
               -32602, "read_file: this process serves grep only");
}

TRIAL_TEST(who_looks_for_mcp_is_told) {
  static const char *const lines[] = {"{'jsonrpc':'2.0','id':0,'method':'initialize'}",
                                      "{'id':0,'method':'initialize'}"};
  for (size_t i = 0; i < 2; i++)
    expect_error(trial, lines[i], -32601, "this is the stdio door; MCP is --mcp");
}

TRIAL_TEST(what_is_no_json_is_a_parse_error) {
  static const char *const lines[] = {"x", "{", "{}{}", "{'a':1,'a':2}", "{'a':01}", "'\xFF'", ""};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    const struct stdio_request *request = parse(trial, lines[i]);
    assert_int_equal(request->method, STDIO_INVALID);
    assert_int_equal(request->code, -32700);
    assert_int_equal(strncmp(request->error.text, "Parse error: ", 13), 0);
    assert_null(strstr(request->error.text, "payload"));
  }
}

TRIAL_TEST(nesting_is_bounded) {
  char line[1024] = "{'method':'ping','params':{'a':";
  for (int i = 0; i < 70; i++)
    strcat(line, "[");
  assert_int_equal(parse(trial, line)->code, -32700);
  assert_non_null(strstr(trial->request.error.text, "levels of nesting"));
}

/* Every beginning of a line, for the sanitizer. */
TRIAL_TEST(a_line_may_end_anywhere) {
  const char *line = quoted("{'jsonrpc':'2.0','id':'a\\u00e9','method':'execute','params':{'tool':"
                            "'grep','arguments':{'pattern':'\\u0000'},'_progress':true}}");
  for (size_t length = 0; length <= strlen(line); length++) {
    char *copy = strndup(line, length);
    assert_non_null(copy);
    bool is_whole = length == strlen(line);
    assert_int_equal(parse(trial, copy)->method, is_whole ? STDIO_CALL : STDIO_INVALID);
    free(copy);
  }
}
