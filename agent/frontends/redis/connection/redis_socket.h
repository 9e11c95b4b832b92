#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_REDIS_SOCKET_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_REDIS_SOCKET_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/frontends/redis/connection/reply_parser.h"
#include "agent/frontends/redis/connection/transport.h"

/*
 * One connected socket: bytes go out as far as it takes them, replies come back in order.
 *
 * No callback comes from inside one of these functions, except redis_socket_take_replies, and none
 * after redis_socket_close. Inside a callback the owner may close it, but must not open it again or
 * free it before the callback has returned.
 */
struct redis_socket_handler {
  /* One for each command, in order. */
  void (*reply)(void *owner, const redisReply *reply);
  /* After redis_socket_write took less than all. May be NULL. */
  void (*writable)(void *owner);
  /* Nothing more will come; the owner closes it, and the reason is gone with it. */
  void (*lost)(void *owner, struct connection_error why);
};

struct redis_socket {
  struct event_base *base;
  size_t (*largest_string)(void);
  const struct redis_socket_handler *handler;
  void *owner;
  struct transport *transport; /* NULL: closed; otherwise the two events and the parser exist */
  bool is_shaking_hands;       /* of the transport; nothing is written yet */
  bool wants_capacity;         /* redis_socket_write has taken less than all */
  bool is_broken;              /* a write has failed; what the server sent before is still read */
  struct event *readable;
  struct event *writable;
  struct event *timer;
  struct reply_parser parser;
  int expect_ms;
  size_t without_reply; /* bytes that arrived since the time was restarted */
  /* Inside reply(): a string was longer than largest_string, and the reply is the beginning of that
     string, in place of the whole reply. */
  bool is_truncated;
};

/* Closed. The handler must outlive it, and it must stay where it is. */
void redis_socket_init(struct redis_socket *self, struct event_base *base,
                       size_t (*largest_string)(void), const struct redis_socket_handler *handler,
                       void *owner);

/* Takes the transport over. Its handshake is done from the loop. */
void redis_socket_open(struct redis_socket *self, struct transport *transport);

/* Idempotent. */
void redis_socket_close(struct redis_socket *self);

/* While it is open: writes what the socket takes now and returns the number of bytes. When that is
   less than all, writable() follows, or lost(). */
size_t redis_socket_write(struct redis_socket *self, const struct iovec *pieces, int count);

/* While it is open: sets how long a reply may take, in milliseconds, after which the connection is
   lost; 0: no reply is due. The time restarts when a reply is whole, when so many bytes of one have
   arrived, and when more of a large request goes out: so what is large may take its time, and what
   drips is lost. */
#define REDIS_SOCKET_PROGRESS_BYTES 4096
void redis_socket_set_reply_timeout(struct redis_socket *self, int milliseconds_from_now);

/* What has not come when the time is over; static. It may be closed. */
struct connection_error redis_socket_timeout(const struct redis_socket *self);

/* With `true`, until it is closed, replies do not wake up the loop any more: the owner calls
   redis_socket_take_replies when it is awake for another reason, and reply() or lost() come from
   inside. A loss is still reported at once. Where the kernel does not support this (SO_RCVLOWAT),
   or the transport, replies come as before. Where all that has arrived is `known`, it is not
   parsed: returns true, and nothing was called back. */
void redis_socket_poll_replies(struct redis_socket *self, bool poll_replies);
bool redis_socket_take_replies(struct redis_socket *self, const char *known, size_t known_length);

#endif
