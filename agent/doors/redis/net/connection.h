#ifndef AGENT_DOORS_REDIS_NET_CONNECTION_H
#define AGENT_DOORS_REDIS_NET_CONNECTION_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/doors/redis/net/reply_parser.h"

/*
 * One socket that is connected to Redis: bytes go out as far as it takes them, replies come back in
 * order.
 *
 *   connection_init
 *   connection_open(&connection, fd)
 *     reply()      one for each command, in order
 *     writable()   after connection_write took less than all
 *     lost()       nothing more will come; the owner closes it
 *   connection_close
 *
 * No callback comes from inside one of these functions (but connection_collect), and none after
 * connection_close. The owner may close it inside a callback, but not open it again, or free it,
 * before that has returned.
 */
struct connection_handler {
  void (*reply)(void *owner, const redisReply *reply);
  void (*writable)(void *owner); /* may be NULL */
  void (*lost)(void *owner, const char *why);
};

struct connection {
  struct event_base *base;
  size_t largest_string;
  const struct connection_handler *handler;
  void *owner;
  int fd; /* -1: closed; otherwise the two events and the reader are there */
  struct event *readable;
  struct event *writable;
  struct reply_parser reader;
  int expect_ms;
  bool too_large;
};

/* Closed. The handler must outlive it, and the connection must stay where it is. */
void connection_init(struct connection *self, struct event_base *base, size_t largest_string,
                     const struct connection_handler *handler, void *owner);

/* Takes the descriptor over, which does not block. */
void connection_open(struct connection *self, int fd);

/* Again is the same. */
void connection_close(struct connection *self);

/*
 * While it is open: writes what the socket takes now; returns the number of bytes. When that is
 * less than all, writable() follows, or lost().
 */
size_t connection_write(struct connection *self, const struct iovec *pieces, int count);

/* While it is open: a reply is due. When none begins to arrive within this time the connection is
   lost. 0: none is due. The time starts again with every byte that arrives or is taken. */
void connection_expect(struct connection *self, int milliseconds_from_now);

/* See reply_parser_discard_values; until it is closed. */
void connection_discard_values(struct connection *self);

/*
 * Answers are no reason to wake up any more: the owner collects what has come when it is awake for
 * another reason. It is still told of a loss at once. Where the kernel does not know how, answers
 * come as ever. Until it is closed, or is not lazy any more.
 */
void connection_poll_replies(struct connection *self, bool poll_replies);

/* Takes what has arrived: reply() or lost() come from inside, unlike elsewhere. But when that is
   what is `known` already, to the byte, it is not taken apart: true, and nobody is called. */
bool connection_collect(struct connection *self, const char *known, size_t known_length);

/* True inside reply() when a string longer than largest_string was thrown away; the reply is then
   the beginning of that string, and stands for the whole answer. */
bool connection_reply_too_large(const struct connection *self);

#endif
