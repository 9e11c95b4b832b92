#pragma once

#include <event2/event.h>

#include "agent/frontends/calls.h"
#include "agent/frontends/http/connection/server.h"
#include "base/log.h"

/*
 * The tool calls of HTTP clients: connects the queue of calls.h with the server of
 * http/connection/server.h, with one route, POST PATH. A frontend embeds struct http_calls as its
 * first member, and uses the functions below in its struct frontend_type. The hard part is that a
 * client may leave at any time: an exchange has user data until its request is answered, and its
 * call must forget it when it is over.
 *
 *   http_calls_init(&calls, base, log, &type, &calls_type, options, "/execute")
 *     type->serve(&calls, exchange)      answers now, or sets the exchange's user data
 *     http_calls_answered(exchange)      the exchange has its whole response
 *     type->gone(), type->forget()       only before that
 *   http_calls_release(&calls)
 *
 * A call begins only while fewer than HTTP_ALL_UNSENT_MAX bytes of responses are not sent, so
 * clients that do not read cannot fill the memory.
 *
 * From close() on, the program waits HTTP_CALLS_CLOSE_MS, or HTTP_CALLS_FAST_MS after a signal,
 * until the clients have read their responses.
 */
#define HTTP_CALLS_CLOSE_MS 5000
#define HTTP_CALLS_FAST_MS 300

struct http_calls;

struct http_calls_type {
  const char *mode; /* in health */
  /* A request has arrived, and the program is not ending. */
  void (*serve)(struct http_calls *self, struct http_exchange *exchange);
  /* The client has closed its connection, or its sending side. May be called twice. */
  void (*gone)(struct http_calls *self, void *user_data);
  /* The exchange is over, and its pointer is invalid from now on. */
  void (*forget)(void *user_data);
};

struct http_calls {
  struct calls calls; /* first */
  const struct http_calls_type *type;
  const struct log *log;
  struct http_route routes[2]; /* the second one ends them */
  struct http_server_type server_type;
  struct http_server *server;
  enum { HTTP_CALLS_OPEN, HTTP_CALLS_CLOSING, HTTP_CALLS_CLOSED } state;
  struct event *turn;  /* an exchange is over: others may begin, or the program may end */
  struct event *limit; /* the end of the time for that */
};

void http_calls_init(struct http_calls *self, struct event_base *base, const struct log *log,
                     const struct http_calls_type *type, const struct calls_type *calls_type,
                     const struct http_options *options, const char *path);
void http_calls_release(struct http_calls *self);

void http_calls_answered(struct http_exchange *exchange);

/* Whether a report of progress may be written to the stream. Reports are left out while
   HTTP_CALLS_HOLD_PROGRESS_BYTES are not sent. */
bool http_calls_may_report(const struct http_exchange *exchange);
#define HTTP_CALLS_HOLD_PROGRESS_BYTES ((size_t)64 * 1024)

/* The header fields of a stream: proxies must not hold its lines back. */
#define HTTP_CALLS_STREAM_FIELDS "X-Accel-Buffering: no\r\n"

/* For struct calls_type. */
bool http_calls_has_capacity(const struct calls *calls);

/* For struct frontend_type. */
void http_calls_want(struct frontend *frontend, unsigned requests);
void http_calls_close(struct frontend *frontend, enum frontend_close how);
void http_calls_dump(const struct frontend *frontend);
