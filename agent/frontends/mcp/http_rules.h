#pragma once

#include <stdbool.h>

#include "agent/frontends/mcp/session.h"

/*
 * The rules of MCP's Streamable HTTP transport that concern a message and its header fields. The
 * hard part is that a gateway decides by the header and the agent by the body, so both must agree.
 * Pure.
 *
 * A request is modern (session.h) if its field MCP-Protocol-Version or its `_meta` says so. Other
 * requests have the version of that field, or 2025-03-26, except initialize, which negotiates it.
 */

/* The values of MCP-Protocol-Version, Mcp-Method and Mcp-Name; NULL: the field is absent. */
struct mcp_http_fields {
  const char *version, *method, *name;
};

struct mcp_http_verdict {
  enum mcp_error error; /* the answer was appended, and the message must not be handled */
  bool is_modern;
  bool is_initialize;
  bool has_calls; /* the message calls a tool, or it is a batch, which may */
};

/* Checks the message or the batch, and gives the session, a copy for this request, its version. */
struct mcp_http_verdict mcp_http_check(struct mcp_session *session,
                                       const struct mcp_http_fields *fields,
                                       const struct mcp_line *line, struct buffer *answer);

/* The status of the response that has an answer with this error, or with a result. */
int mcp_http_status(enum mcp_error error, bool is_modern);
