#ifndef AGENT_FRONTENDS_REDIS_DELIVERY_DELIVERY_H
#define AGENT_FRONTENDS_REDIS_DELIVERY_DELIVERY_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent/frontends/redis/delivery/send_queue.h"
#include "agent/frontends/redis/keys.h"
#include "base/error.h"
#include "base/log.h"

/*
 * Writes what is in the send queue to Redis: each command exactly once and in order, across any
 * number of lost connections, until another agent takes the job over. delivery.c begins with how.
 *
 * A delivery records what arrives from Redis and tells its owner once that there is news. The owner
 * takes the news when its turn comes, decides, and calls delivery_flush, which alone sends.
 */
struct delivery;

/* What the frontend's options say about delivery. The url must outlive the delivery. */
struct delivery_options {
  const struct redis_url *url;
  unsigned long long key_ttl_seconds;   /* 0: keys do not expire */
  unsigned long long events_maxlen;     /* 0: the stream is not trimmed */
  unsigned long long events_keep_bytes; /* of young events beyond them; see retention.h */
  unsigned long long hold_bytes;        /* unacknowledged output that is held */
};

enum delivery_news {
  DELIVERY_CONNECTED = 1, /* the socket is connected, the handshake is under way */
  DELIVERY_OWNED = 2,     /* once: the job is this agent's */
  DELIVERY_DELIVERED = 4, /* a batch was executed, and has left the send queue */
  DELIVERY_LOST_DATA =
      8, /* Redis lost data that it had acknowledged; once until the next delivery */
  DELIVERY_UNREACHABLE = 16, /* the connection was lost, and an attempt to reconnect has failed */
  DELIVERY_FAILED = 32       /* no attempt will change this error: nothing more is sent */
};

struct delivery_handler {
  /* There is news, or delivery_flush has something to do. */
  void (*changed)(void *owner);
  /* One encoded command, to be freed, that is part of the ownership transaction. May be NULL. */
  char *(*ownership_command)(void *owner);
};

/* Everything must outlive the delivery. */
struct delivery *delivery_new(struct event_base *base, const struct log *log,
                              const struct delivery_options *options, const struct keys *keys,
                              struct send_queue *send_queue, const struct delivery_handler *handler,
                              void *owner);
void delivery_free(struct delivery *self);

void delivery_start(struct delivery *self);

/* The news since the last call, values of enum delivery_news; and the error of DELIVERY_FAILED,
   NULL before that. */
unsigned delivery_take_news(struct delivery *self);
const struct error *delivery_error(const struct delivery *self);

/* The encoded commands that end each handshake, to be freed: they check that each key has the
   expected type and that each command of the agent is permitted (`trims`: XTRIM, too), and change
   nothing. So a wrong key or a missing permission fails at boot, with an error that names command
   and key, and not with the first result. The last three are the first probe and MULTI. */
#define PREFLIGHT_COMMANDS 29
char *delivery_preflight(const struct keys *keys, bool trims);

/* Sends what is queued, unless a request is under way; changed() follows when that is answered. */
void delivery_flush(struct delivery *self);

/* Sends a query with the next request, before the next batch, or with the ownership transaction:
   one or several commands that change nothing, encoded, which the delivery frees. Commands without
   a reply are sent again after a lost connection, before any batch. `answer` is called once for
   each, in order, unless the delivery fails; `whole` is false when the reply is only the beginning
   of a string that is longer than payload_limit(). What was delivered does not change between the
   query's execution and its last answer. One query at a time: the next one not before the last
   answer. */
typedef void query_answer(void *owner, const redisReply *reply, bool whole);
void delivery_query(struct delivery *self, char *commands, query_answer *answer, void *owner);

/* What is sent from here on is the last: `committed` is left to expire after DELIVERY_LAST_SECONDS.
   So long an agent that was cut off finds that it does not own the job any more. */
#define DELIVERY_LAST_SECONDS 3600
void delivery_end(struct delivery *self);

/* Reads `committed` now, on this connection: does Redis reply, and does it still have what it
   acknowledged? It leaves with the next delivery_flush. Only when the job is this agent's. */
void delivery_check_ownership(struct delivery *self);

/* Takes a value of `committed` that was read on another connection (NULL: the key does not exist).
   Returns false when it names another agent. Probes when it is not as expected, since only what was
   read on the delivery's own connection counts. Only when the job is this agent's. */
bool delivery_check_owner(struct delivery *self, const char *committed, size_t length);

/* True once the job is this agent's, also after the delivery has failed; true when another agent
   had it before, as far as Redis knows. */
bool delivery_is_owner(const struct delivery *self);
bool delivery_had_owner(const struct delivery *self);

/* True from DELIVERY_LOST_DATA to the next delivery: a Redis that goes back again meanwhile is
   not reported. */
bool delivery_has_lost_data(const struct delivery *self);

/* True when the connection was lost and an attempt to reconnect has failed, or when the delivery
   has failed. */
bool delivery_is_unreachable(const struct delivery *self);

/* How often its connection was made again. */
uint64_t delivery_reconnections(const struct delivery *self);

#endif
