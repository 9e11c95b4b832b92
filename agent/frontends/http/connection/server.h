#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/http/connection/exchange.h"
#include "agent/frontends/http/connection/listener.h"
#include "agent/frontends/http/connection/options.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"

/*
 * The HTTP server that three frontends share. It accepts connections, reads requests
 * (request_reader.h), checks who may send them (access.h) and which route they take, and sends the
 * responses (exchange.h). The hard part is that it trusts no client: memory, time and the number of
 * connections are bounded before a client has shown the key.
 *
 *   server = http_server_new(base, log, &options, &type, owner)
 *     route->serve(owner, exchange)
 *     type->writable(), gone(), closed()
 *   http_server_set_ending(server)    health says so
 *   http_server_free(server)          closes all connections
 */
struct http_server;

/* The limits of docs/http.md; times in milliseconds. */
#define HTTP_CONNECTIONS_MAX 64
#define HTTP_SOCKET_UNSENT_MAX (64 * 1024)      /* bytes that the kernel holds and has not sent */
#define HTTP_BODY_SHORT_MAX ((size_t)64 * 1024) /* a longer body makes a request a long one */
#define HTTP_HEADER_MS 10000
#define HTTP_BODY_MS 30000   /* between two bytes of a body */
#define HTTP_WRITE_MS 30000  /* until the client accepts a byte of a response */
#define HTTP_STREAM_MS 10000 /* the same, of an open stream */
#define HTTP_IDLE_MS 75000
#define HTTP_LINGER_MS 1000
#define HTTP_REJECTED_LOG_MS 10000 /* between two lines about rejected keys */

/* `pattern`: a path, in which one segment may be "{}". */
struct http_route {
  enum http_method method;
  bool takes_json; /* other values of Content-Type are 415 */
  const char *pattern;
  /* The request is complete, with its body. */
  void (*serve)(void *owner, struct http_exchange *exchange);
};

struct http_server_type {
  const struct http_route *routes; /* ended by a pattern of NULL */
  /* A stream has capacity. NULL: the frontend has no streams. */
  void (*writable)(void *owner, struct http_exchange *exchange);
  /* The client has closed its connection, or its sending side, before the response. NULL: that
     does not matter. */
  void (*gone)(void *owner, struct http_exchange *exchange);
  /* The exchange is over, and its pointer is invalid afterwards. `is_sent`: the kernel has accepted
     the last byte of the response. Called for every exchange, also of other routes. */
  void (*closed)(void *owner, struct http_exchange *exchange, bool is_sent);
  /* Appends further members of an authorised health answer, each with a comma before it. */
  void (*health)(void *owner, struct buffer *json);
  /* Appends further metrics as OpenMetrics text. NULL: none. */
  void (*metrics)(void *owner, struct buffer *text);
  /* Returns how many bytes of request bodies the frontend holds. NULL: none. */
  size_t (*held_bytes)(const void *owner);
  /* An authorised request has arrived. NULL: that does not matter. */
  void (*touched)(void *owner);
};

/* Everything that is pointed to must outlive the server. */
struct http_server_options {
  const struct http_options *http; /* its listener listens */
  const char *mode;                /* in health */
};

/* Accepts connections from now on, and logs that. */
struct http_server *http_server_new(struct event_base *base, const struct log *log,
                                    const struct http_server_options *options,
                                    const struct http_server_type *type, void *owner);

/* Health answers 503 from now on. */
void http_server_set_ending(struct http_server *self);

/* Whether any response has begun and is not sent yet. */
bool http_server_is_busy(const struct http_server *self);

/* Closes all connections at once; closed() is called for the open exchanges. The listener stays the
   caller's. */
void http_server_free(struct http_server *self);

/* Whether every server has a route with this path. */
bool http_server_has_path(const char *path);

/* Returns the oldest long exchange, or the oldest stream, whose client has closed its connection,
   or its sending side, before the response was complete; NULL: none. */
struct http_exchange *http_server_oldest_gone(const struct http_server *self, bool is_stream);

/* The memory of all responses that are not sent yet, in bytes. */
size_t http_server_unsent(const struct http_server *self);

/* For a dump of the state. */
size_t http_server_connections(const struct http_server *self);

/* For metrics(): append the lines that describe a metric, whose type is "gauge" or "counter" and
   whose unit may be NULL; and a sample. The name of a counter's sample ends with "_total" and may
   be followed by labels. */
void http_metric_begin(struct buffer *text, const char *name, const char *type, const char *unit,
                       const char *help);
void http_metric_add(struct buffer *text, const char *name, uint64_t value);
