/* Lines become messages, with their ids byte for byte. */

#include "agent/frontends/mcp/message.h"

#include "tests/support/quoted.h"
#include "tests/test.h"

static char text[256 * 1024];

/* Returns text such as "request id=1 ping" for each message of the line, or the reason of an
   error. */
static const char *classified(const char *line_text) {
  static const char *const kinds[] = {"request", "notification", "response", "invalid"};
  struct mcp_line line;
  struct mcp_message message;
  struct error error;
  /* Its memory has exactly its length, for the sanitizer. */
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

TEST(messages_that_are_not_json_rpc_are_invalid) {
  expect("{'id':1,'method':'m'}", "invalid id=1 jsonrpc: expected '2.0'");
  expect("{'jsonrpc':'1.0','id':1,'method':'m'}", "invalid id=1 jsonrpc: expected '2.0'");
  expect("{'jsonrpc':2.0,'id':[],'method':'m'}", "invalid jsonrpc: expected '2.0'");
  expect("{'jsonrpc':'2.0','id':1}", "invalid id=1 method: expected a string");
  expect("{'jsonrpc':'2.0','id':1,'method':5}", "invalid id=1 method: expected a string");
  expect("{'jsonrpc':'2.0','method':null}", "invalid method: expected a string");
  expect("42", "invalid expected an object");
  expect("'text'", "invalid expected an object");
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
