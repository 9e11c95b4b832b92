#ifndef AGENT_DOORS_REDIS_DELIVERY_OUTBOX_H
#define AGENT_DOORS_REDIS_DELIVERY_OUTBOX_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/delivery/delivery.h"
#include "agent/doors/redis/delivery/records.h"
#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/net/url.h"
#include "base/error.h"
#include "base/log.h"
#include "wire/step_event.h"
#include "wire/step_result.h"

/*
 * Where everything leaves for Redis but the heartbeat: events, results, and the bookkeeping of
 * steps, in order, over one connection. Each is encoded once, into the bytes that are sent, and
 * stays in the send queue until it is delivered, exactly once (delivery.h, which also has the
 * callbacks).
 *
 *   outbox_start
 *     owned()                          the job is this agent's: outbox_refresh
 *   outbox_event …, outbox_flush       what was added since the last flush leaves together
 *   outbox_result, outbox_flush
 *     delivered()                      outbox_is_empty and outbox_room have changed
 */
struct outbox;

struct outbox_options {
  const struct redis_url *url;
  const struct keys *keys;
  const char *name;                     /* for CLIENT LIST */
  unsigned long long events_maxlen;     /* entries of the stream; 0: it is not trimmed */
  unsigned long long events_keep_bytes; /* of young events beyond them, see retention.h */
  unsigned long long key_ttl_seconds;   /* 0: keys do not expire */
  size_t hold_bytes; /* full from here on; what is added then is queued all the same */
};

/* The url, the keys, the log and the handler must outlive the outbox. */
struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct outbox_options *options,
                          const struct delivery_handler *handler, void *owner);
/* What is not delivered is lost. */
void outbox_free(struct outbox *self);

void outbox_start(struct outbox *self);

/* Restarts the time to live of the job's keys, now and three times in each such time, at least once
   an hour. */
void outbox_refresh(struct outbox *self);

/* What these write is in records.h. They add it also when the outbox is full; a caller that can
   wait asks outbox_room first. Nothing is sent before outbox_flush. */
void outbox_event(struct outbox *self, const struct step_event *event);

/* See records_defer_event. */
size_t outbox_defer_event(struct outbox *self, const struct step_event *event);
void outbox_put_deferred(struct outbox *self);

void outbox_started(struct outbox *self, const char *step_id);
struct piece_place outbox_result(struct outbox *self, const struct step_event *completed,
                                 const struct step_result *result, const struct claimed *claimed,
                                 bool started);
struct piece_place outbox_removal(struct outbox *self, const struct claimed *claimed);
struct piece_place outbox_removal_of_copy(struct outbox *self, const struct claimed *claimed);
struct piece_place outbox_return(struct outbox *self, const struct claimed *claimed);

/* The last record of a job that ends in order: removes the heartbeat. See delivery_end. */
void outbox_end(struct outbox *self);

/* Sets the key `heartbeat` for `seconds`. At most one is queued: returns false, and does nothing,
   while the one before is not delivered. */
bool outbox_beat(struct outbox *self, const char *value, const char *seconds);

/* Sends everything that was added: at once, or after the batch that is under way. */
void outbox_flush(struct outbox *self);

/* How many more bytes it takes until it is full: 0 when it is full; SIZE_MAX when it is empty, so
   that one record of any size is accepted. */
size_t outbox_room(const struct outbox *self);

/* True when there is enough room to wake those who wait for it: not for a few bytes only. */
bool outbox_has_room_again(const struct outbox *self);

/* True when everything is delivered. A queued heartbeat does not count: nobody waits for it. */
bool outbox_is_empty(const struct outbox *self);

/* Bytes that are not delivered; bytes that ever were: see struct piece_place. */
size_t outbox_bytes(const struct outbox *self);
uint64_t outbox_gone(const struct outbox *self);

/* See delivery_is_owner. */
bool outbox_is_owner(const struct outbox *self);

/* See delivery_had_owner, delivery_probe and delivery_check_owner. */
bool outbox_had_owner(const struct outbox *self);
void outbox_probe(struct outbox *self);
bool outbox_check_owner(struct outbox *self, const char *committed, size_t length);

/* See delivery_has_lost_data and delivery_is_unreachable. */
bool outbox_has_lost_data(const struct outbox *self);
bool outbox_is_unreachable(const struct outbox *self);

/* See delivery_query. */
struct redisReply;
void outbox_query(struct outbox *self, char *(*ask)(void *owner),
                  void (*answer)(void *owner, const struct redisReply *reply, bool whole),
                  void *owner);

#endif
