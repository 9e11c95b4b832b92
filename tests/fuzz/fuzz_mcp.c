/* Any bytes as lines from an MCP client. Each request is answered by one line of JSON-RPC with its
   id, byte for byte; a notification is not answered. Over HTTP, each line is a body, and its first
   bytes are also the header fields. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "agent/frontends/call_ids.h"
#include "agent/frontends/mcp/http_rules.h"
#include "agent/frontends/mcp/session.h"
#include "tests/fuzz/fuzz.h"

static void check_answer(const struct mcp_message *message, const struct buffer *answer) {
  static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":";
  demand(memchr(answer->bytes, '\n', answer->length) == NULL);
  cJSON *tree = cJSON_ParseWithLength(answer->bytes, answer->length);
  demand(cJSON_IsObject(tree));
  demand(cJSON_HasObjectItem(tree, "result") != cJSON_HasObjectItem(tree, "error"));
  if (message != NULL && message->id.text != NULL) {
    demand(answer->length > sizeof head + message->id.length);
    demand(memcmp(answer->bytes, head, sizeof head - 1) == 0);
    demand(memcmp(answer->bytes + sizeof head - 1, message->id.text, message->id.length) == 0);
  }
  cJSON_Delete(tree);
}

/* The id is found by a separate search. */
static void check_id(struct json_member id) {
  static struct call_ids ids;
  struct call_id entry;
  call_ids_add(&ids, &entry, NULL, id, &entry);
  demand(call_ids_find(&ids, NULL, id) == &entry);
  call_ids_remove(&ids, &entry);
  demand(call_ids_find(&ids, NULL, id) == NULL);
}

static void take_message(struct mcp_session *session, const struct mcp_message *message,
                         bool in_batch) {
  struct buffer answer = {0};
  struct mcp_action action = mcp_session_handle(session, message, in_batch, &answer);
  demand((action.kind == MCP_ANSWER) == (answer.length > 0));
  demand(message->kind == MCP_REQUEST || message->kind == MCP_INVALID || answer.length == 0);
  demand(action.kind != MCP_CALL || (message->kind == MCP_REQUEST && action.tool != NULL));
  demand(action.kind != MCP_CANCEL || message->kind == MCP_NOTIFICATION);
  if (action.kind == MCP_CANCEL)
    check_id(action.id);
  if (answer.length > 0)
    check_answer(message, &answer);
  buffer_release(&answer);
}

/* A message that is checked with an error must not be handled, and has an answer. */
static void check_fields(const struct mcp_session *session, const struct mcp_line *line,
                         const struct mcp_http_fields *fields) {
  struct mcp_session copy = *session;
  struct buffer answer = {0};
  struct mcp_http_verdict verdict = mcp_http_check(&copy, fields, line, &answer);
  demand((verdict.error != MCP_NO_ERROR) == (answer.length > 0));
  demand(verdict.error == MCP_NO_ERROR || mcp_http_status(verdict.error, verdict.is_modern) == 400);
  if (answer.length > 0)
    check_answer(NULL, &answer);
  buffer_release(&answer);
}

static void take_body(const struct mcp_session *session, const struct mcp_line *line,
                      const char *text, size_t length) {
  char field[64];
  (void)snprintf(field, sizeof field, "%.*s", (int)(length < 60 ? length : 60), text);
  check_fields(session, line, &(struct mcp_http_fields){0});
  check_fields(session, line, &(struct mcp_http_fields){field, field, field});
  check_fields(session, line, &(struct mcp_http_fields){"2026-07-28", "tools/call", field});
  (void)snprintf(field, sizeof field, "=?base64?%.*s?=", (int)(length < 48 ? length : 48), text);
  check_fields(session, line, &(struct mcp_http_fields){"2026-07-28", "tools/call", field});
}

static void take_line(struct mcp_session *session, const char *text, size_t length) {
  struct mcp_line line;
  struct mcp_message message;
  struct error error;
  struct buffer answer = {0};
  if (mcp_line_parse(&line, text, length, &error) != 0)
    return;
  take_body(session, &line, text, length);
  if (!line.is_batch || mcp_session_accept_batch(session, line.count, &answer)) {
    int count = 0;
    for (; mcp_line_next(&line, &message); count++)
      take_message(session, &message, line.is_batch);
    demand(count == line.count);
  } else {
    check_answer(NULL, &answer);
  }
  buffer_release(&answer);
  mcp_line_release(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const struct tool_settings tools = {
      .limits = {.timeout_default = 30, .timeout_maximum = 600}, .directory = "/", .shell = "sh"};
  struct mcp_session session = {
      .program_version = "1", .versions = MCP_VERSIONS_ALL, .tools = &tools};
  mcp_session_begin(&session);
  const char *at = (const char *)data, *end = at + size;
  while (at < end) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    size_t length = (size_t)((newline != NULL ? newline : end) - at);
    /* In memory of the exact size, for the sanitizer. */
    char *line = malloc(length > 0 ? length : 1);
    demand(line != NULL);
    memcpy(line, at, length);
    take_line(&session, line, length);
    free(line);
    at += length + 1;
  }
  return 0;
}
