#pragma once

#include <event2/event.h>

#include "agent/frontends/http/connection/options.h"
#include "agent/frontends/stdio/frontend.h"

/*
 * `agent --stdio --http ADDRESS`: the body of POST /execute is one request of --stdio, and the
 * response is its answer, with 200 whether or not the tool failed. Differences from --stdio:
 *
 *   method      may be absent, and is then `execute`
 *   id          may be absent; the answer then has none
 *   order       calls run in parallel, and other requests are answered at once
 *   no JSON     400
 *   no answer   202 without a body, after a notification of JSON-RPC was executed
 *   progress    only with `Accept: application/x-ndjson`; the body consists of lines then
 *
 * The call of a client that leaves is cancelled, because nobody could fetch the answer.
 */
struct frontend *stdio_http_frontend_new(struct event_base *base, const struct log *log,
                                         const struct stdio_frontend_options *options,
                                         const struct http_options *http);
