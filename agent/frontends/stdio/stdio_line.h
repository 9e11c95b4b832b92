#ifndef AGENT_FRONTENDS_STDIO_STDIO_LINE_H
#define AGENT_FRONTENDS_STDIO_STDIO_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "agent/engine/execution_result.h"
#include "agent/tools/tool.h"
#include "base/buffer.h"
#include "base/error.h"
#include "wire/json.h"

/*
 * The lines of the frontend: what one asks for, and those that answer. Pure.
 *
 *   stdio_request_parse(&request, &rules, line, length)
 *   stdio_answer_…(out, &request.from, …)
 *   stdio_request_release(&request)
 */

/* What a request looks like, and its answer. A line with `jsonrpc` is JSON-RPC; the dialect of
   every other one has no name in the field. */
enum stdio_dialect {
  STDIO_PLAIN,    /* {"id":…,"method":…,"params":…} */
  STDIO_JSON_RPC, /* the same with "jsonrpc":"2.0" */
  STDIO_RUNNER    /* a call's arguments alone, and {"output":…,"metadata":…}: tool-runner */
};

enum stdio_method {
  STDIO_INVALID, /* answered with an error */
  STDIO_CALL,    /* of a tool */
  STDIO_INFO,
  STDIO_PING,
  STDIO_CANCEL,
  STDIO_SHUTDOWN
};

/* Codes of errors; those of JSON-RPC 2.0 but for the first. */
enum {
  STDIO_ERROR = -1,
  STDIO_PARSE_ERROR = -32700,
  STDIO_INVALID_REQUEST = -32600,
  STDIO_METHOD_NOT_FOUND = -32601,
  STDIO_INVALID_PARAMS = -32602
};

/* Who is answered. The id is as it came, inside the line, or static; text NULL: a notification,
   which has no answer. A runner has none, and is answered. */
struct stdio_address {
  enum stdio_dialect dialect;
  struct json_member id;
};

struct stdio_rules {
  const struct tool *tool; /* the only one; NULL: all */
  bool speaks_json_rpc;    /* an earlier line was JSON-RPC: so is what is no JSON */
};

struct stdio_request {
  struct stdio_address from;
  enum stdio_method method;
  cJSON *tree;           /* owned; the rest points into it */
  struct buffer outline; /* owned; of a line that cannot be parsed: its id is in it */

  const struct tool *tool; /* of a call */
  cJSON *arguments;        /* of it; NULL: none */
  bool wants_progress;

  struct json_member cancelled; /* of a cancel: the id, inside the line */

  int code; /* of an invalid one */
  struct error error;
};

/* The line must outlive the request. */
void stdio_request_parse(struct stdio_request *self, const struct stdio_rules *rules,
                         const char *line, size_t length);

/* An invalid one, of a line that cannot be parsed, of which this is the outline (line_reader.h): it
   is answered under its id, and in its dialect, where these can be read. */
void stdio_request_init_error(struct stdio_request *self, const struct stdio_rules *rules,
                              const char *outline, size_t length, const struct error *error);

/* The one of a runner, whose tool this is. No bytes but white space are no arguments. */
void stdio_request_parse_arguments(struct stdio_request *self, const struct tool *tool,
                                   const char *text, size_t length);
void stdio_request_release(struct stdio_request *self);

/* Each adds one line, with its line ending. */
void stdio_answer_error(struct buffer *out, const struct stdio_address *to, int code,
                        const char *message, size_t length);

/* The result is this JSON: "null", "{}". */
void stdio_answer_json(struct buffer *out, const struct stdio_address *to, const char *json);

/* A call that has not run: its arguments were refused, or it was cancelled. The reason begins with
   TOOL_ERROR. */
void stdio_answer_refusal(struct buffer *out, const struct stdio_address *to, const char *reason,
                          size_t length);

/* A call that has run. Returns whether the tool failed. */
bool stdio_answer_result(struct buffer *out, const struct stdio_address *to,
                         const struct tool_call *call, const struct execution_result *end);

/* `tool`: the only one; NULL: all. */
void stdio_answer_info(struct buffer *out, const struct stdio_address *to, const struct tool *tool,
                       const struct tool_settings *settings, const char *version);

/* How far a call is, of 99 at the most. */
void stdio_answer_progress(struct buffer *out, const struct stdio_address *to, unsigned percent,
                           const char *message, size_t length);

#endif
