/* `agent --mcp --http`: the Streamable HTTP transport of MCP by POST /mcp. */

#include <cjson/cJSON.h>
#include <signal.h>

#include "tests/support/gate.h"
#include "tests/support/http_agent.h"
#include "tests/support/proc.h"
#include "tests/support/stdio_host.h"
#include "tests/test.h"

TEST_OVERLAP(4)

enum { LONG_MAX = 48, BATCH_MAX = 100 };

#define JSON "Content-Type: application/json\r\n"
#define EVENTS JSON "Accept: application/json, text/event-stream\r\n"
#define VERSION(NAME) "MCP-Protocol-Version: " NAME "\r\n"
#define MODERN VERSION("2026-07-28")
#define META                                                                                       \
  "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                               \
  "'io.modelcontextprotocol/clientCapabilities':{}}"

static void start(struct http_agent *http, const char *mode, const char *first,
                  const char *second) {
  const char *arguments[] = {mode, first, second, NULL};
  http->setup.directory = http->directory.path;
  http_agent_start(http, arguments, NULL);
}

/* Sends a message, which is written as for quoted(), with these fields in addition to the type. */
static void post(struct http_client *client, const char *fields, const char *message) {
  http_client_send_request(client, "POST", "/mcp", formatted(JSON "%s", fields), quoted(message));
}

static struct http_client *posted(struct http_agent *http, const char *fields,
                                  const char *message) {
  struct http_client *client = http_agent_connect(http);
  post(client, fields, message);
  return client;
}

/* Fails unless the response is JSON with this text, or has no body if the text is empty. */
static void expect_response(struct http_agent *http, struct http_client *client, int status,
                            const char *text) {
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, status);
  assert_string_equal(response->body, quoted(text));
  const char *type = http_response_field(response, "Content-Type");
  assert_string_equal(type != NULL ? type : "", *text != '\0' ? "application/json" : "");
}

static void expect(struct http_agent *http, const char *fields, const char *message, int status,
                   const char *text) {
  struct http_client *client = posted(http, fields, message);
  expect_response(http, client, status, text);
  http_agent_disconnect(http, client);
}

/* Fails unless the response is an error with this code and, unless it is NULL, this id. */
static void expect_error(struct http_agent *http, const char *fields, const char *message,
                         int status, int code, const char *id) {
  struct http_client *client = posted(http, fields, message);
  const struct http_response *response = http_client_response(client);
  if (response->status != status)
    fail_msg("%s %s: status %d: %s", fields, message, response->status, response->body);
  cJSON *answer = cJSON_Parse(response->body);
  const cJSON *error = cJSON_GetObjectItem(answer, "error");
  assert_non_null(error);
  if (cJSON_GetNumberValue(cJSON_GetObjectItem(error, "code")) != code)
    fail_msg("%s %s: %s", fields, message, response->body);
  if (id != NULL)
    assert_non_null(strstr(response->body, formatted("\"id\":%s,", id)));
  cJSON_Delete(answer);
  http_agent_disconnect(http, client);
}

/* Commands have a timeout that is longer than a test waits. */
static const char *call(const char *id, const char *command) {
  return formatted("{'jsonrpc':'2.0','id':%s,'method':'tools/call','params':{'name':"
                   "'execute_command','arguments':{'command':'%s','timeout':100}}}",
                   id, command);
}

/* The same with a progress token. */
static const char *call_with_token(const char *id, const char *command) {
  return formatted("{'jsonrpc':'2.0','id':%s,'method':'tools/call','params':{'name':"
                   "'execute_command','arguments':{'command':'%s','timeout':100},'_meta':{'"
                   "progressToken':'t'}}}",
                   id, command);
}

static const char *modern_call(const char *command) {
  return formatted("{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':"
                   "'execute_command','arguments':{'command':'%s','timeout':100}," META "}}",
                   command);
}

#define MODERN_CALL MODERN "Mcp-Method: tools/call\r\nMcp-Name: execute_command\r\n"

/* The result of a command in JSON. */
static const char *result(const char *id, const char *text) {
  return formatted("{'jsonrpc':'2.0','id':%s,'result':{'content':[{'type':'text','text':'%s'}],"
                   "'isError':false}}",
                   id, text);
}

#define PING "{'jsonrpc':'2.0','id':1,'method':'ping'}"
#define PONG "{'jsonrpc':'2.0','id':1,'result':{}}"

static const char *cancel(const char *id) {
  return formatted("{'jsonrpc':'2.0','method':'notifications/cancelled','params':"
                   "{'requestId':%s}}",
                   id);
}

/* The number of waiting calls, from health. */
static int waiting(struct http_agent *http) {
  static const char name[] = "\"waiting\":";
  struct http_client *client = http_client_connect(http->address);
  const struct http_response *response = http_client_request(client, "GET", "/health", NULL, NULL);
  const char *found = strstr(response->body, name);
  assert_non_null(found);
  int count = atoi(found + sizeof name - 1);
  http_client_free(client);
  return count;
}

static bool has_waiting(void *context) {
  return waiting(context) == 1;
}

static void wait_for_waiting(struct http_agent *http) {
  assert_true(wait_until(has_waiting, http, WAIT_BOUND_MS));
}

/* --- answers ---------------------------------------------------------------------------------- */

HTTP_TEST(an_answer_is_that_of_mcp) {
  static const char *const messages[] = {
      PING,
      "{'jsonrpc':'2.0','id':'a','method':'tools/list'}",
      "{'jsonrpc':'2.0','id':2,'method':'tools/list','params':{'cursor':'x'}}",
      "{'jsonrpc':'2.0','id':3,'method':'resources/list'}",
      "{'jsonrpc':'2.0','id':4,'method':'no/such/method'}",
      "{'jsonrpc':'2.0','id':5,'method':'tools/call','params':{'name':'none'}}",
      "{'jsonrpc':'2.0','id':6,'method':'tools/call','params':{'name':'execute_command'}}",
      "{'jsonrpc':'2.0','id':7,'method':'tools/call','params':{'name':'execute_command',"
      "'arguments':{'command':'echo a; echo b >&2; exit 3'}}}",
      "{'jsonrpc':'2.0','id':8,'method':'tools/call','params':{'name':'write_file',"
      "'arguments':{'path':'f','content':'text'}}}",
      "{'jsonrpc':'2.0','id':9,'method':'tools/call','params':{'name':'read_file',"
      "'arguments':{'path':'f'}}}"};
  start(http, "--mcp", NULL, NULL);
  const char *arguments[] = {"--mcp", NULL};
  struct stdio_host *host = stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .directory = http->directory.path});
  struct http_client *client = http_agent_connect(http);
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
    post(client, VERSION("2025-11-25"), messages[i]);
    const struct http_response *response = http_client_response(client);
    http_agent_expect_status(http, response, 200);
    stdio_host_send(host, formatted("%s\n", messages[i]));
    assert_string_equal(response->body, stdio_host_line(host));
  }
  stdio_host_free(host);
}

HTTP_TEST(a_notification_or_a_response_is_accepted_without_a_body) {
  static const char *const messages[] = {
      "{'jsonrpc':'2.0','method':'notifications/initialized'}",
      "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':1}}",
      "{'jsonrpc':'2.0','method':'unknown'}", "{'jsonrpc':'2.0','id':1,'result':{}}",
      "{'jsonrpc':'2.0','id':1,'error':{'code':-1,'message':'a'}}"};
  start(http, "--mcp", NULL, NULL);
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
    expect(http, "", messages[i], 202, "");
    expect(http, VERSION("2025-11-25"), messages[i], 202, "");
    expect(http, MODERN, messages[i], 202, "");
  }
}

HTTP_TEST(what_is_not_json_or_not_json_rpc_is_400) {
  static const struct {
    int code;
    const char *text;
  } rows[] = {{-32700, ""},
              {-32700, "x"},
              {-32700, "{'jsonrpc':'2.0','id':1"},
              {-32700, "{'jsonrpc':'2.0','id':1,'id':1,'method':'ping'}"},
              {-32600, "7"},
              {-32600, "{}"},
              {-32600, "{'id':1,'method':'ping'}"},
              {-32600, "{'jsonrpc':'1.0','id':1,'method':'ping'}"},
              {-32600, "{'jsonrpc':'2.0','id':null,'method':'ping'}"},
              {-32600, "{'jsonrpc':'2.0','id':1,'method':7}"}};
  start(http, "--mcp", NULL, NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    expect_error(http, "", rows[i].text, 400, rows[i].code, NULL);
    expect_error(http, MODERN, rows[i].text, 400, rows[i].code, NULL);
  }
  expect_error(http, "", "{'id':5,'method':'ping'}", 400, -32600, "5");
}

HTTP_TEST(other_methods_paths_and_media_types_are_refused) {
  static const char *const methods[] = {"GET", "DELETE", "PUT", "OPTIONS"};
  start(http, "--mcp", NULL, NULL);
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send_request(client, methods[i], "/mcp", "Accept: text/event-stream\r\n", NULL);
    const struct http_response *response = http_client_response(client);
    http_agent_expect_error(http, response, 405, "method");
    assert_string_equal(http_response_field(response, "Allow"), "POST");
  }
  http_agent_expect_error(
      http, http_client_request(http_agent_connect(http), "POST", "/mcp", NULL, quoted(PING)), 415,
      "media_type");
  http_agent_expect_error(
      http, http_client_request(http_agent_connect(http), "POST", "/execute", JSON, quoted(PING)),
      404, "not_found");
  start(http, "--mcp", "--http-path", "/v1/tools");
  http_agent_expect_status(
      http, http_client_request(http_agent_connect(http), "POST", "/v1/tools", JSON, quoted(PING)),
      200);
}

HTTP_TEST(only_local_origins_are_accepted) {
  static const char *const local[] = {"http://localhost", "https://localhost:6274",
                                      "http://127.0.0.1:80", "http://[::1]:9"};
  static const char *const others[] = {"http://localhost.example", "null",
                                       "https://127.0.0.1.example:80", "http://10.0.0.1"};
  start(http, "--mcp", NULL, NULL);
  for (size_t i = 0; i < 4; i++) {
    expect(http, formatted("Origin: %s\r\n", local[i]), PING, 200, PONG);
    struct http_client *client = posted(http, formatted("Origin: %s\r\n", others[i]), PING);
    http_agent_expect_error(http, http_client_response(client), 403, "origin");
  }
}

HTTP_TEST(a_version_with_another_transport_is_no_choice) {
  const char *arguments[] = {"--mcp=2024-11-05", "--http", "127.0.0.1:1", NULL};
  http->process = agent_process_start(&(struct agent_setup){.arguments = arguments});
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 64);
  assert_non_null(strstr(agent_process_log(http->process), "--mcp=2024-11-05 cannot be used"));
}

HTTP_TEST(health_names_the_mode) {
  start(http, "--mcp", NULL, NULL);
  const struct http_response *response =
      http_client_request(http_agent_connect(http), "GET", "/health", NULL, NULL);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, "\"mode\":\"mcp\""));
  assert_non_null(strstr(response->body, "\"waiting\":0}"));
}

/* --- batches ---------------------------------------------------------------------------------- */

HTTP_TEST(a_batch_of_2025_03_26_is_answered_with_an_array) {
  start(http, "--mcp", NULL, NULL);
  static const char *const fields[] = {"", VERSION("2025-03-26")};
  for (size_t i = 0; i < 2; i++) {
    const char *batch = formatted("[%s,{'jsonrpc':'2.0','method':'notifications/initialized'},%s]",
                                  call("7", "echo a"), PING);
    expect(http, fields[i], batch, 200, formatted("[%s,%s]", PONG, result("7", "a")));
    expect(http, fields[i], "[{'jsonrpc':'2.0','method':'notifications/initialized'}]", 202, "");
    expect_error(http, fields[i], "[]", 400, -32600, NULL);
  }
  expect_error(http, VERSION("2025-06-18"), "[" PING "]", 400, -32600, NULL);
  expect_error(http, VERSION("2025-11-25"), "[" PING "]", 400, -32600, NULL);
  expect_error(http, MODERN, "[" PING "]", 400, -32600, NULL);
  expect_error(http, VERSION("1.0"), "[" PING "]", 400, -32022, NULL);
}

/* Sends a batch of pings. */
static struct http_client *post_batch(struct http_agent *http, int count) {
  struct http_client *client = http_agent_connect(http);
  struct buffer batch = {0};
  for (int i = 0; i < count; i++)
    buffer_add_format(&batch, "%s%s", i == 0 ? "[" : ",", quoted(PING));
  buffer_add(&batch, "]", 2);
  http_client_send_request(client, "POST", "/mcp", JSON, batch.bytes);
  buffer_release(&batch);
  return client;
}

HTTP_TEST(a_batch_has_at_most_100_messages) {
  start(http, "--mcp", NULL, NULL);
  const struct http_response *response = http_client_response(post_batch(http, BATCH_MAX));
  http_agent_expect_status(http, response, 200);
  cJSON *answers = cJSON_Parse(response->body);
  assert_int_equal(cJSON_GetArraySize(answers), BATCH_MAX);
  cJSON_Delete(answers);
  response = http_client_response(post_batch(http, BATCH_MAX + 1));
  http_agent_expect_status(http, response, 400);
  assert_non_null(strstr(response->body, "-32600"));
}

/* --- versions --------------------------------------------------------------------------------- */

static const char *initialize(const char *version) {
  return formatted("{'jsonrpc':'2.0','id':0,'method':'initialize','params':{'protocolVersion':'%s',"
                   "'capabilities':{},'clientInfo':{'name':'a','version':'1'}}}",
                   version);
}

/* Returns the negotiated version; the session's id goes to `session`, which has 33 bytes. */
static const char *negotiate(struct http_agent *http, const char *fields, const char *version,
                             char *session) {
  struct http_client *client = posted(http, fields, initialize(version));
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  const char *id = http_response_field(response, "Mcp-Session-Id");
  assert_non_null(id);
  assert_int_equal(strlen(id), 32);
  assert_int_equal(strspn(id, "0123456789abcdef"), 32);
  strcpy(session, id);
  cJSON *answer = cJSON_Parse(response->body);
  const char *found =
      formatted("%s", cJSON_GetStringValue(cJSON_GetObjectItem(
                          cJSON_GetObjectItem(answer, "result"), "protocolVersion")));
  cJSON_Delete(answer);
  http_agent_disconnect(http, client);
  return found;
}

HTTP_TEST(initialize_negotiates_the_version_whatever_its_header_says) {
  static const char *const rows[][2] = {{"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"},
                                        {"2025-11-25", "2025-11-25"}, {"2024-11-05", "2025-11-25"},
                                        {"2026-07-28", "2025-11-25"}, {"1.0", "2025-11-25"}};
  char session[33];
  start(http, "--mcp", NULL, NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_string_equal(negotiate(http, "", rows[i][0], session), rows[i][1]);
    assert_string_equal(negotiate(http, VERSION("1.0"), rows[i][0], session), rows[i][1]);
  }
  start(http, "--mcp=2024-11-05,2025-06-18", NULL, NULL);
  assert_string_equal(negotiate(http, "", "2025-11-25", session), "2025-06-18");
  assert_string_equal(negotiate(http, "", "2024-11-05", session), "2025-06-18");
}

/* Titles came with 2025-06-18, and annotations with 2025-03-26. */
HTTP_TEST(a_request_has_the_version_of_its_header) {
  static const struct {
    const char *fields;
    bool has_title;
  } rows[] = {{"", false},
              {VERSION("2025-03-26"), false},
              {VERSION("2025-06-18"), true},
              {VERSION("2025-11-25"), true}};
  start(http, "--mcp", NULL, NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct http_client *client =
        posted(http, rows[i].fields, "{'jsonrpc':'2.0','id':1,'method':'tools/list'}");
    const struct http_response *response = http_client_response(client);
    http_agent_expect_status(http, response, 200);
    bool has_title = strstr(response->body, "\"name\":\"execute_command\",\"title\"") != NULL;
    assert_int_equal(has_title, rows[i].has_title);
    assert_non_null(strstr(response->body, "\"annotations\""));
    assert_null(http_response_field(response, "Mcp-Session-Id"));
  }
}

#define UNSUPPORTED(ID, SUPPORTED, REQUESTED)                                                      \
  "{'jsonrpc':'2.0'," ID                                                                           \
  "'error':{'code':-32022,'message':'Unsupported protocol version','data':{"                       \
  "'supported':[" SUPPORTED "],'requested':'" REQUESTED "'}}}"
#define ALL "'2026-07-28','2025-11-25','2025-06-18','2025-03-26'"

HTTP_TEST(a_version_that_is_not_served_is_400) {
  static const char *const future =
      "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{'_meta':{"
      "'io.modelcontextprotocol/protocolVersion':'2999-01-01',"
      "'io.modelcontextprotocol/clientCapabilities':{}}}}";
  start(http, "--mcp", NULL, NULL);
  expect(http, VERSION("2024-11-05"), PING, 400, UNSUPPORTED("'id':1,", ALL, "2024-11-05"));
  expect(http, VERSION("2999-01-01"), PING, 400, UNSUPPORTED("'id':1,", ALL, "2999-01-01"));
  expect(http, VERSION("1.0"), "{'jsonrpc':'2.0','method':'notifications/initialized'}", 400,
         UNSUPPORTED("", ALL, "1.0"));
  expect(http, VERSION("2999-01-01") "Mcp-Method: tools/list\r\n", future, 400,
         UNSUPPORTED("'id':1,", ALL, "2999-01-01"));
  start(http, "--mcp=2025-06-18", NULL, NULL);
  expect(http, VERSION("2025-06-18"), PING, 200, PONG);
  expect(http, VERSION("2025-11-25"), PING, 400,
         UNSUPPORTED("'id':1,", "'2025-06-18'", "2025-11-25"));
  expect(http, "", PING, 400, UNSUPPORTED("'id':1,", "'2025-06-18'", "2025-03-26"));
  expect(http, MODERN_CALL, modern_call("true"), 400,
         UNSUPPORTED("'id':1,", "'2025-06-18'", "2026-07-28"));
  start(http, "--mcp=2026-07-28", NULL, NULL);
  expect(http, VERSION("2025-11-25"), PING, 400,
         UNSUPPORTED("'id':1,", "'2026-07-28'", "2025-11-25"));
  expect_error(http, "", initialize("2025-11-25"), 404, -32601, "0");
}

/* --- modern requests -------------------------------------------------------------------------- */

HTTP_TEST(the_header_of_a_modern_request_agrees_with_its_body) {
  static const char *const wrong[] = {
      "",
      "Mcp-Method: tools/call\r\nMcp-Name: execute_command\r\n",
      VERSION("2025-11-25") "Mcp-Method: tools/call\r\nMcp-Name: execute_command\r\n",
      MODERN "Mcp-Name: execute_command\r\n",
      MODERN "Mcp-Method: tools/list\r\nMcp-Name: execute_command\r\n",
      MODERN "Mcp-Method: Tools/Call\r\nMcp-Name: execute_command\r\n",
      MODERN "Mcp-Method: tools/call\r\n",
      MODERN "Mcp-Method: tools/call\r\nMcp-Name: read_file\r\n",
      MODERN "Mcp-Method: tools/call\r\nMcp-Name: Execute_command\r\n",
      MODERN "Mcp-Method: tools/call\r\nMcp-Name: =?base64?cmVhZF9maWxl?=\r\n",
      MODERN "Mcp-Method: tools/call\r\nMcp-Name: =?base64?ZXhlY3V0ZV9jb21tYW5k!?=\r\n",
      MODERN "Mcp-Method: tools/call\r\nMcp-Name: =?base64?ZXhlY3V0ZV9jb21tYW5kMg==?=\r\n",
      MODERN "Mcp-Method: tools/call\r\nMcp-Name: =?base64?ZXhlY3V0ZV9jb21tYW4=?=\r\n",
      MODERN "Mcp-Method: tools/call\r\nMcp-Name: ZXhlY3V0ZV9jb21tYW5k\r\n"};
  static const char *const right[] = {
      MODERN_CALL,
      "mcp-protocol-version:2026-07-28\r\nMCP-METHOD:tools/call\r\nmcp-name:  "
      "execute_command  \r\n",
      MODERN "Mcp-Method: tools/call\r\nMcp-Name: =?base64?ZXhlY3V0ZV9jb21tYW5k?=\r\n"};
  start(http, "--mcp", NULL, NULL);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    expect_error(http, wrong[i], modern_call(": >f"), 400, -32020, "1");
  assert_false(directory_has(&http->directory, "f"));
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    struct http_client *client = posted(http, right[i], modern_call("echo hi"));
    const struct http_response *response = http_client_response(client);
    http_agent_expect_status(http, response, 200);
    assert_non_null(strstr(response->body, "\"resultType\":\"complete\""));
    assert_null(http_response_field(response, "Mcp-Session-Id"));
  }
}

HTTP_TEST(a_modern_request_without_its_meta_is_400) {
  static const char *const params[] = {
      "", ",'params':{}", ",'params':{'_meta':{}}",
      ",'params':{'_meta':{'io.modelcontextprotocol/clientCapabilities':{}}}",
      ",'params':{'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28'}}"};
  start(http, "--mcp", NULL, NULL);
  for (size_t i = 0; i < sizeof params / sizeof *params; i++)
    expect_error(http, MODERN "Mcp-Method: tools/list\r\n",
                 formatted("{'jsonrpc':'2.0','id':1,'method':'tools/list'%s}", params[i]), 400,
                 -32602, "1");
}

HTTP_TEST(an_unknown_modern_method_is_404_and_wrong_parameters_are_400) {
  static const char *const methods[] = {"initialize", "ping", "resources/list", "no/such/method"};
  start(http, "--mcp", NULL, NULL);
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    expect_error(
        http, formatted(MODERN "Mcp-Method: %s\r\n", methods[i]),
        formatted("{'jsonrpc':'2.0','id':1,'method':'%s','params':{" META "}}", methods[i]), 404,
        -32601, "1");
  expect_error(http, MODERN "Mcp-Method: tools/call\r\nMcp-Name: none\r\n",
               "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'none'," META "}}",
               400, -32602, "1");
  expect_error(http, MODERN "Mcp-Method: tools/call\r\n",
               "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{" META "}}", 400, -32602,
               "1");
}

HTTP_TEST(errors_of_legacy_requests_are_200) {
  start(http, "--mcp", NULL, NULL);
  expect_error(http, "", "{'jsonrpc':'2.0','id':1,'method':'no/such/method'}", 200, -32601, "1");
  expect_error(http, VERSION("2025-11-25"),
               "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'none'}}", 200,
               -32602, "1");
  expect_error(http, "", "{'jsonrpc':'2.0','id':1,'method':'server/discover'}", 200, -32601, "1");
}

/* --- events ----------------------------------------------------------------------------------- */

static void expect_line(struct http_client *client, const char *expected) {
  const char *line = http_client_line(client);
  assert_string_equal(line != NULL ? line : "the end", quoted(expected));
}

static void expect_stream(struct http_agent *http, struct http_client *client) {
  const struct http_response *response = http_client_begin_response(client);
  http_agent_expect_status(http, response, 200);
  assert_string_equal(http_response_field(response, "Content-Type"), "text/event-stream");
  assert_string_equal(http_response_field(response, "X-Accel-Buffering"), "no");
}

static void expect_last_event(struct http_client *client, const char *message) {
  expect_line(client, "event: message");
  expect_line(client, formatted("data: %s", message));
  expect_line(client, "");
  assert_null(http_client_line(client));
  assert_true(http_client_is_whole(client));
}

HTTP_TEST(a_response_is_a_stream_if_the_client_accepts_one_and_sent_a_token) {
  static const char accepts[] = "Accept: application/json, text/event-stream;q=0.5\r\n";
  start(http, "--mcp", NULL, NULL);
  expect(http, "", call_with_token("1", "echo a"), 200, result("1", "a"));
  expect(http, "Accept: */*\r\n", call_with_token("1", "echo a"), 200, result("1", "a"));
  expect(http, accepts, call("1", "echo a"), 200, result("1", "a"));
  struct http_client *client = posted(http, accepts, call_with_token("1", "echo a"));
  expect_stream(http, client);
  expect_last_event(client, result("1", "a"));
  /* The connection serves the next request. */
  post(client, accepts, PING);
  expect_response(http, client, 200, PONG);
}

HTTP_TEST(progress_comes_before_the_response) {
  start(http, "--mcp", NULL, NULL);
  struct http_client *client = posted(http, "Accept: text/event-stream\r\n",
                                      call_with_token("1", "echo a; " GATE("g") "echo b"));
  expect_stream(http, client);
  expect_line(client, "event: message");
  const char *line = http_client_line(client);
  assert_non_null(line);
  assert_non_null(strstr(line, "\"method\":\"notifications/progress\",\"params\":{"
                               "\"progressToken\":\"t\",\"progress\":0."));
  assert_non_null(strstr(line, "\"message\":\"a\"}}"));
  expect_line(client, "");
  http_agent_open_gate(http, "g");
  do
    line = http_client_line(client);
  while (line != NULL && strstr(line, "\"result\"") == NULL);
  assert_string_equal(line != NULL ? line : "the end",
                      quoted(formatted("data: %s", result("1", "a\\nb"))));
  expect_line(client, "");
  assert_null(http_client_line(client));
  assert_true(http_client_is_whole(client));
}

HTTP_TEST(a_batch_with_a_token_is_one_event) {
  start(http, "--mcp", NULL, NULL);
  struct http_client *client =
      posted(http, "Accept: text/event-stream\r\n",
             formatted("[%s,%s]", call_with_token("1", "echo a"), call("2", "echo b")));
  expect_stream(http, client);
  expect_line(client, "event: message");
  const char *line = http_client_line(client);
  assert_non_null(line);
  assert_int_equal(strncmp(line, "data: [{", 8), 0);
  assert_non_null(strstr(line, quoted(result("1", "a"))));
  assert_non_null(strstr(line, quoted(result("2", "b"))));
}

/* --- sessions and cancels --------------------------------------------------------------------- */

HTTP_TEST(each_session_has_its_id_and_every_id_is_served) {
  char first[33], second[33];
  start(http, "--mcp", NULL, NULL);
  (void)negotiate(http, "", "2025-11-25", first);
  (void)negotiate(http, formatted("Mcp-Session-Id: %s\r\n", first), "2025-11-25", second);
  assert_string_not_equal(first, second);
  expect(http, formatted("Mcp-Session-Id: %s\r\n", first), PING, 200, PONG);
  expect(http, "Mcp-Session-Id: unknown\r\n", PING, 200, PONG);
  expect(http, "Last-Event-ID: 7\r\n", PING, 200, PONG);
}

/* Waits until the command of a call runs. */
static struct http_client *post_sleep(struct http_agent *http, const char *fields,
                                      const char *seconds) {
  struct http_client *client =
      posted(http, fields, call_with_token("1", formatted("exec sleep %s", seconds)));
  (void)proc_wait_for(formatted("sleep %s", seconds), WAIT_BOUND_MS);
  return client;
}

HTTP_TEST(a_cancel_ends_the_calls_of_its_session) {
  start(http, "--mcp", NULL, NULL);
  struct http_client *a = post_sleep(http, "Mcp-Session-Id: a\r\n", "600.31");
  struct http_client *b = post_sleep(http, "Mcp-Session-Id: b\r\n", "600.32");
  struct http_client *none = post_sleep(http, "", "600.33");
  expect(http, "Mcp-Session-Id: a\r\n", cancel("1"), 202, "");
  expect_response(http, a, 202, "");
  assert_int_equal(proc_find("sleep 600.31"), 0);
  expect(http, "", cancel("1.0"), 202, "");
  expect_response(http, none, 202, "");
  assert_int_equal(proc_find("sleep 600.33"), 0);
  assert_int_not_equal(proc_find("sleep 600.32"), 0);
  expect(http, "Mcp-Session-Id: b\r\n", cancel("'1'"), 202, "");
  assert_int_not_equal(proc_find("sleep 600.32"), 0);
  expect(http, "Mcp-Session-Id: b\r\n", cancel("1"), 202, "");
  expect_response(http, b, 202, "");
}

HTTP_TEST(the_stream_of_a_cancelled_call_ends_without_a_response) {
  start(http, "--mcp", NULL, NULL);
  struct http_client *client = post_sleep(http, "Accept: text/event-stream\r\n", "600.34");
  expect_stream(http, client);
  expect(http, "", cancel("1"), 202, "");
  for (const char *line; (line = http_client_line(client)) != NULL;)
    assert_null(strstr(line, "\"id\""));
  assert_true(http_client_is_whole(client));
}

HTTP_TEST(a_waiting_call_can_be_cancelled) {
  start(http, "--mcp", "--concurrency", "1");
  struct http_client *first = posted(http, "", call("1", ": >begun; " GATE("g")));
  http_agent_wait_file(http, "begun");
  struct http_client *second = posted(http, "", call("2", ": >f"));
  wait_for_waiting(http);
  expect(http, "", cancel("2"), 202, "");
  expect_response(http, second, 202, "");
  http_agent_open_gate(http, "g");
  expect_response(http, first, 200, result("1", "(no output)"));
  assert_false(directory_has(&http->directory, "f"));
}

HTTP_TEST(a_legacy_call_goes_on_when_its_client_disconnects) {
  start(http, "--mcp", NULL, NULL);
  struct http_client *json = posted(http, "", call("1", ": >a-begun; " GATE("a") ": >a-ended"));
  struct http_client *events = posted(http, "Accept: text/event-stream\r\n",
                                      call_with_token("2", ": >b-begun; " GATE("b") ": >b-ended"));
  http_agent_wait_file(http, "a-begun");
  http_agent_wait_file(http, "b-begun");
  http_agent_disconnect(http, json);
  http_agent_disconnect(http, events);
  expect(http, "", PING, 200, PONG);
  http_agent_open_gate(http, "a");
  http_agent_open_gate(http, "b");
  http_agent_wait_file(http, "a-ended");
  http_agent_wait_file(http, "b-ended");
  expect(http, "", PING, 200, PONG);
}

HTTP_TEST(a_modern_call_is_cancelled_when_its_client_disconnects) {
  start(http, "--mcp", NULL, NULL);
  struct http_client *json = posted(http, MODERN_CALL, modern_call("exec sleep 600.35"));
  struct http_client *events =
      posted(http, MODERN_CALL "Accept: text/event-stream\r\n",
             "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'execute_command',"
             "'arguments':{'command':'exec sleep 600.36','timeout':100},'_meta':{'progressToken':1,"
             "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
             "'io.modelcontextprotocol/clientCapabilities':{}}}}");
  (void)proc_wait_for("sleep 600.35", WAIT_BOUND_MS);
  (void)proc_wait_for("sleep 600.36", WAIT_BOUND_MS);
  expect_stream(http, events);
  http_agent_disconnect(http, json);
  http_agent_disconnect(http, events);
  assert_true(proc_wait_gone("sleep 600.35", WAIT_BOUND_MS));
  assert_true(proc_wait_gone("sleep 600.36", WAIT_BOUND_MS));
  expect(http, "", PING, 200, PONG);
}

HTTP_TEST(a_modern_cancel_is_ignored) {
  start(http, "--mcp", NULL, NULL);
  struct http_client *modern =
      posted(http, MODERN_CALL, modern_call(": >a-begun; " GATE("a") "echo a"));
  struct http_client *legacy = posted(http, "", call("1", ": >b-begun; " GATE("b") "echo b"));
  http_agent_wait_file(http, "a-begun");
  http_agent_wait_file(http, "b-begun");
  expect(http, MODERN, cancel("1"), 202, "");
  http_agent_open_gate(http, "a");
  http_agent_open_gate(http, "b");
  http_agent_expect_status(http, http_client_response(modern), 200);
  expect_response(http, legacy, 200, result("1", "b"));
}

/* --- limits and the end ----------------------------------------------------------------------- */

HTTP_TEST(beyond_48_calls_one_is_busy_and_short_requests_are_served) {
  start(http, "--mcp", NULL, NULL);
  for (int i = 0; i < LONG_MAX; i++)
    (void)posted(http, "", call("1", "exec sleep 600.37"));
  for (int i = 0; i < LONG_MAX; i++)
    expect(http, "", PING, 200, PONG);
  struct http_client *client = posted(http, "", call("2", ": >f"));
  const struct http_response *response = http_client_response(client);
  http_agent_expect_error(http, response, 503, "busy");
  assert_string_equal(http_response_field(response, "Retry-After"), "1");
  expect(http, "", cancel("1"), 202, "");
  for (int i = 0; i < LONG_MAX; i++)
    expect_response(http, http->clients[i], 202, "");
  expect(http, "", call("2", "echo a"), 200, result("2", "a"));
  assert_false(directory_has(&http->directory, "f"));
}

static bool has_input(void *context) {
  return http_client_has_input(context);
}

/* Each client asks for an image of 5 MB, in Base64 6.7 MB, and does not read. The fourth call would
   begin before the third response is sent. */
HTTP_TEST(calls_wait_while_clients_do_not_read_16_mib) {
  enum { CLIENTS = 8, UNREAD = 3 };
  static const char read_file[] =
      "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'read_file','arguments':"
      "{'path':'image'}}}";
  struct http_client *clients[CLIENTS];
  static char image[5000000] = "\x89PNG\r\n\x1A\n";
  FILE *file = fopen(directory_path(&http->directory, "image"), "w");
  assert_non_null(file);
  assert_int_equal(fwrite(image, 1, sizeof image, file), sizeof image);
  assert_int_equal(fclose(file), 0);
  start(http, "--mcp", "--concurrency", "1");
  for (int i = 0; i < CLIENTS; i++)
    clients[i] = posted(http, "", read_file);
  assert_true(wait_until(has_input, clients[UNREAD - 1], WAIT_BOUND_MS));
  assert_int_equal(waiting(http), CLIENTS - UNREAD);
  expect(http, "", PING, 200, PONG);
  for (int i = 0; i < CLIENTS; i++) {
    const struct http_response *response = http_client_response(clients[i]);
    http_agent_expect_status(http, response, 200);
    assert_true(response->body_length > 6000000);
  }
  if (agent_process_is_shipped())
    assert_in_range(proc_status_kib(agent_process_pid(http->process), "VmHWM"), 1, 64 * 1024);
}

HTTP_TEST(a_signal_ends_the_calls_which_are_answered) {
  static const int signals[] = {SIGTERM, SIGINT};
  for (size_t i = 0; i < 2; i++) {
    start(http, "--mcp", "--concurrency", "1");
    struct http_client *running = posted(http, "", call("1", "exec sleep 600.38"));
    (void)proc_wait_for("sleep 600.38", WAIT_BOUND_MS);
    struct http_client *waits = posted(http, "", call("2", ": >f"));
    wait_for_waiting(http);
    assert_int_equal(kill(agent_process_pid(http->process), signals[i]), 0);
    const struct http_response *response = http_client_response(running);
    http_agent_expect_status(http, response, 200);
    assert_non_null(strstr(response->body, "\"isError\":true"));
    response = http_client_response(waits);
    http_agent_expect_status(http, response, 200);
    assert_non_null(strstr(response->body, "Error: not run: "));
    assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 128 + signals[i]);
    assert_false(directory_has(&http->directory, "f"));
    assert_string_equal(agent_process_output(http->process), "");
  }
}

/* Without an engine, nothing may be cancelled anymore. */
HTTP_TEST(a_second_signal_ends_the_agent_while_clients_wait) {
  start(http, "--mcp", NULL, NULL);
  (void)posted(http, MODERN_CALL, modern_call("trap : TERM; : >begun; while :; do sleep 1; done"));
  (void)posted(http, "", call("1", "trap : TERM; : >begun2; while :; do sleep 1; done"));
  http_agent_wait_file(http, "begun");
  http_agent_wait_file(http, "begun2");
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  agent_process_wait_log(http->process, "stopping: SIGTERM");
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 128 + SIGTERM);
}
