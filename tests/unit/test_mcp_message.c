/* Lines -> messages: what is a request, and its id byte for byte. */

#include "agent/doors/mcp/message.h"

#include "tests/support/quoted.h"
#include "tests/test.h"

static char text[256 * 1024];

/* "request id=1 ping", and so on, for each message of the line; of an invalid one the reason. */
static const char *classified(const char *line_text) {
  static const char *const kinds[] = {"request", "notification", "response", "invalid"};
  struct mcp_line line;
  struct mcp_message message;
  struct error error;
  /* In memory of its own length, for the sanitizer. */
  size_t length = strlen(line_text), at = 0;
  char *copy = malloc(length > 0 ? length : 1);
  assert_non_null(copy);
  memcpy(copy, line_text, length);
  text[0] = '\0';
  if (mcp_line_parse(&line, copy, length, &error) != 0) {
    (void)snprintf(text, sizeof text, "error: %s", error.text);
    free(copy);
    return text;
  }
  while (mcp_line_next(&line, &message)) {
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at > 0 ? "; " : "",
                           kinds[message.kind]);
    if (message.id.text != NULL)
      at += (size_t)snprintf(text + at, sizeof text - at, " id=%.*s", (int)message.id.length,
                             message.id.text);
    if (message.token.text != NULL)
      at += (size_t)snprintf(text + at, sizeof text - at, " token=%.*s", (int)message.token.length,
                             message.token.text);
    if (message.target.text != NULL)
      at += (size_t)snprintf(text + at, sizeof text - at, " target=%.*s",
                             (int)message.target.length, message.target.text);
    const char *rest = message.kind == MCP_INVALID ? message.reason : message.method;
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%s%s", rest != NULL ? " " : "",
                           rest != NULL ? rest : "", message.is_modern ? " modern" : "",
                           message.params_unusable ? " unusable" : "");
  }
  mcp_line_release(&line);
  free(copy);
  return text;
}

static void expect(const char *line, const char *expected) {
  assert_string_equal(classified(quoted(line)), quoted(expected));
}

TEST(a_message_with_an_id_is_a_request) {
  expect("{'jsonrpc':'2.0','id':1,'method':'ping'}", "request id=1 ping");
  expect(" {'method':'ping', 'id' : 0 ,'jsonrpc':'2.0'}\r", "request id=0 ping");
  expect("{'jsonrpc':'2.0','id':1,'method':'x','result':{}}", "request id=1 x");
}

TEST(a_message_without_an_id_is_a_notification) {
  expect("{'jsonrpc':'2.0','method':'notifications/initialized'}",
         "notification notifications/initialized");
  expect("{'jsonrpc':'2.0','method':'tools/call','params':[1]}",
         "notification tools/call unusable");
}

TEST(an_answer_is_a_response) {
  expect("{'jsonrpc':'2.0','id':1,'result':{}}", "response id=1");
  expect("{'jsonrpc':'2.0','id':null,'error':{}}", "response");
}

TEST(ids_are_kept_byte_for_byte) {
  static const char *const ids[] = {"0",
                                    "-1",
                                    "9007199254740993",
                                    "123456789012345678901234567890",
                                    "1.0",
                                    "''",
                                    "'1'",
                                    "'a\\u0062\\n'",
                                    "'\\u0000'",
                                    "'id'",
                                    "'\xF0\x9F\x98\x80'",
                                    "'\\ud83d\\ude00'"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    expect(formatted("{'params':{'id':7,'x':'\\'id\\':8'},'jsonrpc':'2.0','id':%s,'method':'m'}",
                     ids[i]),
           formatted("request id=%s m", ids[i]));
    expect(formatted("{'jsonrpc':'2.0','\\u0069d':%s,'method':'m'}", ids[i]),
           formatted("request id=%s m", ids[i]));
  }
}

TEST(other_ids_are_invalid_and_not_echoed) {
  static const char *const ids[] = {"null", "1.5", "1e3", "true", "[1]", "{}"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
    expect(formatted("{'jsonrpc':'2.0','id':%s,'method':'m'}", ids[i]),
           "invalid id: expected a string or an integer");
}

TEST(what_is_no_jsonrpc_is_invalid) {
  expect("{'id':1,'method':'m'}", "invalid id=1 jsonrpc: expected '2.0'");
  expect("{'jsonrpc':'1.0','id':1,'method':'m'}", "invalid id=1 jsonrpc: expected '2.0'");
  expect("{'jsonrpc':2.0,'id':[],'method':'m'}", "invalid jsonrpc: expected '2.0'");
  expect("{'jsonrpc':'2.0','id':1}", "invalid id=1 method: expected a string");
  expect("{'jsonrpc':'2.0','id':1,'method':5}", "invalid id=1 method: expected a string");
  expect("{'jsonrpc':'2.0','method':null}", "invalid method: expected a string");
  expect("42", "invalid expected an object");
  expect("'text'", "invalid expected an object");
}

TEST(what_is_no_json_is_an_error) {
  static const char *const lines[] = {"x",
                                      "{",
                                      "{'jsonrpc':'2.0'} {}",
                                      "{'jsonrpc':'2.0','id':1,'method':'m'",
                                      "{'a':01}",
                                      "{'a':'\xFF'}",
                                      "{'a':'\t'}",
                                      "[1,]"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strncmp(classified(quoted(lines[i])), "error: ", 7) != 0)
      fail_msg("%s: %s", lines[i], text);
}

TEST(a_name_twice_is_an_error_at_any_depth) {
  static const char *const lines[] = {"{'id':1,'id':2,'jsonrpc':'2.0','method':'m'}",
                                      "{'params':{'arguments':{'a':1,'\\u0061':2}}}",
                                      "[{'a':[{'b':1},{'b':1,'b':2}]}]"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strstr(classified(quoted(lines[i])), "expected once, got it twice") == NULL)
      fail_msg("%s: %s", lines[i], text);
  expect("{'jsonrpc':'2.0','method':'m','params':{'a':[{'b':1},{'b':1}],'b':{'a':1}}}",
         "notification m");
}

TEST(nesting_beyond_64_is_an_error) {
  char line[256] = "";
  for (int i = 0; i < 65; i++)
    strcat(line, "[");
  for (int i = 0; i < 65; i++)
    strcat(line, "]");
  assert_non_null(strstr(classified(line), "nesting"));
  line[64] = ']';
  line[128] = '\0';
  assert_string_equal(classified(line), "invalid expected an object");
}

TEST(tokens_and_targets_are_strings_or_integers) {
  expect("{'jsonrpc':'2.0','id':1,'method':'m','params':{'_meta':{'progressToken':'p'}}}",
         "request id=1 token='p' m");
  expect("{'jsonrpc':'2.0','id':1,'method':'m','params':{'_meta':{'x':{'progressToken':2},"
         "'progressToken':18446744073709551616}}}",
         "request id=1 token=18446744073709551616 m");
  static const char *const others[] = {"null", "0.5", "false", "{}", "['p']"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    expect(formatted("{'jsonrpc':'2.0','id':1,'method':'m','params':{'_meta':{'progressToken':%s},"
                     "'requestId':%s}}",
                     others[i], others[i]),
           "request id=1 m");
  expect("{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'reason':'no',"
         "'requestId':12}}",
         "notification target=12 notifications/cancelled");
}

TEST(a_modern_request_names_its_version_client_or_capabilities) {
  static const char *const names[] = {"protocolVersion", "clientCapabilities", "clientInfo"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    expect(formatted("{'jsonrpc':'2.0','id':1,'method':'m','params':{'_meta':{'io."
                     "modelcontextprotocol/%s':null}}}",
                     names[i]),
           "request id=1 m modern");
  expect("{'jsonrpc':'2.0','id':1,'method':'m','params':{'_meta':{'io.modelcontextprotocol/"
         "logLevel':'info'}}}",
         "request id=1 m");
  expect("{'jsonrpc':'2.0','id':1,'method':'m','params':{'_meta':7}}", "request id=1 m");
}

TEST(params_are_an_object_or_nothing) {
  static const char *const others[] = {"[]", "[1]", "'x'", "5", "true"};
  expect("{'jsonrpc':'2.0','id':1,'method':'m','params':null}", "request id=1 m");
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    expect(formatted("{'jsonrpc':'2.0','id':1,'method':'m','params':%s}", others[i]),
           "request id=1 m unusable");
}

TEST(a_batch_is_its_messages) {
  expect("[ {'jsonrpc':'2.0','id':1,'method':'a'} , 7,[{'id':9}],"
         "{'method':'b','jsonrpc':'2.0'},{'jsonrpc':'2.0','id':'\\u0031','method':'c'}]",
         "request id=1 a; invalid expected an object; invalid expected an object; "
         "notification b; request id='\\u0031' c");
  expect("\xEF\xBB\xBF[{'jsonrpc':'2.0','id':'A','method':'a'},{'jsonrpc':'2.0','id':'B','method':'"
         "b'}]",
         "request id='A' a; request id='B' b");
  expect("[]", "");
}
