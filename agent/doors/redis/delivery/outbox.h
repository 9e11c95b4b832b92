#ifndef AGENT_DOORS_REDIS_DELIVERY_OUTBOX_H
#define AGENT_DOORS_REDIS_DELIVERY_OUTBOX_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/delivery/delivery.h"
#include "agent/doors/redis/delivery/records.h"

/*
 * Where everything leaves for Redis except the heartbeat: events, results, and the bookkeeping of
 * steps, in order, over one connection. Each is encoded once, into the bytes that are sent
 * (records.h), and stays in the send queue until it is delivered, exactly once (delivery.h, which also
 * has the callbacks).
 *
 *   delivery_start(outbox->delivery)
 *     owned()                          the job is this agent's: outbox_refresh
 *   records_…(&outbox->records), outbox_flush
 *                                      what was added since the last flush leaves together
 *     delivered()                      outbox_is_empty and outbox_room have changed
 *
 * Records are added also when the outbox is full; a caller that can wait asks outbox_room first.
 */
struct outbox {
  struct send_queue send_queue;
  struct records records;
  struct delivery *delivery;
  struct event *trim; /* pending while the stream has to be trimmed later */
  struct event *refresh;
  int64_t refresh_ms; /* 0: never */
  size_t hold_bytes;
  size_t room_bytes;   /* queued; with no more there is room again */
  uint64_t beat_start; /* offset of the last beat in all bytes that were ever queued */
  size_t beat_length;  /* in bytes; 0: there was none */
};

/* The url, the keys, the log and the handler must outlive the outbox. What is not delivered when it is
   freed is lost. */
struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct delivery_options *options,
                          const struct delivery_handler *handler, void *owner);
void outbox_free(struct outbox *self);

/* Restarts the time to live of the job's keys, now and three times in each such time, at least once
   an hour. */
void outbox_refresh(struct outbox *self);

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

#endif
