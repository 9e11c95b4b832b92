#pragma once

#include <event2/event.h>

#include "agent/frontends/http/connection/options.h"
#include "agent/frontends/mcp/frontend.h"

/*
 * `agent --mcp --http ADDRESS`: the Streamable HTTP transport of MCP, by POST /mcp (http_rules.h),
 * with the tools and results of --mcp. It keeps no state between requests, so a client needs no
 * session.
 *
 * The response is JSON, or server-sent events if the client accepts these and has sent a progress
 * token, or if the call takes MCP_HTTP_EVENTS_MS: a response that is silent for long looks dead to
 * a proxy. The hard part is that calls and clients end independently: a legacy call goes on if its
 * client leaves, a modern one is cancelled.
 */
#define MCP_HTTP_EVENTS_MS 10000
#define MCP_HTTP_SILENCE_MS 15000 /* until a stream has a comment */

struct frontend *mcp_http_frontend_new(struct event_base *base, const struct log *log,
                                       const struct mcp_frontend_options *options,
                                       const struct http_options *http);
