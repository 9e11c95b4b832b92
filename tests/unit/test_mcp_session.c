/* What each message asks for, and the answers that need no tool. */

#include "agent/doors/mcp/session.h"

#include <cjson/cJSON.h>

#include "tests/support/quoted.h"
#include "tests/test.h"

#define META(VERSION)                                                                              \
  "'_meta':{'io.modelcontextprotocol/protocolVersion':'" VERSION                                   \
  "','io.modelcontextprotocol/clientCapabilities':{}}"
#define MODERN META("2026-07-28")

struct owner {
  struct mcp_server server;
  struct mcp_session session;
  struct mcp_order order; /* the last one; its texts are not valid any more */
  char id[64];
  char token[64];
  const char *tool;
  struct buffer answer;
};

static void begin(struct owner *self, unsigned versions) {
  self->server.versions = versions;
  self->session = mcp_session_begin(&self->server);
}

static int set_up(void **state) {
  struct owner *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->server = (struct mcp_server){.program_version = "1.2.3",
                                     .tools = {.default_timeout_seconds = 30,
                                               .max_timeout_seconds = 600,
                                               .directory = "/",
                                               .shell = "sh"}};
  begin(self, MCP_VERSIONS_ALL);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct owner *self = *state;
  buffer_release(&self->answer);
  free(self);
  return 0;
}

#define SESSION_TEST(NAME) TEST_WITH(struct owner *self, NAME, set_up, tear_down)

/* The answer, "" when there is none. */
static const char *take_in(struct owner *self, const char *text, bool in_batch) {
  struct mcp_line line;
  struct mcp_message message;
  struct error error;
  text = quoted(text);
  self->answer.length = 0;
  if (mcp_line_parse(&line, text, strlen(text), &error) != 0)
    fail_msg("%s: %s", text, error.text);
  assert_true(mcp_line_next(&line, &message));
  self->order = mcp_session_take(&self->session, &message, in_batch, &self->answer);
  (void)snprintf(self->id, sizeof self->id, "%.*s", (int)self->order.id.length,
                 self->order.id.text != NULL ? self->order.id.text : "");
  (void)snprintf(self->token, sizeof self->token, "%.*s", (int)self->order.token.length,
                 self->order.token.text != NULL ? self->order.token.text : "");
  self->tool = self->order.tool != NULL ? self->order.tool->name : NULL;
  mcp_line_release(&line);
  assert_int_equal(self->order.kind == MCP_ANSWER, self->answer.length > 0);
  buffer_add(&self->answer, "", 1);
  return self->answer.bytes;
}

static const char *take(struct owner *self, const char *text) {
  return take_in(self, text, false);
}

static void expect(struct owner *self, const char *text, const char *answer) {
  assert_string_equal(take(self, text), quoted(answer));
}

/* A request of this method; `params` without braces. */
static const char *request(const char *method, const char *params) {
  return formatted("{'jsonrpc':'2.0','id':1,'method':'%s','params':{%s}}", method, params);
}

static void expect_error(struct owner *self, const char *text, int code, const char *message) {
  const char *expected =
      formatted("{'jsonrpc':'2.0','id':1,'error':{'code':%d,'message':'%s'", code, message);
  if (strstr(take(self, text), quoted(expected)) == NULL)
    fail_msg("%s: %s, not %s", text, self->answer.bytes, expected);
}

/* The part of the answer. */
static void expect_part(struct owner *self, const char *text, const char *part) {
  if (strstr(take(self, text), quoted(part)) == NULL)
    fail_msg("%s: no %s in %s", text, part, self->answer.bytes);
}

static void expect_no_part(const struct owner *self, const char *part) {
  if (strstr(self->answer.bytes, quoted(part)) != NULL)
    fail_msg("%s in %s", part, self->answer.bytes);
}

static const char *initialize(const char *version) {
  return request("initialize", formatted("'protocolVersion':'%s','capabilities':{},"
                                         "'clientInfo':{'name':'c','version':'1'}",
                                         version));
}

/* --- legacy ---------------------------------------------------------------------------------- */

SESSION_TEST(initialize_answers_with_the_version_that_was_asked_for) {
  static const char *const versions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    expect_part(self, initialize(versions[i]),
                formatted("{'jsonrpc':'2.0','id':1,'result':{'protocolVersion':'%s',"
                          "'capabilities':{'tools':{}},'instructions':'",
                          versions[i]));
    assert_non_null(strstr(self->answer.bytes, quoted(",'serverInfo':{'name':'sandbox-agent',"
                                                      "'version':'1.2.3'}}}")));
    expect_no_part(self, "resultType");
    assert_int_equal(self->session.version, i);
  }
}

SESSION_TEST(initialize_with_any_other_version_answers_with_the_newest) {
  static const char *const asked[] = {
      "'protocolVersion':'2024-10-07'", "'protocolVersion':'2026-07-28'",
      "'protocolVersion':'9999-99-99'", "'protocolVersion':5",
      "'protocolVersion':null",         ""};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
    expect_part(self, request("initialize", asked[i]), "'protocolVersion':'2025-11-25'");
  expect_part(self, "{'jsonrpc':'2.0','id':1,'method':'initialize'}",
              "'protocolVersion':'2025-11-25'");
}

SESSION_TEST(the_instructions_are_below_2_kb) {
  cJSON *answer = cJSON_Parse(take(self, initialize("2025-11-25")));
  const cJSON *result = cJSON_GetObjectItem(answer, "result");
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(result, "instructions"));
  assert_non_null(text);
  assert_in_range(strlen(text), 200, 2047);
  cJSON_Delete(answer);
}

SESSION_TEST(ping_is_answered_empty) {
  expect(self, request("ping", ""), "{'jsonrpc':'2.0','id':1,'result':{}}");
  expect(self, "{'jsonrpc':'2.0','id':'a\\u0000','method':'ping'}",
         "{'jsonrpc':'2.0','id':'a\\u0000','result':{}}");
}

SESSION_TEST(lists_of_what_there_is_not_are_empty) {
  expect(self, request("prompts/list", ""), "{'jsonrpc':'2.0','id':1,'result':{'prompts':[]}}");
  expect(self, request("resources/list", ""), "{'jsonrpc':'2.0','id':1,'result':{'resources':[]}}");
  expect(self, request("resources/templates/list", ""),
         "{'jsonrpc':'2.0','id':1,'result':{'resourceTemplates':[]}}");
}

SESSION_TEST(other_methods_are_not_found) {
  static const char *const methods[] = {"logging/setLevel",
                                        "completion/complete",
                                        "resources/read",
                                        "prompts/get",
                                        "tasks/list",
                                        "Ping",
                                        "",
                                        "notifications/cancelled"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    expect_error(self, request(methods[i], ""), -32601,
                 formatted("Method not found: %s", methods[i]));
}

SESSION_TEST(notifications_are_never_answered) {
  static const char *const methods[] = {"initialize",      "ping", "tools/call",
                                        "server/discover", "x",    "notifications/initialized"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    expect(self, formatted("{'jsonrpc':'2.0','method':'%s','params':{'name':'grep'}}", methods[i]),
           "");
    assert_int_equal(self->order.kind, MCP_NOTHING);
  }
  expect(self, "{'jsonrpc':'2.0','id':1,'result':{}}", "");
}

SESSION_TEST(what_is_invalid_is_told_with_its_id) {
  expect(self, "{'jsonrpc':'2.0','id':'x','method':5}",
         "{'jsonrpc':'2.0','id':'x','error':{'code':-32600,'message':'Invalid Request: method: "
         "expected a string'}}");
  expect(self, "{'jsonrpc':'2.0','id':null,'method':'ping'}",
         "{'jsonrpc':'2.0','error':{'code':-32600,'message':'Invalid Request: id: expected a "
         "string or an integer'}}");
}

SESSION_TEST(params_are_an_object) {
  expect_error(self, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':[]}", -32602,
               "Invalid params: expected an object");
  expect_error(self, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':'x'}", -32602,
               "Invalid params: expected an object");
  expect_part(self, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':null}", "'tools':[");
  expect_part(self, "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", "'tools':[");
}

SESSION_TEST(a_cursor_is_refused) {
  expect_error(self, request("tools/list", "'cursor':'2'"), -32602,
               "Invalid params: unknown cursor");
  expect_part(self, request("tools/list", "'cursor':null"), "'tools':[");
  expect_part(self, request("tools/list", "'cursor':''"), "'tools':[");
}

/* What the list of a version has. */
SESSION_TEST(each_version_lists_tools_with_its_own_members) {
  static const struct {
    const char *version;
    bool annotations, title, output_schema;
  } rows[] = {{"2024-11-05", false, false, false},
              {"2025-03-26", true, false, false},
              {"2025-06-18", true, true, true},
              {"2025-11-25", true, true, true}};
  self->server.structured = true;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    (void)take(self, initialize(rows[i].version));
    cJSON *answer = cJSON_Parse(take(self, request("tools/list", "")));
    const cJSON *result = cJSON_GetObjectItem(answer, "result");
    const cJSON *tools = cJSON_GetObjectItem(result, "tools");
    assert_int_equal(cJSON_GetArraySize(result), 1);
    assert_int_equal(cJSON_GetArraySize(tools), 7);
    const cJSON *tool;
    cJSON_ArrayForEach(tool, tools) {
      bool is_command = tool == tools->child;
      assert_int_equal(cJSON_HasObjectItem(tool, "annotations"), rows[i].annotations);
      assert_int_equal(cJSON_HasObjectItem(tool, "title"), rows[i].title);
      assert_int_equal(cJSON_HasObjectItem(tool, "outputSchema"),
                       rows[i].output_schema && is_command);
      assert_true(cJSON_HasObjectItem(tool, "inputSchema"));
      assert_in_range(strlen(cJSON_GetStringValue(cJSON_GetObjectItem(tool, "description"))), 20,
                      2000);
    }
    cJSON_Delete(answer);
  }
  self->server.structured = false;
  (void)take(self, request("tools/list", ""));
  expect_no_part(self, "outputSchema");
}

/* One that a client does not like costs it the whole list. */
SESSION_TEST(tools_have_one_order_and_plain_schemas) {
  static const char *const names[] = {"execute_command", "read_file", "write_file",    "edit_file",
                                      "list_directory",  "grep",      "directory_tree"};
  cJSON *answer = cJSON_Parse(take(self, request("tools/list", "")));
  const cJSON *tools = cJSON_GetObjectItem(cJSON_GetObjectItem(answer, "result"), "tools");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const cJSON *tool = cJSON_GetArrayItem(tools, (int)i);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(tool, "name")), names[i]);
    assert_in_range(strlen(names[i]), 1, 20); /* clients add the server's name, and have limits */
    const cJSON *schema = cJSON_GetObjectItem(tool, "inputSchema");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(schema, "type")), "object");
    assert_false(cJSON_HasObjectItem(schema, "anyOf") || cJSON_HasObjectItem(schema, "oneOf") ||
                 cJSON_HasObjectItem(schema, "allOf"));
    const cJSON *property;
    cJSON_ArrayForEach(property, cJSON_GetObjectItem(schema, "properties")) {
      const char *type = cJSON_GetStringValue(cJSON_GetObjectItem(property, "type"));
      assert_non_null(type);
      assert_true(strcmp(type, "array") != 0 || cJSON_HasObjectItem(property, "items"));
      assert_non_null(cJSON_GetObjectItem(property, "description"));
    }
  }
  cJSON_Delete(answer);
}

/* --- calls ----------------------------------------------------------------------------------- */

SESSION_TEST(a_call_is_an_order) {
  expect(self,
         "{'jsonrpc':'2.0','id':'7','method':'tools/call','params':{'name':'grep','arguments':{},"
         "'_meta':{'progressToken':5},'task':{'ttl':1}}}",
         "");
  assert_int_equal(self->order.kind, MCP_CALL);
  assert_string_equal(self->id, "\"7\"");
  assert_string_equal(self->token, "5");
  assert_string_equal(self->tool, "grep");
  assert_int_equal(self->order.version, MCP_2025_11_25);
  expect(self, request("tools/call", "'name':'read_file','arguments':null"), "");
  assert_null(self->order.arguments);
  expect(self, request("tools/call", "'name':'read_file'," MODERN), "");
  assert_int_equal(self->order.version, MCP_2026_07_28);
}

SESSION_TEST(a_call_without_its_params_is_refused) {
  static const char *const names[] = {"", "'name':5", "'name':null"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    expect_error(self, request("tools/call", names[i]), -32602,
                 "Invalid params: name: expected a string");
  static const char *const arguments[] = {"[]", "'x'", "5"};
  for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
    expect_error(self,
                 request("tools/call", formatted("'name':'grep','arguments':%s", arguments[i])),
                 -32602, "Invalid params: arguments: expected an object");
}

SESSION_TEST(an_unknown_tool_is_named) {
  expect_error(self, request("tools/call", "'name':'x'"), -32602, "Unknown tool: x");
  expect_error(self, request("tools/call", "'name':'x'," MODERN), -32602, "Unknown tool: x");
}

SESSION_TEST(a_cancel_is_an_order) {
  expect(self,
         "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':'a','reason':"
         "'b'}}",
         "");
  assert_int_equal(self->order.kind, MCP_CANCEL);
  assert_string_equal(self->id, "\"a\"");
  expect(self, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{}}", "");
  assert_int_equal(self->order.kind, MCP_NOTHING);
  expect(self, "{'jsonrpc':'2.0','method':'notifications/cancelled'}", "");
  assert_int_equal(self->order.kind, MCP_NOTHING);
}

/* --- modern ---------------------------------------------------------------------------------- */

SESSION_TEST(discover_says_what_is_served) {
  expect_part(self, request("server/discover", MODERN),
              "'result':{'supportedVersions':['2026-07-28'],'capabilities':{'tools':{}},"
              "'instructions':'");
  assert_non_null(strstr(self->answer.bytes,
                         quoted(",'ttlMs':3600000,'cacheScope':'public','resultType':'complete',"
                                "'_meta':{'io.modelcontextprotocol/serverInfo':{'name':"
                                "'sandbox-agent','version':'1.2.3'}}}}")));
}

SESSION_TEST(a_modern_list_can_be_cached) {
  expect_part(self, request("tools/list", MODERN),
              "],'ttlMs':3600000,'cacheScope':'public',"
              "'resultType':'complete','_meta':{");
}

SESSION_TEST(modern_requests_need_their_meta) {
  static const char missing_version[] =
      "Missing required _meta field: io.modelcontextprotocol/protocolVersion";
  static const char missing_capabilities[] =
      "Missing required _meta field: io.modelcontextprotocol/clientCapabilities";
  expect_error(self, request("server/discover", ""), -32602, missing_version);
  expect_error(self, request("server/discover", "'_meta':5"), -32602, missing_version);
  expect_error(self, request("tools/list", "'_meta':{'io.modelcontextprotocol/clientInfo':{}}"),
               -32602, missing_version);
  expect_error(self, request("tools/list", "'_meta':{'io.modelcontextprotocol/protocolVersion':5}"),
               -32602, missing_version);
  expect_error(
      self,
      request("tools/list", "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28'}"),
      -32602, missing_capabilities);
  expect_error(self,
               request("tools/list",
                       "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
                       "'io.modelcontextprotocol/clientCapabilities':[]}"),
               -32602, missing_capabilities);
}

SESSION_TEST(another_version_is_refused_before_the_method_is_looked_at) {
  static const char *const methods[] = {"tools/list", "server/discover", "no/such"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    expect_part(self, request(methods[i], META("v999.0.0")),
                "'error':{'code':-32022,'message':'Unsupported protocol version','data':{"
                "'supported':['2026-07-28'],'requested':'v999.0.0'}}}");
  expect_part(self, request("tools/list", META("2025-11-25")), "'code':-32022");
}

SESSION_TEST(modern_methods_are_three) {
  static const char *const methods[] = {
      "ping",           "logging/setLevel",         "prompts/list",
      "resources/list", "resources/templates/list", "resources/read",
      "tasks/get",      "completion/complete",      "subscriptions/listen"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    expect_error(self, request(methods[i], MODERN), -32601,
                 formatted("Method not found: %s", methods[i]));
  expect_part(self, request("initialize", MODERN), "'code':-32601");
}

SESSION_TEST(a_log_level_is_checked) {
  static const char level[] = "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
                              "'io.modelcontextprotocol/clientCapabilities':{},"
                              "'io.modelcontextprotocol/logLevel':'%s'}";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  expect_error(self, request("tools/list", formatted(level, "loud")), -32602,
               "Invalid params: unknown log level");
  expect_part(self, request("tools/list", formatted(level, "warning")), "'tools':[");
#pragma GCC diagnostic pop
}

/* Nothing is pinned: what one request was, the next one need not be. */
SESSION_TEST(each_request_has_its_own_era) {
  (void)take(self, initialize("2024-11-05"));
  (void)take(self, request("tools/list", MODERN));
  assert_non_null(strstr(self->answer.bytes, "resultType"));
  (void)take(self, request("tools/list", ""));
  expect_no_part(self, "resultType");
  expect_no_part(self, "annotations");
  (void)take(self, initialize("2025-06-18"));
  (void)take(self, request("tools/list", ""));
  assert_non_null(strstr(self->answer.bytes, "annotations"));
}

SESSION_TEST(before_initialize_a_request_is_of_the_newest_legacy_version) {
  (void)take(self, request("tools/list", ""));
  assert_non_null(strstr(self->answer.bytes, quoted("'title'")));
  expect_no_part(self, "resultType");
}

/* --- restricted ------------------------------------------------------------------------------ */

SESSION_TEST(a_modern_server_refuses_initialize_and_says_what_it_serves) {
  begin(self, 1U << MCP_2026_07_28);
  expect(self, initialize("2025-11-25"),
         "{'jsonrpc':'2.0','id':1,'error':{'code':-32601,'message':'Method not found: initialize "
         "(served without it: 2026-07-28)','data':{'supported':['2026-07-28']}}}");
  expect_error(self, request("tools/list", ""), -32602,
               "Missing required _meta field: io.modelcontextprotocol/protocolVersion");
  expect_part(self, request("ping", ""), "'code':-32602");
  expect_part(self, request("tools/list", MODERN), "'tools':[");
}

SESSION_TEST(a_legacy_server_knows_no_modern_request) {
  begin(self, 1U << MCP_2024_11_05 | 1U << MCP_2025_06_18);
  expect_part(self, initialize("2025-11-25"), "'protocolVersion':'2025-06-18'");
  expect_part(self, initialize("2024-11-05"), "'protocolVersion':'2024-11-05'");
  expect_error(self, request("server/discover", MODERN), -32601,
               "Method not found: server/discover");
  expect_part(self, request("tools/list", MODERN), "'tools':[");
  expect_no_part(self, "resultType");
}

/* --- batches --------------------------------------------------------------------------------- */

static bool takes_batch(struct owner *self, int count) {
  self->answer.length = 0;
  return mcp_session_takes_batch(&self->session, count, &self->answer);
}

SESSION_TEST(batches_are_of_one_version) {
  static const char *const versions[] = {"2024-11-05", "2025-06-18", "2025-11-25"};
  assert_false(takes_batch(self, 1));
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    (void)take(self, initialize(versions[i]));
    assert_false(takes_batch(self, 1));
    buffer_add(&self->answer, "", 1);
    assert_string_equal(self->answer.bytes,
                        quoted("{'jsonrpc':'2.0','error':{'code':-32600,'message':'Invalid "
                               "Request: expected an object; batches are of protocol version "
                               "2025-03-26 only'}}"));
  }
  (void)take(self, initialize("2025-03-26"));
  assert_true(takes_batch(self, 1));
  assert_true(takes_batch(self, MCP_BATCH_MAX));
  assert_false(takes_batch(self, 0));
  assert_false(takes_batch(self, MCP_BATCH_MAX + 1));
  begin(self, 1U << MCP_2025_03_26);
  assert_false(takes_batch(self, 1));
}

SESSION_TEST(a_batch_holds_neither_initialize_nor_modern_requests) {
  (void)take(self, initialize("2025-03-26"));
  assert_non_null(strstr(take_in(self, initialize("2025-11-25"), true), "-32600"));
  assert_int_equal(self->session.version, MCP_2025_03_26);
  assert_non_null(strstr(take_in(self, request("tools/list", MODERN), true), "-32600"));
  assert_non_null(strstr(take_in(self, request("tools/list", ""), true), "\"tools\":["));
}

/* --- results --------------------------------------------------------------------------------- */

static const char *called(struct owner *self, enum mcp_version version, const char *text,
                          bool is_error, const struct run_end *structured) {
  struct buffer content = {0};
  buffer_add_string(&content, text);
  self->answer.length = 0;
  const struct mcp_called result = {
      .text = &content, .is_error = is_error, .structured = structured};
  mcp_add_called(&self->answer, (struct json_member){"3", 1}, version, &self->server, &result);
  buffer_release(&content);
  buffer_add(&self->answer, "", 1);
  return self->answer.bytes;
}

SESSION_TEST(a_result_may_be_an_image) {
  struct buffer text = {0};
  const struct tool_image image = {"image/png\n", 9, "AAAA\"", 4};
  const struct mcp_called result = {.text = &text, .image = &image};
  self->answer.length = 0;
  mcp_add_called(&self->answer, (struct json_member){"3", 1}, MCP_2025_11_25, &self->server,
                 &result);
  buffer_add(&self->answer, "", 1);
  assert_string_equal(self->answer.bytes,
                      quoted("{'jsonrpc':'2.0','id':3,'result':{'content':[{'type':'image','data':"
                             "'AAAA','mimeType':'image/png'}],'isError':false}}"));
}

SESSION_TEST(a_result_has_one_text) {
  assert_string_equal(called(self, MCP_2025_11_25, "a\n\"b\"", false, NULL),
                      quoted("{'jsonrpc':'2.0','id':3,'result':{'content':[{'type':'text','text':"
                             "'a\\n\\'b\\''}],'isError':false}}"));
  assert_string_equal(called(self, MCP_2024_11_05, "", true, NULL),
                      quoted("{'jsonrpc':'2.0','id':3,'result':{'content':[{'type':'text','text':"
                             "''}],'isError':true}}"));
  assert_non_null(strstr(called(self, MCP_2026_07_28, "x", false, NULL),
                         quoted("'isError':false,'resultType':'complete','_meta':{'io."
                                "modelcontextprotocol/serverInfo':{")));
}

SESSION_TEST(a_structured_result_has_its_members) {
  const struct run_end end = {.exit_code = 7,
                              .duration_ms = 1250,
                              .output = {.bytes = "o\n", .length = 2},
                              .errors = {.truncated = true}};
  cJSON *answer = cJSON_Parse(called(self, MCP_2025_06_18, "x", true, &end));
  const cJSON *structured =
      cJSON_GetObjectItem(cJSON_GetObjectItem(answer, "result"), "structuredContent");
  assert_int_equal(cJSON_GetArraySize(structured), 7);
  assert_int_equal(cJSON_GetObjectItem(structured, "exitCode")->valueint, 7);
  assert_true(cJSON_GetObjectItem(structured, "durationSeconds")->valuedouble == 1.25);
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(structured, "stdout")), "o\n");
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(structured, "stderrTruncated")));
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(structured, "stdoutTruncated")));
  cJSON_Delete(answer);
}

static void expect_progress(struct owner *self, enum mcp_version version, int64_t elapsed_ms,
                            const char *message, const char *expected) {
  self->answer.length = 0;
  mcp_add_progress(&self->answer, (struct json_member){"\"p\"", 3}, version, elapsed_ms, message,
                   strlen(message));
  buffer_add(&self->answer, "", 1);
  assert_string_equal(self->answer.bytes,
                      quoted(formatted("{'jsonrpc':'2.0','method':'notifications/progress',"
                                       "'params':{'progressToken':'p',%s}}",
                                       expected)));
}

SESSION_TEST(progress_has_seconds_and_the_last_line) {
  expect_progress(self, MCP_2025_03_26, 12034, "made a", "'progress':12.034,'message':'made a'");
  expect_progress(self, MCP_2026_07_28, 500, "", "'progress':0.500");
  expect_progress(self, MCP_2024_11_05, 7, "made a", "'progress':0.007");
}

SESSION_TEST(a_message_of_progress_is_repaired) {
  expect_progress(self, MCP_2025_11_25, 0, "a\xFF", "'progress':0.000,'message':'a\xEF\xBF\xBD'");
}
