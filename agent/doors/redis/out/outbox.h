#ifndef AGENT_DOORS_REDIS_OUT_OUTBOX_H
#define AGENT_DOORS_REDIS_OUT_OUTBOX_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/net/url.h"
#include "agent/doors/redis/out/records.h"
#include "base/error.h"
#include "base/log.h"
#include "wire/step_event.h"
#include "wire/step_result.h"

/*
 * The one way out: events, results and what goes with them, in order, over one connection. Each is
 * encoded once, into the bytes that are sent, and held until it is delivered, which happens exactly
 * once (delivery.h).
 *
 *   outbox_start
 *     reached()           connected, and an answer is due: time for something else
 *     claiming()          what is to be done with the claim, or not at all; may be NULL
 *     ready()             once: connected, and the job is this agent's
 *   outbox_event …, outbox_flush       a batch leaves together
 *   outbox_result, outbox_flush
 *     room()              after outbox_is_full: it no longer is
 *     empty()             everything is delivered, but perhaps for a beat
 *     forgotten()         Redis came back without what it had acknowledged
 *     gone()              Redis was lost, and one more attempt to come back to it has failed
 *     failed()            an error that does not pass: nothing more will be sent
 */
struct outbox;

struct outbox_options {
  const struct redis_url *url;
  const struct keys *keys;
  const char *name;                   /* for CLIENT LIST */
  unsigned long long events_maxlen;   /* of MAXLEN ~; 0: the stream is not trimmed */
  unsigned long long key_ttl_seconds; /* 0: keys do not expire */
  size_t hold_bytes;                  /* full from here on; a record is still taken whole */
};

struct outbox_handler {
  void (*connected)(void *owner);
  char *(*claiming)(void *owner); /* one encoded command, which is taken over and freed */
  void (*ready)(void *owner);
  void (*room)(void *owner);
  void (*empty)(void *owner);
  void (*forgotten)(void *owner);
  void (*gone)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

/* Url, keys, log and handler must outlive the outbox. */
struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct outbox_options *options,
                          const struct outbox_handler *handler, void *owner);
void outbox_free(struct outbox *self);

void outbox_start(struct outbox *self);

/* What these write is in records.h. They take always; a caller that can wait asks outbox_is_full
   before. */
void outbox_event(struct outbox *self, const struct step_event *event);
void outbox_started(struct outbox *self, const char *step_id);
void outbox_result(struct outbox *self, const struct step_event *completed,
                   const struct step_result *result, const struct claimed *claimed, bool started);
void outbox_removal(struct outbox *self, const struct claimed *claimed);
void outbox_removal_of_copy(struct outbox *self, const struct claimed *claimed);
void outbox_return(struct outbox *self, const struct claimed *claimed);
void outbox_farewell(struct outbox *self);

/* The agent is there. At most one such record is held: false, and nothing is done, as long as the
   one before is not delivered. */
bool outbox_beat(struct outbox *self, const char *value, const char *seconds);

/* Everything so far is to leave: at once, or with what follows the window that is on its way. */
void outbox_flush(struct outbox *self);

/* There is no room for so many bytes more; an empty one has room for everything. Whoever is told so
   waits for room(), and asks again. */
bool outbox_is_full(struct outbox *self, size_t more);

/* Also when it holds a beat and nothing else, which nobody waits for. */
bool outbox_is_empty(const struct outbox *self);

/* See delivery_is_claimed. */
bool outbox_is_ready(const struct outbox *self);

/* See delivery_had_owner, delivery_probe and delivery_is_ours. */
bool outbox_had_owner(const struct outbox *self);
void outbox_probe(struct outbox *self);
bool outbox_is_ours(struct outbox *self, const char *committed, size_t length);

/* Redis was lost, and an attempt to come back to it has failed; or the outbox has failed. */
bool outbox_is_gone(const struct outbox *self);

/* See records.h; the results are those that are not delivered. */
size_t outbox_removals(const struct outbox *self, const struct claimed *claimed);
bool outbox_returns(const struct outbox *self, const struct claimed *claimed);
void outbox_each_result(const struct outbox *self,
                        void (*result)(void *owner, const char *json, size_t length), void *owner);

/* See delivery_ask. */
struct redisReply;
void outbox_ask(struct outbox *self, char *commands,
                void (*answer)(void *owner, const struct redisReply *reply, bool whole),
                void *owner);

#endif
