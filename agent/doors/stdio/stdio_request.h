#ifndef AGENT_DOORS_STDIO_STDIO_REQUEST_H
#define AGENT_DOORS_STDIO_STDIO_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "agent/tools/tool.h"
#include "base/error.h"
#include "wire/json_tree.h"

/*
 * One line of the door, read: what is asked for, and how the answer is to look. Pure.
 *
 *   stdio_request_parse(&request, &rules, line, length)
 *   stdio_request_release(&request)
 */

/* What a line looks like, and its answer. A line with `jsonrpc` is JSON-RPC; the dialect of every
   other one has no name in the field. */
enum stdio_dialect {
  STDIO_PLAIN,   /* {"id":…,"method":…,"params":…} */
  STDIO_JSON_RPC /* the same with "jsonrpc":"2.0" */
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

struct stdio_rules {
  const struct tool *tool; /* the only one; NULL: all */
  bool speaks_json_rpc;    /* an earlier line was JSON-RPC: so is what is no JSON */
};

struct stdio_request {
  enum stdio_dialect dialect;
  enum stdio_method method;
  /* As it came, inside the line, or static; text NULL: a notification, which has no answer. */
  struct json_member id;
  cJSON *tree; /* owned; the rest points into it */

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

/* An invalid one, for what is not even read. */
void stdio_request_init_error(struct stdio_request *self, const struct stdio_rules *rules,
                              const struct error *error);
void stdio_request_release(struct stdio_request *self);

/* Parses one JSON object, for whoever has no line around it: NULL with the reason. */
cJSON *stdio_request_parse_object(const char *text, size_t length, struct error *error);

#endif
