/* `agent --mcp`: a server of the Model Context Protocol on standard input and output. */

#include <sys/syscall.h>

#include "tests/support/agent_process.h"
#include "tests/support/encoded.h"
#include "tests/support/gate.h"
#include "tests/support/mcp_client.h"
#include "tests/support/proc.h"
#include "tests/test.h"

#define PING "{'jsonrpc':'2.0','id':%d,'method':'ping'}"
#define META_OF(VERSION)                                                                           \
  "'_meta':{'io.modelcontextprotocol/protocolVersion':'" VERSION                                   \
  "','io.modelcontextprotocol/clientCapabilities':{}"
#define META META_OF("2026-07-28") "}"

static const char *const versions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
enum { VERSIONS = sizeof versions / sizeof *versions };

static void ping(struct mcp_client *client, int id) {
  mcp_client_send(client, formatted(PING, id));
}

static void expect_ping(struct mcp_client *client, int id) {
  mcp_client_expect(client, formatted("{'jsonrpc':'2.0','id':%d,'result':{}}", id));
}

static void cancel(struct mcp_client *client, const char *id) {
  mcp_client_send(client, formatted("{'jsonrpc':'2.0','method':'notifications/cancelled','params':"
                                    "{'requestId':%s,'reason':'test'}}",
                                    id));
}

/* A member of the result in an answer. */
static const cJSON *member(const cJSON *answer, const char *name) {
  return cJSON_GetObjectItem(cJSON_GetObjectItem(answer, "result"), name);
}

/* --- sessions --------------------------------------------------------------------------------- */

/* Claude Code begins like this, including the id 0 and the order of members. */
MCP_TEST(the_server_speaks_each_version) {
  for (int i = 0; i < VERSIONS; i++) {
    mcp_client_start(client, NULL, NULL);
    mcp_client_initialize(client, versions[i]);
    mcp_client_call_tool(client, 2, "execute_command", "'command':'echo hi'");
    mcp_client_expect(client, "{'jsonrpc':'2.0','id':2,'result':{'content':[{'type':'text','text':"
                              "'hi'}],'isError':false}}");
    mcp_client_end_input(client);
    assert_int_equal(mcp_client_exit(client), 0);
    assert_string_equal(stdio_host_log(client->host), "");
  }
}

MCP_TEST(the_server_speaks_the_modern_version) {
  mcp_client_send(client,
                  "{'jsonrpc':'2.0','id':'d','method':'server/discover','params':{" META "}}");
  const char *line = mcp_client_expect_part(
      client, "{'jsonrpc':'2.0','id':'d','result':{'supportedVersions':['2026-07-28'],"
              "'capabilities':{'tools':{}},'instructions':'");
  assert_non_null(strstr(line, quoted("'ttlMs':3600000,'cacheScope':'public','resultType':"
                                      "'complete','_meta':{'io.modelcontextprotocol/serverInfo':{"
                                      "'name':'sandbox-agent','version':'")));
  mcp_client_send(client, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{" META "}}");
  mcp_client_expect_part(client, "'ttlMs':3600000,'cacheScope':'public'");
  mcp_client_send(client, "{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{'name':"
                          "'execute_command','arguments':{'command':'exit 3'}," META "}}");
  mcp_client_expect_part(client, "{'content':[{'type':'text','text':'(exit code: 3)'}],'isError':"
                                 "true,'resultType':'complete','_meta':{");
  mcp_client_send(client, "{'jsonrpc':'2.0','id':3,'method':'ping','params':{" META "}}");
  mcp_client_expect_part(client, "'code':-32601");
}

/* Bridges let several clients share one process. */
MCP_TEST(clients_of_different_versions_can_share_a_process) {
  mcp_client_send(client,
                  "{'jsonrpc':'2.0','id':1,'method':'server/discover','params':{" META "}}");
  mcp_client_expect_part(client, "supportedVersions");
  for (int i = VERSIONS - 1; i >= 0; i--) {
    mcp_client_initialize(client, versions[i]);
    mcp_client_send(client, "{'jsonrpc':'2.0','id':'m','method':'tools/list','params':{" META "}}");
    mcp_client_expect_part(client, "resultType");
    mcp_client_send(client, "{'jsonrpc':'2.0','id':'l','method':'tools/list'}");
    const char *line = mcp_client_expect_part(client, "'id':'l'");
    assert_null(strstr(line, "resultType"));
    assert_int_equal(strstr(line, "annotations") != NULL, i > 0);
  }
}

/* The client then gets the newest of the older versions. */
MCP_TEST(a_client_may_skip_initialize) {
  mcp_client_send(client, "{'jsonrpc':'2.0','id':1,'method':'tools/list'}");
  const char *line = mcp_client_expect_part(client, "'title'");
  assert_null(strstr(line, "resultType"));
  mcp_client_call(client, 5, "pwd", false);
  mcp_client_expect_called(client, 5, client->directory.path, false);
}

MCP_TEST(an_unknown_version_gets_the_newest_one) {
  static const char *const asked[] = {"2024-10-07", "2026-07-28", "latest"};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                                      "'protocolVersion':'%s','capabilities':{},'clientInfo':{"
                                      "'name':'c','version':'1'}}}",
                                      asked[i]));
    const char *line = mcp_client_expect_part(
        client, "'result':{'protocolVersion':'2025-11-25','capabilities':{'tools':{}},"
                "'instructions':'");
    assert_non_null(strstr(line, quoted("'serverInfo':{'name':'sandbox-agent','version':'")));
  }
  mcp_client_send(client, "{'jsonrpc':'2.0','id':2,'method':'initialize'}");
  cJSON *answer = mcp_client_answer(client, 2);
  assert_in_range(strlen(cJSON_GetStringValue(member(answer, "instructions"))), 200, 2047);
  cJSON_Delete(answer);
}

MCP_TEST(a_flag_restricts_the_versions) {
  mcp_client_start(client, "--mcp=2026-07-28", NULL);
  mcp_client_send(client, "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{}}");
  mcp_client_expect_part(client, "'code':-32601,'message':'Method not found: initialize (served "
                                 "without it: 2026-07-28)','data':{'supported':['2026-07-28']}");
  ping(client, 2);
  mcp_client_expect_part(client, "'code':-32602");
  mcp_client_end_input(client);
  assert_int_equal(mcp_client_exit(client), 0);
  mcp_client_start(client, "--mcp=2024-11-05,2025-06-18", NULL);
  mcp_client_send(client, "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                          "'protocolVersion':'2025-11-25'}}");
  mcp_client_expect_part(client, "'protocolVersion':'2025-06-18'");
  mcp_client_send(client,
                  "{'jsonrpc':'2.0','id':2,'method':'server/discover','params':{" META "}}");
  mcp_client_expect_part(client, "'code':-32601");
  mcp_client_end_transcript(client); /* no schema describes an older answer to a newer request */
  mcp_client_send(client, "{'jsonrpc':'2.0','id':3,'method':'tools/list','params':{" META "}}");
  assert_null(strstr(mcp_client_expect_part(client, "'tools':["), "resultType"));
}

MCP_TEST(an_unknown_version_in_the_flag_is_wrong_usage) {
  static const char *const unknown[] = {"2025-01-01", "2025", "2025-11-25,", ",2025-11-25",
                                        "2025-11-25 "};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    mcp_client_start(client, formatted("--mcp=%s", unknown[i]), NULL);
    assert_int_equal(mcp_client_exit(client), 64);
    assert_non_null(strstr(stdio_host_log(client->host),
                           "(2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28)"));
  }
}

MCP_TEST(lists_that_the_server_lacks_are_empty) {
  mcp_client_initialize(client, "2025-11-25");
  mcp_client_send(client, "{'jsonrpc':'2.0','id':1,'method':'prompts/list','params':{}}");
  mcp_client_expect(client, "{'jsonrpc':'2.0','id':1,'result':{'prompts':[]}}");
  mcp_client_send(client, "{'jsonrpc':'2.0','id':2,'method':'resources/list'}");
  mcp_client_expect(client, "{'jsonrpc':'2.0','id':2,'result':{'resources':[]}}");
  mcp_client_send(client, "{'jsonrpc':'2.0','id':3,'method':'resources/templates/list'}");
  mcp_client_expect(client, "{'jsonrpc':'2.0','id':3,'result':{'resourceTemplates':[]}}");
  mcp_client_send(client, "{'jsonrpc':'2.0','id':4,'method':'logging/setLevel','params':{'level':"
                          "'info'}}");
  mcp_client_expect(client, "{'jsonrpc':'2.0','id':4,'error':{'code':-32601,'message':'Method not "
                            "found: logging/setLevel'}}");
}

#define REFUSED(CODE, MESSAGE) "'error':{'code':-" #CODE ",'message':'" MESSAGE "'"
#define NO_PARAMS(TEXT) REFUSED(32602, "Invalid params: " TEXT)
#define NO_META(FIELD)                                                                             \
  REFUSED(32602, "Missing required _meta field: io.modelcontextprotocol/" FIELD)
#define TOOLS "'result':{'tools':["

/* Some model APIs reject a schema with one of these. */
MCP_TEST(the_schemas_of_tools_have_no_uncommon_keywords) {
  static const char *const keywords[] = {"additionalProperties", "minimum", "maximum", "minItems"};
  mcp_client_send(client, "{'jsonrpc':'2.0','id':1,'method':'tools/list'}");
  const char *line = mcp_client_line(client);
  assert_non_null(strstr(line, formatted("\"%s\"", "inputSchema")));
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
    if (strstr(line, formatted("\"%s\"", keywords[i])) != NULL)
      fail_msg("%s", keywords[i]);
}

MCP_TEST(each_request_has_its_promised_answer) {
  static const struct {
    const char *method, *params, *answer;
  } rows[] = {
      {"tools/list", "[]", NO_PARAMS("expected an object")},
      {"tools/list", "'x'", NO_PARAMS("expected an object")},
      {"tools/list", "null", TOOLS},
      {"tools/list", "{'cursor':'2'}", NO_PARAMS("unknown cursor")},
      {"tools/list", "{'cursor':null}", TOOLS},
      {"tools/list", "{'cursor':''}", TOOLS},
      {"tools/call", "{}", NO_PARAMS("name: expected a string")},
      {"tools/call", "{'name':5}", NO_PARAMS("name: expected a string")},
      {"tools/call", "{'name':null}", NO_PARAMS("name: expected a string")},
      {"tools/call", "{'name':'grep','arguments':[]}", NO_PARAMS("arguments: expected an object")},
      {"tools/call", "{'name':'grep','arguments':'x'}", NO_PARAMS("arguments: expected an object")},
      {"tools/call", "{'name':'x'," META "}", REFUSED(32602, "Unknown tool: x")},
      {"tools/call", "{'name':'read_file','arguments':null}",
       "'result':{'content':[{'type':'text','text':'Error: path: required'}],'isError':true}"},
      {"server/discover", "{}", NO_META("protocolVersion")},
      {"server/discover", "{'_meta':5}", NO_META("protocolVersion")},
      {"tools/list", "{'_meta':{'io.modelcontextprotocol/clientInfo':{}}}",
       NO_META("protocolVersion")},
      {"tools/list", "{'_meta':{'io.modelcontextprotocol/protocolVersion':5}}",
       NO_META("protocolVersion")},
      {"tools/list", "{'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28'}}",
       NO_META("clientCapabilities")},
      {"tools/list",
       "{'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
       "'io.modelcontextprotocol/clientCapabilities':[]}}",
       NO_META("clientCapabilities")},
      {"no/such", "{" META_OF("v999.0.0") "}}",
       REFUSED(32022, "Unsupported protocol version") ",'data':{'supported':['2026-07-28'],"
                                                      "'requested':'v999.0.0'}"},
      {"tools/list", "{" META_OF("2025-11-25") "}}",
       REFUSED(32022, "Unsupported protocol version")},
      {"tools/list", "{" META_OF("2026-07-28") ",'io.modelcontextprotocol/logLevel':'loud'}}",
       NO_PARAMS("unknown log level")},
      {"tools/list", "{" META_OF("2026-07-28") ",'io.modelcontextprotocol/logLevel':'warning'}}",
       TOOLS},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','id':1,'method':'%s','params':%s}",
                                      rows[i].method, rows[i].params));
    mcp_client_expect_part(client, formatted("{'jsonrpc':'2.0','id':1,%s", rows[i].answer));
  }
}

MCP_TEST(unknown_methods_are_named) {
  static const char *const unknown[2][6] = {
      {"completion/complete", "resources/read", "prompts/get", "tasks/list", "Ping", ""},
      {"initialize", "prompts/list", "resources/list", "logging/setLevel", "completion/complete",
       "subscriptions/listen"}};
  for (size_t i = 0; i < 12; i++) {
    const char *method = unknown[i / 6][i % 6];
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','id':1,'method':'%s','params':{%s}}",
                                      method, i < 6 ? "" : META));
    mcp_client_expect_part(
        client, formatted("'error':{'code':-32601,'message':'Method not found: %s", method));
  }
}

/* --- lines ------------------------------------------------------------------------------------ */

MCP_TEST(lines_may_have_white_space_and_any_ending) {
  static const char text[] =
      "\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n"
      "\n \r\n"
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":3,\"met";
  mcp_client_send_bytes(client, text, sizeof text - 1);
  expect_ping(client, 1);
  expect_ping(client, 2);
  static const char rest[] =
      "hod\":\"ping\"}\n \t{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\"}";
  mcp_client_send_bytes(client, rest, sizeof rest - 1);
  expect_ping(client, 3);
  mcp_client_end_input(client);
  expect_ping(client, 4);
  assert_int_equal(mcp_client_exit(client), 0);
}

/* The client gets an error for its id, so that it need not wait for a timeout. */
static void expect_named_in_what_cannot_be_parsed(struct mcp_client *client) {
  static const struct {
    const char *text, *reason;
  } rows[] = {{"\\ud83d", "expected a pair of surrogates, got \\\\ud83d alone at byte 87"},
              {"\xFF", "expected UTF-8, broken at byte 87"},
              {"\t", "expected JSON, got a raw control character 0x09 at byte 87"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mcp_client_send(client,
                    formatted("{'method':'tools/call','params':{'name':'execute_command',"
                              "'arguments':{'command':'echo %s'}},'jsonrpc':'2.0','id':%zu}",
                              rows[i].text, i));
    mcp_client_expect(client, formatted("{'jsonrpc':'2.0','id':%zu,'error':{'code':-32700,"
                                        "'message':'Parse error: %s'}}",
                                        i, rows[i].reason));
  }
  char deep[65 + 1];
  memset(deep, '[', sizeof deep - 1);
  deep[sizeof deep - 1] = '\0';
  mcp_client_send(client, formatted("{'jsonrpc':'2.0','id':'d','params':%s", deep));
  mcp_client_expect_part(client, "{'jsonrpc':'2.0','id':'d','error':{'code':-32700,");
}

MCP_TEST(invalid_json_is_answered_and_the_next_line_served) {
  mcp_client_send(client, "hello");
  mcp_client_expect_part(client,
                         "{'jsonrpc':'2.0','error':{'code':-32700,'message':'Parse error: ");
  mcp_client_send(client, "{'jsonrpc':'2.0','id':1,'method':'ping','params':{'a':1,'a':2}}");
  mcp_client_expect_part(client, "'code':-32700,'message':'Parse error: a: expected once");
  mcp_client_send_bytes(client, "{\"a\":\"\xFF\"}\n", 10);
  mcp_client_expect_part(client, "'code':-32700,'message':'Parse error: expected UTF-8");
  expect_named_in_what_cannot_be_parsed(client);
  ping(client, 2);
  expect_ping(client, 2);
}

MCP_TEST(a_line_that_is_too_long_is_answered_and_the_next_line_served) {
  enum { PIECE = 1 << 20, PIECES = 65 };
  char *piece = malloc(PIECE);
  assert_non_null(piece);
  memset(piece, 'x', PIECE);
  mcp_client_end_transcript(client);
  mcp_client_send_bytes(client, "{\"method\":\"", 11);
  for (int i = 0; i < PIECES; i++)
    mcp_client_send_bytes(client, piece, PIECE);
  mcp_client_send(client, "','id':7}");
  free(piece);
  mcp_client_expect_part(client, "{'jsonrpc':'2.0','id':7,'error':{'code':-32700,'message':"
                                 "'Parse error: expected a line of at most");
  ping(client, 1);
  expect_ping(client, 1);
}

MCP_TEST(ids_are_returned_byte_for_byte) {
  static const char *const ids[] = {
      "0",          "-1", "9007199254740993", "1e-1000",    "'1'",
      "'\\u00e9/'", "''", "'a\\u0000b'",      "'\xC3\xA9'", "123456789012345678901"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','method':'ping','id':%s}", ids[i]));
    if (strchr(ids[i], 'e') == NULL || ids[i][0] == '\'')
      mcp_client_expect(client, formatted("{'jsonrpc':'2.0','id':%s,'result':{}}", ids[i]));
    else
      mcp_client_expect_part(client, "{'jsonrpc':'2.0','error':{'code':-32600,");
  }
  mcp_client_send(client, "{'jsonrpc':'2.0','id':9007199254740993,'method':'tools/call','params':{"
                          "'name':'execute_command','arguments':{'command':'true'}}}");
  mcp_client_expect_part(client, "{'jsonrpc':'2.0','id':9007199254740993,'result':{");
}

MCP_TEST(invalid_ids_are_rejected_without_an_id) {
  static const char *const ids[] = {"null", "1.5", "true", "[1]", "{}"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','method':'ping','id':%s}", ids[i]));
    mcp_client_expect(client, "{'jsonrpc':'2.0','error':{'code':-32600,'message':'Invalid Request: "
                              "id: expected a string or an integer'}}");
  }
}

MCP_TEST(a_notification_is_not_answered_and_calls_no_tool) {
  static const char *const methods[] = {"ping",   "initialize",      "tools/list",
                                        "no/one", "server/discover", "notifications/progress",
                                        "",       "notifications/x"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','method':'%s'}", methods[i]));
  mcp_client_send(client, "{'jsonrpc':'2.0','method':'tools/call','params':{'name':"
                          "'execute_command','arguments':{'command':'touch called'}}}");
  mcp_client_send(client, "{'jsonrpc':'2.0','id':7,'result':{}}");
  mcp_client_call(client, 1, "true", false);
  mcp_client_expect_called(client, 1, "(no output)", false);
  assert_int_equal(client->line_count, 1);
  assert_false(mcp_client_has_file(client, "called"));
}

/* --- batches ---------------------------------------------------------------------------------- */

MCP_TEST(a_batch_gets_one_answer) {
  mcp_client_initialize(client, "2025-03-26");
  mcp_client_send(client,
                  "[{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':"
                  "'execute_command','arguments':{'command':'" GATE(
                      "go") "'}}},"
                            "{'jsonrpc':'2.0','method':'notifications/initialized'},"
                            "{'jsonrpc':'2.0','id':2,'method':'ping'},5,"
                            "{'jsonrpc':'2.0','id':3,'method':'initialize','params':{}},"
                            "{'jsonrpc':'2.0','id':4,'method':'ping','params':{" META "}}]");
  mcp_client_sync(client); /* the server answers other requests meanwhile */
  mcp_client_open_gate(client, "go");
  mcp_client_expect(
      client,
      "[{'jsonrpc':'2.0','id':2,'result':{}},"
      "{'jsonrpc':'2.0','error':{'code':-32600,'message':'Invalid Request: expected "
      "an object'}},"
      "{'jsonrpc':'2.0','id':3,'error':{'code':-32600,'message':'Invalid Request: "
      "initialize in a batch'}},"
      "{'jsonrpc':'2.0','id':4,'error':{'code':-32600,'message':'Invalid Request: in a batch'}},"
      "{'jsonrpc':'2.0','id':1,'result':{'content':[{'type':'text','text':"
      "'(no output)'}],'isError':false}}]");
}

MCP_TEST(a_batch_without_requests_is_not_answered) {
  mcp_client_initialize(client, "2025-03-26");
  mcp_client_send(client, "[{'jsonrpc':'2.0','method':'notifications/initialized'}]");
  mcp_client_send(client, "[{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':"
                          "'execute_command','arguments':{'command':'touch up; sleep 600.091'}}}]");
  mcp_client_await_file(client, "up");
  cancel(client, "1");
  assert_true(proc_wait_gone("sleep 600.091", WAIT_BOUND_MS));
  ping(client, 2);
  expect_ping(client, 2);
}

MCP_TEST(other_versions_reject_batches) {
  static const char batch[] = "[{'jsonrpc':'2.0','id':1,'method':'ping'}]";
  mcp_client_send(client, batch);
  mcp_client_expect_part(client, "{'jsonrpc':'2.0','error':{'code':-32600,");
  char many[2 * 101 + 2] = ""; /* one more than the maximum */
  for (int i = 0; i < 101; i++)
    strcat(many, i == 0 ? "[5" : ",5");
  strcat(many, "]");
  for (int i = 0; i < VERSIONS; i++) {
    mcp_client_initialize(client, versions[i]);
    mcp_client_send(client, "[]");
    mcp_client_expect_part(client, "{'jsonrpc':'2.0','error':{'code':-32600,");
    mcp_client_send(client, many);
    mcp_client_expect_part(client, "{'jsonrpc':'2.0','error':{'code':-32600,");
    mcp_client_send(client, batch);
    mcp_client_expect_part(client, i == 1 ? "[{'jsonrpc':'2.0','id':1,'result':{}}]"
                                          : "{'jsonrpc':'2.0','error':{'code':-32600,");
  }
}

/* --- calls ------------------------------------------------------------------------------------ */

MCP_TEST(all_tools_can_be_called) {
  mcp_client_call_tool(client, 1, "write_file", "'path':'f','content':'one\\ntwo\\n'");
  mcp_client_expect_called(client, 1, "Successfully wrote 8 bytes to f", false);
  mcp_client_call_tool(client, 2, "read_file", "'path':'f'");
  mcp_client_expect_called(client, 2, "one\ntwo\n", false);
  mcp_client_call_tool(client, 3, "edit_file",
                       "'path':'f','edits':[{'old_string':'two','new_string':'2'}]");
  mcp_client_expect_called(client, 3, "Edited f (1 change)\n\n@ line 2:\n- two\n+ 2\n", false);
  mcp_client_call_tool(client, 4, "grep", "'pattern':'^2$'");
  mcp_client_expect_called(client, 4, "f:2:2", false);
  mcp_client_call_tool(client, 5, "list_directory", "'path':'.'");
  mcp_client_expect_called(client, 5, "file          6  f\n", false);
  mcp_client_call_tool(client, 6, "execute_command", "'command':'cat','args':['f']");
  mcp_client_expect_called(client, 6, "one\n2", false);
  mcp_client_call_tool(client, 7, "directory_tree", "");
  cJSON *answer = mcp_client_answer(client, 7);
  assert_true(cJSON_IsFalse(member(answer, "isError")));
  cJSON_Delete(answer);
}

/* Makes a file of these bytes followed by this many bytes 0xFF. Returns it as base64, to be
   freed. */
static char *put_image(struct mcp_client *client, const char *name, const char *begin,
                       size_t length, size_t more) {
  char *bytes = malloc(length + more);
  assert_non_null(bytes);
  memcpy(bytes, begin, length);
  memset(bytes + length, 0xFF, more);
  FILE *file = fopen(directory_path(&client->directory, name), "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length + more, file), length + more);
  assert_int_equal(fclose(file), 0);
  char *text = encoded(bytes, length + more);
  free(bytes);
  return text;
}

static void expect_image(struct mcp_client *client, int id, const char *type, const char *data) {
  cJSON *answer = mcp_client_answer(client, id);
  const cJSON *content = member(answer, "content"), *image = content->child;
  assert_true(cJSON_IsFalse(member(answer, "isError")));
  assert_int_equal(cJSON_GetArraySize(content), 1);
  assert_int_equal(cJSON_GetArraySize(image), 3);
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(image, "type")), "image");
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(image, "mimeType")), type);
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(image, "data")), data);
  cJSON_Delete(answer);
}

/* The first bytes of the file decide, not its name. */
MCP_TEST(read_file_returns_an_image) {
  static const struct {
    const char *begin;
    size_t length;
    const char *type;
  } rows[] = {{"\x89PNG\r\n\x1A\n", 8, "image/png"},
              {"\xFF\xD8\xFF", 3, "image/jpeg"},
              {"GIF87a", 6, "image/gif"},
              {"GIF89a", 6, "image/gif"},
              {"RIFF\1\2\3\4WEBP", 12, "image/webp"}};
  int id = 0;
  for (int version = 0; version < VERSIONS; version++) {
    mcp_client_initialize(client, versions[version]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      char *data = put_image(client, "f.txt", rows[i].begin, rows[i].length, 100 + i);
      mcp_client_call_tool(client, ++id, "read_file", "'path':'f.txt'");
      expect_image(client, id, rows[i].type, data);
      free(data);
    }
  }
}

MCP_TEST(an_image_may_have_five_mebibytes) {
  enum { MOST = 5242880 };
  char *data = put_image(client, "large", "\xFF\xD8\xFF", 3, MOST - 3);
  mcp_client_call_tool(client, 1, "read_file", "'path':'large','offset':5,'limit':2");
  expect_image(client, 1, "image/jpeg", data);
  free(data);
  free(put_image(client, "large", "\xFF\xD8\xFF", 3, MOST - 2));
  mcp_client_call_tool(client, 2, "read_file", "'path':'large'");
  mcp_client_expect_called(client, 2, "Error: image exceeds 5 MB limit", true);
}

MCP_TEST(read_file_does_not_return_other_binary_files) {
  mcp_client_call_tool(client, 1, "write_file",
                       "'path':'f','content':'GIF89a is a format\\nimage/png\\n'");
  mcp_client_expect_called(client, 1, "Successfully wrote 29 bytes to f", false);
  mcp_client_call_tool(client, 2, "read_file", "'path':'f'");
  mcp_client_expect_called(client, 2, "GIF89a is a format\nimage/png\n", false);
  mcp_client_call_tool(client, 3, "read_file", "'path':'f','offset':2,'limit':1");
  mcp_client_expect_called(client, 3, "image/png", false);
  static const char *const others[] = {"RIFF\1\2\3\4WAVE", "\x89PNX", "\xFF\xD9", "BM"};
  for (int i = 0; i < 4; i++) {
    free(put_image(client, "g.png", others[i], strlen(others[i]), 10));
    mcp_client_call_tool(client, 10 + i, "read_file", "'path':'g.png'");
    mcp_client_expect_called(client, 10 + i, "Error: binary or non-UTF-8 content not supported",
                             true);
  }
  free(put_image(client, "g.png", "x", 1, 1048576));
  mcp_client_call_tool(client, 20, "read_file", "'path':'g.png'");
  mcp_client_expect_called(client, 20, "Error: file exceeds 1 MB limit: use offset and limit",
                           true);
}

/* The smallest GIF is ASCII. */
MCP_TEST(read_file_recognizes_a_gif_of_ascii_bytes) {
  mcp_client_call_tool(
      client, 1, "write_file",
      "'path':'f','content':'GIF89a\\u0001\\u0000\\u0001\\u0000\\u0000\\u0000\\u0000;'");
  mcp_client_expect_called(client, 1, "Successfully wrote 14 bytes to f", false);
  mcp_client_call_tool(client, 2, "read_file", "'path':'f'");
  expect_image(client, 2, "image/gif", "R0lGODlhAQABAAAAADs=");
}

/* The child expands the tilde, not the event loop. */
MCP_TEST(a_working_directory_may_start_with_a_tilde) {
  mcp_client_call(client, 1, "mkdir home home/x; pwd", false);
  cJSON *answer = mcp_client_answer(client, 1);
  const char *directory =
      cJSON_GetStringValue(cJSON_GetObjectItem(member(answer, "content")->child, "text"));
  char with_home[300];
  (void)snprintf(with_home, sizeof with_home,
                 "'command':'pwd','workdir':'~/x','env':['HOME=%s/home']", directory);
  mcp_client_call_tool(client, 2, "execute_command", with_home);
  mcp_client_expect_called(client, 2, formatted("%s/home/x", directory), false);
  mcp_client_call_tool(client, 3, "execute_command",
                       "'command':'pwd','workdir':'~','env':['HOME=']");
  mcp_client_expect_called(
      client, 3, "Error: working directory ~: HOME is not set, so ~ stands for no directory", true);
  mcp_client_call(client, 4, "mkdir ./~ ./~/x", false);
  mcp_client_expect_called(client, 4, "(no output)", false);
  mcp_client_call_tool(client, 5, "execute_command", with_home);
  mcp_client_expect_called(client, 5, formatted("%s/~/x", directory), false);
  mcp_client_call(client, 6, "rm -r ./~ home", false);
  mcp_client_expect_called(client, 6, "(no output)", false);
  cJSON_Delete(answer);
}

/* This is the same in each version, because a model sees results but no protocol errors. */
MCP_TEST(invalid_arguments_are_a_tool_error) {
  for (int i = 0; i < VERSIONS; i++) {
    mcp_client_initialize(client, versions[i]);
    mcp_client_call_tool(client, 10 * i + 1, "execute_command", "'command':'true','timeout':'3s'");
    mcp_client_expect_called(client, 10 * i + 1, "Error: timeout: expected an integer", true);
    mcp_client_call_tool(client, 10 * i + 2, "execute_command", "'command':'true','cwd':'/'");
    mcp_client_expect_called(client, 10 * i + 2,
                             "Error: unknown argument 'cwd' (execute_command takes command, args, "
                             "workdir, timeout, env, stdin)",
                             true);
    mcp_client_call_tool(client, 10 * i + 3, "execute_command", "'command':'true','timeout':30.0");
    mcp_client_expect_called(client, 10 * i + 3, "(no output)", false);
  }
}

MCP_TEST(the_result_reports_how_a_command_ended) {
  static const struct {
    const char *arguments;
    const char *text;
    bool is_error;
  } rows[] = {
      {"'command':'echo out; echo err >&2; exit 3'", "out\nSTDERR: err\n(exit code: 3)", true},
      {"'command':'kill -9 $$'", "(exit code: 137)", true},
      {"'command':'true'", "(no output)", false},
      {"'command':'sleep 60','timeout':1", "(command timed out)\n(exit code: 124)", true},
      {"'command':'no-such-program','args':['a']",
       "Error: cannot run 'no-such-program': No such file or directory", true},
      {"'command':'true','workdir':'none'", "Error: workdir: no such directory: none", true},
      {"'command':'cat','stdin':'in\\n'", "in", false},
      {"'command':'echo $A','env':['A=1']", "1", false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    mcp_client_call_tool(client, (int)i, "execute_command", rows[i].arguments);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    mcp_client_expect_called(client, (int)i, rows[i].text, rows[i].is_error);
  /* Clients show each line of the log as a warning. */
  assert_string_equal(stdio_host_log(client->host), "");
}

/* A command that read the server's standard input would take requests; one that wrote to its
   standard output would break answers. */
MCP_TEST(a_command_does_not_share_the_streams_of_the_server) {
  mcp_client_call(client, 1, "cat; echo {}; ls -l /proc/self/fd | wc -l", false);
  for (int i = 2; i < 20; i++)
    ping(client, i);
  mcp_client_expect_called(client, 1, "{}\n5", false); /* a total, 0, 1, 2 and the directory */
  for (int i = 2; i < 20; i++)
    cJSON_Delete(mcp_client_answer(client, i));
  assert_int_equal(client->line_count, 19);
}

MCP_TEST(other_requests_are_answered_while_calls_run) {
  mcp_client_initialize(client, "2025-11-25");
  mcp_client_call(client, 1, "touch up; until [ -e go ]; do sleep 0.1; done", false);
  mcp_client_await_file(client, "up");
  ping(client, 2);
  expect_ping(client, 2);
  mcp_client_send(client, "{'jsonrpc':'2.0','id':3,'method':'tools/list'}");
  mcp_client_expect_part(client, "'tools':[");
  mcp_client_call_tool(client, 4, "write_file", "'path':'go','content':''");
  mcp_client_expect_called(client, 1, "(no output)", false);
  mcp_client_expect_called(client, 4, "Successfully wrote 0 bytes to go", false);
}

MCP_TEST(sixteen_calls_run_at_once_and_others_wait_in_order) {
  enum { RUN = 16, MORE = 4 };
  for (int i = 1; i <= RUN + MORE; i++)
    mcp_client_call(client, i, formatted("touch up.%d; " GATE("go.%d"), i, i, i), true);
  for (int i = 1; i <= RUN; i++)
    mcp_client_await_file(client, formatted("up.%d", i));
  mcp_client_sync(client);
  assert_false(mcp_client_has_file(client, formatted("up.%d", RUN + 1)));
  cancel(client, "18"); /* a waiting call */
  mcp_client_open_gate(client, "go.5");
  mcp_client_expect_called(client, 5, "(no output)", false);
  mcp_client_await_file(client, formatted("up.%d", RUN + 1));
  mcp_client_open_gate(client, "go.17");
  mcp_client_await_file(client, "up.19");
  assert_false(mcp_client_has_file(client, "up.20"));
  for (int i = 1; i <= RUN + MORE; i++)
    mcp_client_open_gate(client, formatted("go.%d", i));
  for (int i = 1; i <= RUN + MORE; i++)
    if (i != 18)
      mcp_client_expect_called(client, i, "(no output)", false);
  mcp_client_end_input(client);
  assert_int_equal(mcp_client_exit(client), 0);
  assert_int_equal(mcp_client_count(client, "'id':18,"), 0);
  assert_false(mcp_client_has_file(client, "up.18"));
}

MCP_TEST(a_result_stays_below_a_mebibyte_in_any_escaping) {
  char text[512];
  (void)snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
                 "\"execute_command\",\"arguments\":{\"command\":\"head -c 200000 /dev/zero | tr "
                 "'\\\\000' '\\\\001' | tee /dev/stderr\"}}}\n");
  mcp_client_send_bytes(client, text, strlen(text));
  const char *line = mcp_client_expect_part(client, "{'jsonrpc':'2.0','id':1,'result':{");
  assert_in_range(strlen(line), 6 * 2 * 51200, (1 << 20) - 1);
  assert_non_null(strstr(line, "\\u0001\\n...(148800 bytes left out)\\n\\u0001"));
}

/* --- the trace of a call ---------------------------------------------------------------------- */

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

MCP_TEST(a_command_gets_the_trace_of_its_call) {
  mcp_client_initialize(client, versions[0]);
  mcp_client_send(client, "{'jsonrpc':'2.0','id':7,'method':'tools/call','params':{"
                          "'name':'execute_command','arguments':{'command':'echo $TRACEPARENT'},"
                          "'_meta':{'traceparent':'" TRACE "'}}}");
  mcp_client_expect_called(client, 7, TRACE, false);
  mcp_client_send(client, "{'jsonrpc':'2.0','id':8,'method':'tools/call','params':{"
                          "'name':'execute_command','arguments':{'command':'echo $TRACEPARENT',"
                          "'env':['TRACEPARENT=its own']},'_meta':{'traceparent':'" TRACE "'}}}");
  mcp_client_expect_called(client, 8, "its own", false);
}

/* --- structured results ----------------------------------------------------------------------- */

MCP_TEST(a_flag_requests_structured_results) {
  mcp_client_start(client, NULL, "--structured");
  for (int i = 0; i < VERSIONS; i++) {
    mcp_client_initialize(client, versions[i]);
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','id':%d,'method':'tools/list'}", 100 + i));
    cJSON *answer = mcp_client_answer(client, 100 + i);
    const cJSON *tool = member(answer, "tools")->child;
    const cJSON *schema = cJSON_GetObjectItem(tool, "outputSchema");
    assert_int_equal(schema != NULL, i >= 2);
    if (schema != NULL)
      assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(schema, "type")), "object");
    cJSON_Delete(answer);
    mcp_client_call(client, 200 + i, "echo out; echo err >&2; exit 3", false);
    answer = mcp_client_answer(client, 200 + i);
    const cJSON *structured = member(answer, "structuredContent");
    assert_int_equal(structured != NULL, i >= 2);
    if (structured != NULL)
      assert_int_equal(cJSON_GetObjectItem(structured, "exitCode")->valueint, 3);
    cJSON_Delete(answer);
    mcp_client_call_tool(client, 300 + i, "execute_command", "'command':5");
    answer = mcp_client_answer(client, 300 + i);
    assert_null(member(answer, "structuredContent"));
    cJSON_Delete(answer);
    mcp_client_call_tool(client, 400 + i, "list_directory", "'path':'/'");
    answer = mcp_client_answer(client, 400 + i);
    assert_null(member(answer, "structuredContent"));
    cJSON_Delete(answer);
  }
}

/* --- cancel ----------------------------------------------------------------------------------- */

MCP_TEST(a_cancelled_call_ends_without_an_answer) {
  mcp_client_call(client, 1, "touch up; sleep 600.081 & sleep 600.082", true);
  mcp_client_await_file(client, "up");
  assert_true(proc_wait_for("sleep 600.082", WAIT_BOUND_MS) > 0);
  cancel(client, "'1'"); /* another id */
  mcp_client_sync(client);
  assert_true(proc_find("sleep 600.082") > 0);
  mcp_client_call(client, 2, "env -i setsid -w /bin/sleep 600.080",
                  false); /* a process without the step's environment */
  assert_true(proc_wait_for("/bin/sleep 600.080", WAIT_BOUND_MS) > 0);
  cancel(client, "1");
  assert_true(proc_wait_gone("sleep 600.081", WAIT_BOUND_MS));
  assert_true(proc_wait_gone("sleep 600.082", WAIT_BOUND_MS));
  assert_true(proc_find("/bin/sleep 600.080") > 0);
  mcp_client_end_input(client);
  assert_int_equal(mcp_client_exit(client), 0);
  assert_int_equal(mcp_client_count(client, "'id':1,"), 0);
}

MCP_TEST(a_cancel_of_an_unknown_call_is_ignored) {
  static const char *const params[] = {"{'requestId':77}",
                                       "{'requestId':'x'}",
                                       "{'requestId':null}",
                                       "{'requestId':1.5}",
                                       "{}",
                                       "[1]",
                                       "null"};
  mcp_client_initialize(client, "2025-11-25");
  mcp_client_call(client, 1, "true", false);
  mcp_client_expect_called(client, 1, "(no output)", false);
  cancel(client, "1");
  cancel(client, "0");
  for (size_t i = 0; i < sizeof params / sizeof *params; i++)
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','method':'notifications/cancelled',"
                                      "'params':%s}",
                                      params[i]));
  size_t lines = client->line_count;
  mcp_client_sync(client);
  assert_int_equal(client->line_count, lines + 1);
}

/* --- progress --------------------------------------------------------------------------------- */

/* The seconds of a progress line with this token; negative if it is another line. */
static double progress_of(const char *line, const char *token) {
  cJSON *message = cJSON_Parse(line);
  const cJSON *params = cJSON_GetObjectItem(message, "params");
  const cJSON *name = cJSON_GetObjectItem(params, "progressToken");
  double seconds = -1;
  if (name != NULL && strcmp(cJSON_GetStringValue(name), token) == 0)
    seconds = cJSON_GetObjectItem(params, "progress")->valuedouble;
  cJSON_Delete(message);
  return seconds;
}

/* Waits for progress of token 1 with this part, after the progress with this many seconds. Returns
   its seconds. On a busy machine, reports may come before the command has printed. */
static double await_progress(struct mcp_client *client, const char *part, double after) {
  const char *line;
  do {
    line = mcp_client_expect_part(client, "notifications/progress");
    double seconds = progress_of(line, "1");
    assert_true(seconds > after && seconds < WAIT_BOUND_MS / 1000.0);
    after = seconds;
  } while (strstr(line, quoted(part)) == NULL);
  return after;
}

MCP_TEST(progress_rises_and_shows_the_last_line_until_the_answer) {
  mcp_client_initialize(client, "2025-06-18");
  mcp_client_call(
      client, 1,
      "echo one; printf two\\\\\\\\377\\\\\\\\n; " GATE("go.1") "echo three; " GATE("go.2"), true);
  double first = await_progress(client, "'message':'two\xEF\xBF\xBD'", 0);
  assert_true(first >= 0.5);
  mcp_client_open_gate(client, "go.1");
  (void)await_progress(client, "'message':'three'", first);
  mcp_client_open_gate(client, "go.2");
  mcp_client_expect_called(client, 1, "one\ntwo\xEF\xBF\xBD\nthree", false);
  size_t lines = client->line_count;
  mcp_client_end_input(client);
  assert_int_equal(mcp_client_exit(client), 0);
  assert_int_equal(client->line_count, lines);
}

MCP_TEST(a_progress_message_has_at_most_200_characters) {
  mcp_client_initialize(client, "2025-06-18");
  mcp_client_call(client, 1,
                  "for i in $(seq 300); do printf \\\\\\\\303\\\\\\\\251; done; " GATE("go.1"),
                  true);
  char message[500] = "'message':'";
  for (int i = 0; i < 200; i++)
    strcat(message, "\xC3\xA9");
  (void)await_progress(client, strcat(message, "'"), 0);
  mcp_client_open_gate(client, "go.1");
}

/* Some clients take the next line as the answer; an unexpected line would break them. */
MCP_TEST(a_call_without_a_token_gets_no_progress) {
  mcp_client_initialize(client, "2025-11-25");
  mcp_client_call(client, 1, "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done", false);
  mcp_client_call(client, 2, GATE("go"), true);
  mcp_client_expect_called(client, 1, "1\n2\n3\n4\n5\n6\n7\n8", false);
  while (mcp_client_count(client, "notifications/progress") == 0)
    assert_non_null(mcp_client_line(client));
  mcp_client_open_gate(client, "go");
  mcp_client_expect_called(client, 2, "(no output)", false);
  assert_true(mcp_client_count(client, "notifications/progress") > 0);
  assert_int_equal(mcp_client_count(client, "notifications/progress"),
                   mcp_client_count(client, "'progressToken':'2'"));
}

MCP_TEST(the_oldest_version_gets_progress_without_messages) {
  mcp_client_initialize(client, "2024-11-05");
  mcp_client_call(client, 1, "echo one; " GATE("go"), true);
  const char *line = mcp_client_expect_part(client, "notifications/progress");
  assert_null(strstr(line, "message"));
  mcp_client_open_gate(client, "go");
  mcp_client_expect_called(client, 1, "one", false);
}

/* --- what is not read ------------------------------------------------------------------------- */

/* Writes the line again and again as long as the pipe accepts it. Returns false if the pipe accepts
   nothing. */
static bool fill(struct mcp_client *client, const char *line, size_t length) {
  bool written = false;
  for (;;) {
    ssize_t n = write(client->host->in, line + client->filled, length - client->filled);
    if (n < 0)
      return written;
    written = true;
    client->filled += (size_t)n;
    if (client->filled < length)
      continue;
    client->filled = 0;
    client->fills++;
  }
}

struct filling {
  struct mcp_client *client;
  const char *line;
  size_t length;
};

/* The server sleeps and does not read: its input is full before and after. */
static bool is_stalled(void *context) {
  const struct filling *self = context;
  pid_t pid = self->client->host->pid;
  (void)fill(self->client, self->line, self->length);
  bool sleeps = proc_sleeps_in(pid, SYS_epoll_wait) || proc_sleeps_in(pid, SYS_epoll_pwait);
  return sleeps && !fill(self->client, self->line, self->length);
}

static void fill_until_stalled(struct mcp_client *client, const char *line) {
  struct filling filling = {client, line, strlen(line)};
  mcp_client_end_transcript(client);
  assert_true(fcntl(client->host->in, F_SETPIPE_SZ, 1 << 20) > 0);
  assert_int_equal(fcntl(client->host->in, F_SETFL, O_NONBLOCK), 0);
  if (!wait_until(is_stalled, &filling, 2 * WAIT_BOUND_MS))
    fail_msg("the server still reads after %d lines", client->fills);
}

/* The server stops reading at 16 MiB of answers. */
MCP_TEST(the_server_stops_reading_while_answers_are_not_read) {
  enum { HWM_MAX_KIB = 64 * 1024 };
  mcp_client_sync(client);
  fill_until_stalled(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n");
  long peak = proc_status_kib(client->host->pid, "VmHWM");
  print_message("resident: %ld KiB at most\n", peak);
  assert_in_range(peak, 16 * 1024, agent_process_is_shipped() ? HWM_MAX_KIB : 8 * HWM_MAX_KIB);
  for (int i = 0; i < client->fills; i++)
    mcp_client_expect_part(client, "'tools':[");
}

/* The text of waiting calls is bounded. Further calls are refused, so that other requests are
   answered. */
MCP_TEST(the_server_rejects_calls_above_a_bound) {
  enum { RUN = 16, CALLS = 70 };
  for (int i = 1; i <= RUN; i++)
    mcp_client_call(client, i, formatted("touch up.%d; " GATE("go"), i), false);
  for (int i = 1; i <= RUN; i++)
    mcp_client_await_file(client, formatted("up.%d", i));
  char *line = malloc((1 << 20) + 256);
  assert_non_null(line);
  (void)snprintf(line, (1 << 20) + 256, "%s%0*d\"}}}\n",
                 quoted("{'jsonrpc':'2.0','id':'w','method':'tools/call','params':{'name':"
                        "'execute_command','arguments':{'command':'true','stdin':'"),
                 1 << 20, 0);
  mcp_client_end_transcript(client);
  for (int i = 0; i < CALLS; i++)
    mcp_client_send_bytes(client, line, strlen(line));
  free(line);
  mcp_client_send(client, "{'jsonrpc':'2.0','id':'p','method':'ping'}");
  int refused = 0;
  while (strstr(mcp_client_line(client), quoted("'id':'p'")) == NULL)
    refused++;
  print_message("%d MiB wait; resident: %ld KiB at most\n", CALLS - refused,
                proc_status_kib(client->host->pid, "VmHWM"));
  assert_in_range(refused, CALLS - 64, CALLS - 1);
  mcp_client_open_gate(client, "go");
  for (int i = 0; i < RUN + CALLS - refused; i++)
    mcp_client_expect_part(client, "'isError':false");
}

/* The seconds of the next progress message. */
static double next_progress(struct mcp_client *client) {
  const char *line = mcp_client_line(client);
  while (line != NULL && strstr(line, "notifications/progress") == NULL)
    line = mcp_client_line(client);
  assert_non_null(line);
  cJSON *message = cJSON_Parse(line);
  const cJSON *params = cJSON_GetObjectItem(message, "params");
  double seconds = cJSON_GetNumberValue(cJSON_GetObjectItem(params, "progress"));
  cJSON_Delete(message);
  return seconds;
}

/* Late progress is of no use; results are never dropped. */
MCP_TEST(progress_is_dropped_while_answers_are_not_read) {
  for (int i = 1; i <= 40; i++)
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','id':%d,'method':'tools/list'}", i));
  mcp_client_call(client, 50, "until [ -e go ]; do echo more; sleep 0.1; done", true);
  mcp_client_call(client, 51, "sleep 1.2; touch over", false);
  mcp_client_await_file(client, "over");
  for (int i = 1; i <= 40; i++)
    mcp_client_expect_part(client, "'tools':[");
  assert_true(next_progress(client) >= 1.2); /* the client has not read meanwhile */
  mcp_client_open_gate(client, "go");
  cJSON_Delete(mcp_client_answer(client, 51));
  cJSON_Delete(mcp_client_answer(client, 50));
}

/* --- the end ---------------------------------------------------------------------------------- */

MCP_TEST(the_server_exits_silently_if_it_gets_no_input) {
  mcp_client_end_input(client);
  assert_int_equal(mcp_client_exit(client), 0);
  assert_int_equal(client->line_count, 0);
  assert_string_equal(stdio_host_log(client->host), "");
}

MCP_TEST(requests_before_the_end_of_the_input_are_answered) {
  for (int i = 0; i < 40; i++)
    mcp_client_call(client, i, formatted("echo %d", i), false);
  mcp_client_send(client, "{'jsonrpc':'2.0','id':50,'method':'tools/list'}");
  mcp_client_end_input(client);
  for (int i = 0; i < 40; i++)
    mcp_client_expect_called(client, i, formatted("%d", i), false);
  cJSON_Delete(mcp_client_answer(client, 50));
  assert_int_equal(mcp_client_exit(client), 0);
}

static bool has_exited(void *context) {
  siginfo_t info = {0};
  const struct mcp_client *client = context;
  return waitid(P_PID, (id_t)client->host->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

/* A reader that comes even later misses output. */
MCP_TEST(output_that_is_not_read_in_time_is_an_error) {
  mcp_client_end_transcript(client);
  for (int i = 0; i < 4; i++)
    mcp_client_call(client, i, "seq 10000", false);
  mcp_client_end_input(client);
  assert_true(wait_until(has_exited, client, WAIT_BOUND_MS));
  close(client->host->out); /* the pipe has a part of a line */
  client->host->out = -1;
  assert_int_equal(mcp_client_exit(client), 3);
}

/* Also background processes and processes that ignore SIGTERM. */
MCP_TEST(no_process_outlives_the_input) {
  mcp_client_call(client, 1, "setsid sleep 600.083 >/dev/null 2>&1 & echo up", false);
  mcp_client_expect_called(client, 1, "up", false);
  mcp_client_call(client, 2, "trap : TERM; touch up; sleep 600.084; sleep 600.085", false);
  mcp_client_await_file(client, "up");
  assert_true(proc_wait_for("sleep 600.083", WAIT_BOUND_MS) > 0);
  mcp_client_end_input(client);
  mcp_client_expect_called(
      client, 2, "Error: cancelled: the agent was stopped by the end of standard input", true);
  assert_int_equal(mcp_client_exit(client), 0);
  assert_int_equal(proc_find("sleep 600.083"), 0);
  assert_int_equal(proc_find("sleep 600.084"), 0);
  assert_int_equal(proc_find("sleep 600.085"), 0);
}

MCP_TEST(no_process_outlives_the_reader) {
  mcp_client_call(client, 1, "touch up; sleep 600.086", false);
  mcp_client_await_file(client, "up");
  close(client->host->out);
  client->host->out = -1;
  assert_int_equal(mcp_client_exit(client), 0);
  assert_int_equal(proc_find("sleep 600.086"), 0);
}

MCP_TEST(a_signal_ends_the_server) {
  static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    mcp_client_start(client, NULL, NULL);
    mcp_client_initialize(client, "2025-11-25");
    mcp_client_call(client, 1, formatted("touch up.%zu; sleep 600.087", i), false);
    mcp_client_await_file(client, formatted("up.%zu", i));
    assert_int_equal(kill(client->host->pid, signals[i]), 0);
    const char *name = i == 0 ? "SIGTERM" : i == 1 ? "SIGINT" : "SIGHUP";
    mcp_client_expect_called(
        client, 1, formatted("Error: cancelled: the agent was stopped by %s", name), true);
    assert_int_equal(mcp_client_exit(client), 128 + signals[i]);
    assert_int_equal(proc_find("sleep 600.087"), 0);
  }
}

TEST_OVERLAP(4)
