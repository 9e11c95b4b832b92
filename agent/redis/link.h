#ifndef AGENT_REDIS_LINK_H
#define AGENT_REDIS_LINK_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/redis/login.h"
#include "agent/redis/url.h"
#include "base/error.h"
#include "base/log.h"

/*
 * One connection to Redis that comes back by itself, wherever the server is by then (route.h). It
 * resolves, connects, logs in and selects the database without blocking the loop; then it moves
 * bytes: commands that its owner has encoded go out, replies come back in order.
 *
 *   link_prepare        perhaps: connects and logs in ahead of time
 *   link_start
 *     reached()       connected, and the login is on its way; may be NULL
 *     up()            logged in: the owner sends from here on
 *     reply()         one for each command, in order
 *     writable()      after link_write took less than all; may be NULL
 *     down()          lost, and being made again: everything unanswered is unknown; may be NULL
 *     unreachable()   an attempt to make it again has failed; may be NULL
 *     failed()        given up: too often before the first success (retry.h), or an answer that
 *                     another attempt will not change (wrong password, no permission)
 *
 * No callback comes from inside link_start or link_write.
 */

struct link_handler {
  void (*reached)(void *owner);
  void (*up)(void *owner, const redisReply *last); /* the answer that ended the login */
  void (*reply)(void *owner, const redisReply *reply);
  void (*writable)(void *owner);
  void (*down)(void *owner);
  void (*unreachable)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

struct link_options {
  const struct redis_url *url;
  const char *role;         /* for the log: "intake" */
  const char *name;         /* shown by CLIENT LIST, where Redis takes it */
  struct login_probe probe; /* ends every login */
  bool terse;               /* see reply_reader_be_terse; from up() on */
  bool lazy;                /* see connection_be_lazy; from up() on */
  bool patient;             /* see retry.h */
  size_t largest_string;    /* a longer one is thrown away, see link_reply_too_large */
};

struct link;

/* The url, the log and the handler must outlive the link. */
struct link *link_new(struct event_base *base, const struct log *log,
                      const struct link_options *options, const struct link_handler *handler,
                      void *owner);
void link_free(struct link *self);

/* Tries once, and tells nobody what becomes of it but reached(): link_start goes on from there, or
   begins. Again is the same. */
void link_prepare(struct link *self);

/* True when it was prepared and is up: up() does not follow. */
bool link_start(struct link *self);

/* Closes the connection and stays away. */
void link_stop(struct link *self);

bool link_is_up(const struct link *self);

/* Stopped, or lost and not to be made again so far: at least one attempt since has failed. */
bool link_is_gone(const struct link *self);

/*
 * Writes what the socket takes now; returns the number of bytes, 0 also when the link is down. When
 * that is less than all, writable() follows.
 */
size_t link_write(struct link *self, const struct iovec *pieces, int count);

/* A reply is due: when none begins to arrive within this time the connection counts as lost. 0:
   none is due. The time starts again with every byte that arrives or is taken. */
void link_expect(struct link *self, int milliseconds_from_now);

/* Takes the answers that have arrived, where the link is lazy: reply(), down() or failed() come
   from inside. Or true, and nothing comes: see connection_collect. */
bool link_collect(struct link *self, const char *known, size_t known_length);

/* While it is up: it is lazy no more. */
void link_be_eager(struct link *self);

/* Gives this connection up and makes a new one after a pause. `why` is told once, also when it
   comes back with the next connection, until link_works. */
void link_drop(struct link *self, const char *why);

/* A new connection at once, though nothing is wrong with this one. */
void link_renew(struct link *self);

/*
 * An error reply came. True when another connection may get a better one, which is then made: at
 * once where the keys have moved to another node of a cluster, otherwise as link_drop does. False
 * when only a person can mend it: then nothing was done.
 */
bool link_overcomes(struct link *self, const char *text);

/* The server does what it is asked: what was wrong is over, and is said to be so. */
void link_works(struct link *self);

/* True inside reply() when a string longer than largest_string was thrown away; the reply is then
   the beginning of that string, and stands for the whole answer. */
bool link_reply_too_large(const struct link *self);

#endif
