#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "agent/engine/execution_result.h"
#include "agent/tools/tool.h"
#include "base/buffer.h"
#include "base/error.h"
#include "wire/json.h"

/*
 * Parses the requests of `--stdio` and `tool-runner`, and writes their answers. Pure.
 *
 *   stdio_request_parse(&request, &rules, line, length)
 *   stdio_answer_…(out, &request.from, …)
 *   stdio_request_release(&request)
 */

/* The form of a request and its answer. A line with `jsonrpc` is JSON-RPC. */
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

/* Error codes: those of JSON-RPC 2.0, except the first. */
enum {
  STDIO_ERROR = -1,
  STDIO_PARSE_ERROR = -32700,
  STDIO_INVALID_REQUEST = -32600,
  STDIO_METHOD_NOT_FOUND = -32601,
  STDIO_INVALID_PARAMS = -32602
};

/* How a request is answered. The id is part of the line, or static. Without a text, a request of
   JSON-RPC is a notification and gets no answer, and a plain answer has no id. */
struct stdio_address {
  enum stdio_dialect dialect;
  struct json_member id;
};

struct stdio_rules {
  const struct tool *tool; /* the only one; NULL: all */
  bool speaks_json_rpc;    /* an earlier line was JSON-RPC, so a line that is not JSON is, too */
  bool is_execute;         /* POST /execute: the method may be absent, and so may a plain id */
};

struct stdio_request {
  struct stdio_address from;
  enum stdio_method method;
  cJSON *tree;           /* owned; other members point into it */
  struct buffer outline; /* owned; of a line that cannot be parsed, with its id */

  /* Of a call: */
  const struct tool *tool;
  cJSON *arguments; /* or NULL */
  bool wants_progress;

  struct json_member cancelled; /* of a cancel: the id, part of the line */

  /* Of an invalid request: */
  int code;
  struct error error;
};

/* The line must outlive the request. */
void stdio_request_parse(struct stdio_request *self, const struct stdio_rules *rules,
                         const char *line, size_t length);

/* Makes an invalid request of a line that cannot be parsed. The outline (line_reader.h) tells its
   id and its dialect, if they can be read. */
void stdio_request_init_error(struct stdio_request *self, const struct stdio_rules *rules,
                              const char *outline, size_t length, const struct error *error);

/* Parses the input of a runner for this tool. White space alone means no arguments. */
void stdio_request_parse_arguments(struct stdio_request *self, const struct tool *tool,
                                   const char *text, size_t length);
void stdio_request_release(struct stdio_request *self);

/* Each of these appends one line, with its line ending. */
void stdio_answer_error(struct buffer *out, const struct stdio_address *to, int code,
                        const char *message, size_t length);

void stdio_answer_json(struct buffer *out, const struct stdio_address *to, const char *json);

/* Answers a call that was not executed, because its arguments were rejected or it was cancelled.
   The reason begins with TOOL_ERROR. */
void stdio_answer_refusal(struct buffer *out, const struct stdio_address *to, const char *reason,
                          size_t length);

/* Answers a call that was executed. Returns true if the tool failed. */
bool stdio_answer_result(struct buffer *out, const struct stdio_address *to,
                         const struct tool_call *call, const struct execution_result *end);

/* `tool` is the only one that is served; NULL: all. */
void stdio_answer_info(struct buffer *out, const struct stdio_address *to, const struct tool *tool,
                       const struct tool_settings *settings, const char *version);

/* Reports the progress of a call, of at most 99 percent. */
void stdio_answer_progress(struct buffer *out, const struct stdio_address *to, unsigned percent,
                           const char *message, size_t length);
