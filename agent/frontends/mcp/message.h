#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/error.h"
#include "wire/json.h"

/*
 * Parses a line of text into JSON-RPC messages and classifies them. Pure.
 *
 *   if (mcp_line_parse(&line, text, length, &error) == 0)
 *     while (mcp_line_next(&line, &message))          once, except for a batch
 *       ...
 *   mcp_line_release(&line)
 */

enum mcp_message_kind {
  MCP_REQUEST,
  MCP_NOTIFICATION, /* is never answered, even if it is wrong */
  MCP_RESPONSE,     /* this server sends no requests, so it is ignored */
  MCP_INVALID       /* not JSON-RPC 2.0 */
};

/* The line owns all members. Ids and tokens are echoed byte for byte, because a number may have
   more digits than a double; their `text` is NULL if there is none. */
struct mcp_message {
  enum mcp_message_kind kind;
  struct json_member id;     /* of a request; of an invalid message if the id is valid */
  const char *method;        /* of a request or a notification */
  const char *reason;        /* why the message is invalid */
  const cJSON *params;       /* an object; NULL if it is absent, null or of another type */
  bool params_unusable;      /* of another type */
  const cJSON *meta;         /* params._meta: an object, or NULL */
  bool is_modern;            /* has members that only requests of MCP_MODERN have */
  struct json_member token;  /* the progressToken: a string or an integer */
  struct json_member target; /* of a cancel: params.requestId, a string or an integer */
};

struct mcp_line {
  cJSON *root;
  bool is_batch;
  int count; /* messages */
  const cJSON *next;
  struct json_text text;
};

/* The members of `_meta` of a modern request. */
#define MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCP_META_CLIENT "io.modelcontextprotocol/clientInfo"
#define MCP_META_LOG_LEVEL "io.modelcontextprotocol/logLevel"

/* `text` must outlive the line. In strings, an escaped NUL is JSON_TREE_NUL. Returns -1 for text
   that is not JSON in UTF-8, is nested too deeply, or has a name twice; nothing is owned then. */
int mcp_line_parse(struct mcp_line *self, const char *text, size_t length, struct error *error);
void mcp_line_release(struct mcp_line *self);

bool mcp_line_next(struct mcp_line *self, struct mcp_message *out);

/* Returns the id of a request that cannot be parsed, if its outline (line_reader.h) has one. The
   outline owns it. */
struct json_member mcp_outline_id(const char *outline, size_t length);
