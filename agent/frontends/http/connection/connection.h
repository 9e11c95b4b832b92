#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/frontends/http/connection/exchange.h"
#include "agent/frontends/http/connection/request_reader.h"
#include "agent/frontends/http/connection/server.h"
#include "base/list.h"

/*
 * One connection of a client: a state machine that reads a request, lets the server serve it, and
 * writes the response, one request after the other. Internal to the server.
 *
 *   READING_HEADER --> READING_BODY --> SERVING --sent--> READING_HEADER
 *         |                 |              `--sent, and it closes--> LINGERING --> closed
 *         `----rejected-----`--> SERVING
 *
 * Its one event is edge-triggered. on_io only records what the kernel reported; advance() acts.
 */
enum connection_state {
  CONNECTION_READING_HEADER,
  CONNECTION_READING_BODY,
  CONNECTION_SERVING,  /* until the response is sent */
  CONNECTION_LINGERING /* the response is sent; what the client still sends is discarded */
};

enum response_state {
  RESPONSE_NONE,
  RESPONSE_STREAMING, /* more will be written */
  RESPONSE_COMPLETE   /* all of it is in `output` and `body` */
};

struct http_exchange {
  struct list_node node; /* in the server's connections */
  struct http_server *server;
  int fd;
  bool is_tcp;
  enum connection_state state;
  bool is_idle; /* it waits for the first byte of a further request */
  /* When the state began; of a header that is its first byte, of a body and a response the last
     byte. */
  int64_t since_ms;
  bool may_read, may_write;
  bool is_client_gone;
  bool is_broken;    /* to be closed at once */
  bool is_advancing; /* connection_advance runs */
  bool is_reported_gone;
  struct request_reader reader;
  struct buffer pending; /* bytes behind the current request */

  /* The current exchange. */
  const struct http_route *route;
  char *segment;
  void *user_data;
  bool is_long;
  bool is_authorized;
  bool closes;       /* the connection is closed after the response */
  int status;        /* of the response; 0: there is none */
  const char *error; /* its word; static; NULL: the response is no such error */
  int64_t begun_ms;  /* its first byte */
  enum response_state response;
  bool is_chunked;
  bool is_open_stream;
  struct buffer output; /* from `written` on not written yet */
  size_t written;
  struct buffer body; /* follows the output; from `body_written` on not written yet */
  size_t body_written;
  int queued; /* bytes in the kernel when the client was last seen to accept none */

  struct event *io, *turn, *timer;
  int64_t timer_ms; /* when the timer fires; 0: not at all */
};

/* Takes over the descriptor. */
struct http_exchange *connection_new(struct http_server *server, struct event_base *base, int fd,
                                     bool is_tcp);

/* Closes the connection and frees it; calls closed() if an exchange is open. */
void connection_free(struct http_exchange *self);

/* Reads, serves and writes as much as one turn allows. May free the connection. */
void connection_advance(struct http_exchange *self);

/* Asks the kernel whether the client has closed its connection, or its sending side: the event that
   says so may still be waiting. */
bool connection_is_client_gone(const struct http_exchange *self);

/* Makes connection_advance run in this iteration of the loop. */
void connection_wake(struct http_exchange *self);
