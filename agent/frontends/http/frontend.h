#pragma once

#include <event2/event.h>

#include "agent/engine/frontend.h"
#include "agent/frontends/http/connection/options.h"
#include "base/log.h"

/*
 * The frontend that serves steps over HTTP (docs/http.md). A client puts a step, and reads its
 * events and its result when it wants to. The hard part is that a client may lose its connection at
 * any byte and repeat any request: steps.h recognizes the request, and event_store.h and steps.h
 * hold what was not read.
 *
 * Routes and calls of the engine only record what happened. One function, advance() of frontend.c,
 * decides what happens next.
 */

/* How long the end of the program waits for clients that have yet to read results, in
   milliseconds: after a shutdown step, and after a signal. */
#define HTTP_FRONTEND_READ_MS 10000
#define HTTP_FRONTEND_FAST_MS 2000

struct http_frontend_options {
  const struct http_options *http; /* must outlive the frontend */
  unsigned long long events_max;   /* that are held; 0: no limit */
  unsigned long long events_bytes_max;
};

/* Creates the frontend, which serves the clients that connect to the listener. */
struct frontend *http_frontend_new(struct event_base *base, const struct log *log,
                                   const struct http_frontend_options *options);
