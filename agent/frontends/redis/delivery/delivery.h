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
 * No callback comes from inside a function of this header.
 */
struct delivery;

struct redis_frontend_options; /* frontend.h */

struct delivery_handler {
  /* The socket is connected, the handshake under way: time for other work. */
  void (*connected)(void *owner);
  /* One encoded command, to be freed, that is part of the ownership transaction. May be NULL. */
  char *(*ownership_command)(void *owner);
  /* Once: the job is this agent's. */
  void (*owned)(void *owner);
  /* A batch was executed, and has left the send queue. */
  void (*delivered)(void *owner);
  /* Redis lost data that it had acknowledged; once until the next delivered(). The delivery goes
     on. */
  void (*lost_data)(void *owner);
  /* The connection was lost, and an attempt to reconnect has failed; another follows. */
  void (*unreachable)(void *owner);
  /* No attempt will change this error: nothing more is sent, what is queued stays in the send
     queue. */
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive the delivery, of the options the url alone. */
struct delivery *delivery_new(struct event_base *base, const struct log *log,
                              const struct redis_frontend_options *options, const struct keys *keys,
                              struct send_queue *send_queue, const struct delivery_handler *handler,
                              void *owner);
void delivery_free(struct delivery *self);

void delivery_start(struct delivery *self);

/* The encoded commands that end each handshake, to be freed: they check that each key has the
   expected type and that each command of the agent is permitted (`trims`: XTRIM, too), and change
   nothing. So a wrong key or a missing permission fails at boot, with an error that names command
   and key, and not with the first result. The last three are the first probe and MULTI. */
#define PREFLIGHT_COMMANDS 27
char *delivery_preflight(const struct keys *keys, bool trims);

/* Sends what is queued: at once, or after what is under way. Idempotent. */
void delivery_flush(struct delivery *self);

/* Sends a query between two batches, when it is known what was delivered: one or several commands
   that change nothing, encoded, which `ask` returns at that moment, to be freed; before the job is
   this agent's, together with the ownership transaction. Commands without a reply are sent again
   after a lost connection, before any batch. `answer` is called once for each, in order, unless the
   delivery fails; `whole` is false when the reply is only the beginning of a string that is longer
   than payload_limit(). One query at a time: the next one not before the last answer(), and from
   inside it at the earliest; a batch that waits goes before that one. */
typedef char *query_ask(void *owner);
typedef void query_answer(void *owner, const redisReply *reply, bool whole);
void delivery_query(struct delivery *self, query_ask *ask, query_answer *answer, void *owner);

/* What is sent from here on is the last: `committed` is left to expire after DELIVERY_LAST_SECONDS.
   So long an agent that was cut off finds that it does not own the job any more. */
#define DELIVERY_LAST_SECONDS 3600
void delivery_end(struct delivery *self);

/* Reads `committed` now, on this connection: does Redis reply, and does it still have what it
   acknowledged? Only when the job is this agent's. */
void delivery_check_ownership(struct delivery *self);

/* Takes a value of `committed` that was read on another connection (NULL: the key does not exist).
   Returns false when it names another agent. Probes when it is not as expected, since only what was
   read on the delivery's own connection counts. Only when the job is this agent's. */
bool delivery_check_owner(struct delivery *self, const char *committed, size_t length);

/* True once the job is this agent's, also after the delivery has failed; true when another agent
   had it before, as far as Redis knows. */
bool delivery_is_owner(const struct delivery *self);
bool delivery_had_owner(const struct delivery *self);

/* True from lost_data() to the next delivered(): a Redis that goes back once more meanwhile is not
   reported. */
bool delivery_has_lost_data(const struct delivery *self);

/* True when the connection was lost and an attempt to reconnect has failed, or when the delivery
   has failed. */
bool delivery_is_unreachable(const struct delivery *self);

/* How often its connection was made again. */
uint64_t delivery_reconnections(const struct delivery *self);

#endif
