#ifndef AGENT_FRONTENDS_MCP_MESSAGE_H
#define AGENT_FRONTENDS_MCP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/error.h"
#include "wire/json.h"

/*
 * What comes in: a line of text -> JSON-RPC messages, classified. Pure.
 *
 *   if (mcp_line_parse(&line, text, length, &error) == 0)
 *     while (mcp_line_next(&line, &message))          once, but for a batch
 *       ...
 *   mcp_line_release(&line)
 */

enum mcp_message_kind {
  MCP_REQUEST,      /* is answered */
  MCP_NOTIFICATION, /* never is, whatever its method and its params are */
  MCP_RESPONSE,     /* to a request of ours; there are none */
  MCP_INVALID       /* no JSON-RPC 2.0 */
};

/* All of it belongs to the line. Ids and tokens are echoed byte for byte: a number may have more
   digits than a double. Their `text` is NULL where there is none. */
struct mcp_message {
  enum mcp_message_kind kind;
  struct json_member id;     /* of a request; of what is invalid when its id is not */
  const char *method;        /* of a request or a notification */
  const char *reason;        /* why it is invalid */
  const cJSON *params;       /* an object, or NULL: absent, null, or something else */
  bool params_unusable;      /* something else */
  const cJSON *meta;         /* params._meta: an object, or NULL */
  bool is_modern;            /* names what only requests of MCP_MODERN have */
  struct json_member token;  /* the progressToken: a string or an integer */
  struct json_member target; /* params.requestId, of the same types: whom to cancel */
};

struct mcp_line {
  cJSON *root;
  bool is_batch;
  int count; /* messages */
  const cJSON *next;
  struct json_text text;
};

/* The names of a modern request's own `_meta`. */
#define MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCP_META_CLIENT "io.modelcontextprotocol/clientInfo"
#define MCP_META_LOG_LEVEL "io.modelcontextprotocol/logLevel"

/* `text` must outlive the line. In strings an escaped NUL is JSON_TREE_NUL. Returns -1 for what is
   no JSON, not UTF-8, nested too deep, or has a name twice; the line is released then. */
int mcp_line_parse(struct mcp_line *self, const char *text, size_t length, struct error *error);
void mcp_line_release(struct mcp_line *self);

bool mcp_line_next(struct mcp_line *self, struct mcp_message *out);

/* The id of a request that cannot be parsed, of which this is the outline (line_reader.h); none
   when it cannot be read. It belongs to the outline. */
struct json_member mcp_outline_id(const char *outline, size_t length);

#endif
