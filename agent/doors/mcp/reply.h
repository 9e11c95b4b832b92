#ifndef AGENT_DOORS_MCP_REPLY_H
#define AGENT_DOORS_MCP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/doors/mcp/message.h"
#include "agent/doors/mcp/version.h"
#include "agent/engine/run_end.h"
#include "agent/tools/tool.h"
#include "base/buffer.h"

/*
 * What goes out: each function adds one message, without a line ending and without a newline inside
 * of it, as the version has it. Pure.
 */

/* Codes of errors. */
#define MCP_ERROR_PARSE (-32700)
#define MCP_ERROR_INVALID_REQUEST (-32600)
#define MCP_ERROR_METHOD_NOT_FOUND (-32601)
#define MCP_ERROR_INVALID_PARAMS (-32602)
#define MCP_ERROR_UNSUPPORTED_VERSION (-32022)

/* Of the server, the same for all that it sends. Nothing is owned. */
struct mcp_server {
  const char *program_version;
  unsigned versions; /* that are served */
  bool structured;   /* results of commands in members, too, where the version has that */
  struct tool_settings tools;
};

/* No id: what came had none, or none that is valid. */
void mcp_add_error(struct buffer *out, struct json_member id, int code, const char *message);

/* An error that says which versions are served without initialize. `requested` may be NULL. */
void mcp_add_version_error(struct buffer *out, struct json_member id, int code, const char *message,
                           const char *requested);

/* Results. */
void mcp_add_initialized(struct buffer *out, struct json_member id, enum mcp_version version,
                         const struct mcp_server *server);
void mcp_add_discovered(struct buffer *out, struct json_member id, const struct mcp_server *server);
void mcp_add_tools(struct buffer *out, struct json_member id, enum mcp_version version,
                   const struct mcp_server *server);
/* {}, or with a name {"name":[]}: legacy. */
void mcp_add_empty(struct buffer *out, struct json_member id, const char *list);

/* What a call is answered with. */
struct mcp_called {
  const struct buffer *text;
  const struct tool_image *image; /* in place of the text; or NULL */
  bool is_error;
  /* Of a command that was run, where mcp_has_structured says so; else NULL. */
  const struct run_end *structured;
};

/* The result of a call. */
void mcp_add_called(struct buffer *out, struct json_member id, enum mcp_version version,
                    const struct mcp_server *server, const struct mcp_called *called);
bool mcp_has_structured(const struct mcp_server *server, enum mcp_version version);

/* The notification; `message` is left out where the version has none or it is empty. */
void mcp_add_progress(struct buffer *out, struct json_member token, enum mcp_version version,
                      int64_t elapsed_ms, const char *message, size_t length);

#endif
