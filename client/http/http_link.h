#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/dialer.h"
#include "client/http/http_response.h"
#include "client/http/http_url.h"

/*
 * One connection over HTTP/1.1: sends a request, and delivers the response from the loop. It
 * connects when there is a request, and stays open for the next one if the server allows it. It
 * never repeats a request.
 */
struct http_link_handler {
  void (*body)(void *owner, const char *bytes, size_t length);
  /* Some of the body was delivered. The rest arrives after http_link_read. NULL: at once. */
  void (*turn)(void *owner);
  /* The response of an agent is whole; or `why` the connection was lost, or another server has
     answered. The next request may be sent. */
  void (*over)(void *owner, const struct error *why);
};

/* What all requests have. */
struct http_peer {
  struct event_base *base;
  struct http_url url;
  char *key;         /* NULL: none */
  char instance[40]; /* of the agent; "": unknown yet */
};

struct http_link {
  const struct http_peer *peer;
  const struct http_link_handler *handler;
  void *owner;
  const char *accept; /* of the next requests; NULL: anything */
  int64_t silent_ms;  /* a response that makes no progress for this time is lost */
  enum { LINK_CLOSED, LINK_OPEN, LINK_DIALS, LINK_BUSY } state; /* open: without a request */
  struct dialer *dialer;
  struct transport *transport;
  struct event *readable, *writable, *timer;
  struct buffer head; /* of the request */
  const char *body;   /* borrowed */
  size_t body_length, sent;
  struct http_response response;
  int64_t lost_ms;  /* monotonic: no agent has answered since then; 0: it answers */
  struct error why; /* the last loss */
};

void http_link_init(struct http_link *self, const struct http_peer *peer, int64_t silent_ms,
                    const struct http_link_handler *handler, void *owner);

/* Closes the connection. No handler is called. */
void http_link_close(struct http_link *self);

/* Sends a request. The body must remain until the response is over. */
void http_link_send(struct http_link *self, const char *method, const char *path, const char *body,
                    size_t body_length);

/* Delivers the next part of a response; idempotent. */
void http_link_read(struct http_link *self);
