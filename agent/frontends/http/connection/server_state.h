#pragma once

#include <event2/event.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/frontends/http/connection/connection.h"
#include "agent/frontends/http/connection/server.h"
#include "base/list.h"

/* The state of the server, which its own files share. */

enum { HTTP_INPUT_SIZE = 64 * 1024 };

struct http_server {
  struct event_base *base;
  const struct log *log;
  const struct http_server_type *type;
  void *owner;
  struct http_server_options options;
  char instance[17];       /* 16 hexadecimal digits */
  struct list connections; /* in the order in which they began to wait */
  size_t connection_count; /* without those that linger */
  size_t lingering_count;
  size_t long_count;
  bool is_ending;
  int64_t started_ms;
  struct event *acceptable[HTTP_SOCKETS_MAX];
  struct event *retry;    /* accepts again after descriptors had run out */
  int reserve;            /* a descriptor to refuse a connection with; -1: none */
  unsigned rejected_keys; /* that the log has not counted yet */
  /* The client of the last one; and a timer that runs until the log may have the next line. */
  char last_rejected[INET6_ADDRSTRLEN];
  struct event *rejected_pause;
  struct {
    uint64_t requests, refused, received_bytes, sent_bytes;
  } counts;
  char input[HTTP_INPUT_SIZE]; /* for one read */
};

/* The header was read: answers the request with an error, or accepts its body. */
void server_check_header(struct http_server *self, struct http_exchange *exchange);

/* More of the body was read: answers the request with an error if that is too much. */
void server_check_body(struct http_server *self, struct http_exchange *exchange);

/* The request is complete. */
void server_serve(struct http_server *self, struct http_exchange *exchange);

/* The exchange is over. */
void server_end_exchange(struct http_server *self, struct http_exchange *exchange, bool is_sent);

/* Answer GET /health and GET /metrics. */
void server_serve_health(void *server, struct http_exchange *exchange);
void server_serve_metrics(void *server, struct http_exchange *exchange);
