#ifndef AGENT_DOORS_REDIS_CLIENT_CLIENT_H
#define AGENT_DOORS_REDIS_CLIENT_CLIENT_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/doors/redis/client/handshake.h"
#include "agent/doors/redis/net/url.h"
#include "base/error.h"
#include "base/log.h"

/*
 * One connection to Redis that comes back by itself, wherever the server is by then (route.h). It
 * resolves, connects, logs in and selects the database without blocking the loop; then it moves
 * bytes: commands that its owner has encoded go out, replies come back in order.
 *
 *   client_prepare        perhaps: connects and logs in ahead of time
 *   client_start
 *     reached()       connected, and the login is on its way; may be NULL
 *     up()            logged in: the owner sends from here on
 *     reply()         one for each command, in order
 *     writable()      after client_write took less than all; may be NULL
 *     down()          lost, and being made again: everything unanswered is unknown; may be NULL
 *     unreachable()   an attempt to make it again has failed; may be NULL
 *     failed()        given up: too often before the first success (retry.h), or an answer that
 *                     another attempt will not change (wrong password, no permission)
 *
 * No callback comes from inside client_start or client_write.
 */

struct client_handler {
  void (*connected)(void *owner);
  void (*ready)(void *owner, const redisReply *last); /* the answer that ended the login */
  void (*reply)(void *owner, const redisReply *reply);
  void (*writable)(void *owner);
  void (*down)(void *owner);
  void (*unreachable)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

struct client_options {
  const struct redis_url *url;
  const char *role;             /* for the log: "intake" */
  const char *name;             /* shown by CLIENT LIST, where Redis takes it */
  struct handshake_probe probe; /* ends every login */
  bool discard_values;          /* see reply_parser_discard_values; from up() on */
  bool poll_replies;            /* see connection_poll_replies; from up() on */
  bool patient;                 /* see retry.h */
  size_t largest_string;        /* a longer one is thrown away, see client_reply_too_large */
};

struct client;

/* The url, the log and the handler must outlive the link. */
struct client *client_new(struct event_base *base, const struct log *log,
                          const struct client_options *options,
                          const struct client_handler *handler, void *owner);
void client_free(struct client *self);

/* Tries once, and tells nobody what becomes of it but reached(): client_start goes on from there,
   or begins. Again is the same. */
void client_prepare(struct client *self);

/* True when it was prepared and is up: up() does not follow. */
bool client_start(struct client *self);

/* Closes the connection and stays away. */
void client_stop(struct client *self);

bool client_is_ready(const struct client *self);

/* Stopped, or lost and not to be made again so far: at least one attempt since has failed. */
bool client_is_gone(const struct client *self);

/*
 * Writes what the socket takes now; returns the number of bytes, 0 also when the link is down. When
 * that is less than all, writable() follows.
 */
size_t client_write(struct client *self, const struct iovec *pieces, int count);

/* A reply is due: when none begins to arrive within this time the connection counts as lost. 0:
   none is due. The time starts again with every byte that arrives or is taken. */
void client_expect(struct client *self, int milliseconds_from_now);

/* Takes the answers that have arrived, where the link is lazy: reply(), down() or failed() come
   from inside. Or true, and nothing comes: see connection_collect. */
bool client_collect(struct client *self, const char *known, size_t known_length);

/* While it is up: it is lazy no more. */
void client_be_eager(struct client *self);

/* Gives this connection up and makes a new one after a pause. `why` is told once, also when it
   comes back with the next connection, until client_works. */
void client_drop(struct client *self, const char *why);

/* A new connection at once, though nothing is wrong with this one. */
void client_renew(struct client *self);

/*
 * An error reply came. True when another connection may get a better one, which is then made: at
 * once where the keys have moved to another node of a cluster, otherwise as client_drop does. False
 * when only a person can mend it: then nothing was done.
 */
bool client_overcomes(struct client *self, const char *text);

/* The server does what it is asked: what was wrong is over, and is said to be so. */
void client_works(struct client *self);

/* True inside reply() when a string longer than largest_string was thrown away; the reply is then
   the beginning of that string, and stands for the whole answer. */
bool client_reply_too_large(const struct client *self);

#endif
