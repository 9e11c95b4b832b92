#ifndef AGENT_DOORS_REDIS_OUT_DELIVERY_H
#define AGENT_DOORS_REDIS_OUT_DELIVERY_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/net/url.h"
#include "agent/doors/redis/out/send_queue.h"
#include "base/error.h"
#include "base/log.h"

/*
 * Brings what is held to Redis: every window exactly once and in order, across any number of lost
 * connections, and only as long as the job is this agent's.
 *
 *   delivery_start
 *     reached()         connected, and an answer is due: time for something else
 *     claiming()        what is to be done with the claim, or not at all; may be NULL
 *     claimed()         once: the job is this agent's
 *   delivery_go         there is something in the hold
 *     delivered()       a window arrived, and has left the hold
 *     forgotten()       Redis came back without what it had acknowledged; what follows is sent all
 *                       the same
 *     unreachable()     Redis was lost, and one more attempt to come back to it has failed
 *     failed()          an error that does not pass: nothing more will be sent
 *
 * No callback comes from inside delivery_start, or from one of the functions below it.
 */
struct delivery;

struct delivery_options {
  const struct redis_url *url;
  const struct keys *keys;
  const char *name;                   /* for CLIENT LIST */
  unsigned long long key_ttl_seconds; /* 0: the claim does not expire */
};

struct delivery_handler {
  void (*connected)(void *owner);
  char *(*claiming)(void *owner); /* one encoded command, which is taken over and freed */
  void (*claimed)(void *owner);
  void (*delivered)(void *owner);
  void (*forgotten)(void *owner);
  void (*unreachable)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

/* Url, keys, log, hold and handler must outlive the delivery. */
struct delivery *delivery_new(struct event_base *base, const struct log *log,
                              const struct delivery_options *options, struct send_queue *send_queue,
                              const struct delivery_handler *handler, void *owner);
void delivery_free(struct delivery *self);

void delivery_start(struct delivery *self);
void delivery_go(struct delivery *self);

/*
 * Asks one question between two windows, when it is known what has arrived; before the job is
 * claimed, together with the claim. It is one command or several, which may be asked twice: what is
 * not answered is asked again after a lost connection. `answer` is called once for each, in order,
 * unless the delivery fails; `whole` is false when what came is only the beginning of a string that
 * is larger than a payload may be. The text is taken over and freed. One question at a time: the
 * next one from inside the last answer.
 */
void delivery_ask(struct delivery *self, char *commands,
                  void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner);

/* The job is claimed: looks now whether Redis answers, and still has what it acknowledged. */
void delivery_probe(struct delivery *self);

/* The job is claimed, and somebody has read this value of `committed` (NULL: there is none): false
   when it names another agent. Looks for itself when it is not as expected. */
bool delivery_is_ours(struct delivery *self, const char *committed, size_t length);

/* The job was claimed: it is this agent's, unless the delivery has failed since. */
bool delivery_is_claimed(const struct delivery *self);

/* Another agent had the job before this one, as far as Redis knows. */
bool delivery_had_owner(const struct delivery *self);

/* Redis was lost, and an attempt to come back to it has failed; or the delivery has failed. */
bool delivery_is_gone(const struct delivery *self);

#endif
