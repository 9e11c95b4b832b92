#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/frontends/redis/connection/reply_parser.h"
#include "agent/frontends/redis/connection/transport.h"

/*
 * One connected socket to a Redis server or a sentinel: it writes what the transport takes, and
 * parses replies, which arrive in order. Every callback comes from the event loop. The owner may
 * close the socket inside a callback, but must not open or free it before that has returned.
 */
struct redis_socket_handler {
  /* One for each command, in order. */
  void (*reply)(void *owner, const struct reply *reply);
  /* redis_socket_write may write more, after it has written less than all. May be NULL. */
  void (*writable)(void *owner);
  /* Nothing more arrives. The owner closes the socket, which ends the life of `why`. */
  void (*lost)(void *owner, struct connection_error why);
};

struct redis_socket {
  struct event_base *base;
  size_t (*largest_string)(void);
  const struct redis_socket_handler *handler;
  void *owner;
  struct transport *transport; /* NULL: closed, and without the events and the parser */
  enum {
    SOCKET_HANDSHAKING, /* of TLS; nothing can be written yet */
    SOCKET_OPEN
  } state;
  bool wants_capacity; /* redis_socket_write has written less than all */
  bool is_parsing;     /* inside reply(), whose reply lies in the parser */
  struct event *readable;
  struct event *writable;
  struct event *timer; /* of the reply timeout */
  struct reply_parser parser;
  int reply_timeout_ms; /* 0: no reply is due */
  size_t without_reply; /* bytes that arrived since the timeout was restarted */
};

/* Initializes a closed socket. The handler must outlive it, and it must not be moved. */
void redis_socket_init(struct redis_socket *self, struct event_base *base,
                       size_t (*largest_string)(void), const struct redis_socket_handler *handler,
                       void *owner);

/* Takes ownership of the transport, and does its handshake from the loop. */
void redis_socket_open(struct redis_socket *self, struct transport *transport);

/* Closes the socket and frees its transport. Idempotent. */
void redis_socket_close(struct redis_socket *self);

/* Writes what an open socket takes now and returns the number of bytes. writable() or lost()
   follows if that is less than all. */
size_t redis_socket_write(struct redis_socket *self, const struct iovec *pieces, int count);

/* Sets after how many milliseconds without progress an open socket is lost; 0: no reply is due. The
   timeout restarts with each whole reply, with REDIS_SOCKET_PROGRESS_BYTES of one, and when more of
   a large request is written: a large reply may take its time, and one that drips is lost. */
#define REDIS_SOCKET_PROGRESS_BYTES 4096
void redis_socket_set_reply_timeout(struct redis_socket *self, int milliseconds_from_now);

/* Returns the reason for a timeout, as static text. The socket may be closed. */
struct connection_error redis_socket_timeout(const struct redis_socket *self);
