#ifndef AGENT_FRONTENDS_REDIS_DELIVERY_OUTBOX_H
#define AGENT_FRONTENDS_REDIS_DELIVERY_OUTBOX_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/delivery/delivery.h"
#include "agent/frontends/redis/delivery/retention.h"
#include "agent/frontends/redis/delivery/send_queue.h"
#include "agent/frontends/redis/keys.h"
#include "base/buffer.h"
#include "base/decimal.h"
#include "base/log.h"
#include "wire/step_report.h"

/*
 * Where everything leaves for Redis except the heartbeat: events, results, and the bookkeeping of
 * steps, in order, over one connection. Each is encoded once, into the bytes that are sent, and
 * stays in the send queue until it is delivered, exactly once (delivery.h, which also has the
 * news).
 *
 *   delivery_start(outbox->delivery)
 *     DELIVERY_OWNED                   the job is this agent's: outbox_refresh
 *   outbox_event, …, outbox_flush      what was added since the last flush leaves together
 *     DELIVERY_DELIVERED               outbox_is_empty and outbox_capacity have changed
 *
 * Each call that adds adds one piece: its commands are in one transaction, so that all of them are
 * executed or none. It does so also when the outbox is full; a caller that can wait asks
 * outbox_capacity first. Nothing here fails; it ends the program when out of memory.
 */
struct outbox {
  const struct keys *keys;
  struct send_queue send_queue;
  struct delivery *delivery;
  struct command_head event;        /* the XADD */
  struct command_head result;       /* the LPUSH */
  char ttl[DECIMAL_LENGTH_MAX + 1]; /* in seconds; empty: keys do not expire */
  struct buffer deferred;           /* the XADDs of deferred events */
  size_t deferred_commands;
  struct retention retention; /* of the queued events */
  struct event *trim;         /* pending while the stream has to be trimmed later */
  struct event *refresh;
  int64_t refresh_ms; /* 0: never */
  size_t hold_bytes;
  size_t capacity_bytes; /* wake those who wait once at most this much is queued */
  uint64_t beat_start;   /* offset of the last beat in all bytes that were ever queued */
  size_t beat_length;    /* in bytes; 0: there was none */
};

/* A value of a list, a step or a control message; borrowed. */
struct payload {
  const char *bytes;
  size_t length;
  bool is_truncated; /* only its beginning is known: it is removed only as the oldest of its list */
};

/* The oldest value of a list is at its tail. */
enum outbox_list { OUTBOX_IN, OUTBOX_INFLIGHT, OUTBOX_CONTROL };
enum outbox_change_kind {
  OUTBOX_REMOVE_OLDEST,
  OUTBOX_REMOVE_NEWEST,
  OUTBOX_PUSH_OLDEST,
  OUTBOX_PUSH_NEWEST
};

/* Of values that are equal, the oldest or the newest is removed. */
struct outbox_change {
  enum outbox_change_kind kind;
  enum outbox_list list;
  struct payload value;
};

/* What is executed together, or not at all. */
#define OUTBOX_CHANGES_MAX 3
struct outbox_record {
  const struct step_event
      *completed;                   /* the step's last event, after the deferred ones; NULL: none */
  const struct step_result *result; /* NULL: none */
  struct outbox_change changes[OUTBOX_CHANGES_MAX];
  size_t change_count;
  const char *started; /* the key `started` is set to this; NULL: it is not, and */
  bool ends_started;   /* it is deleted */
};

/* The stream is trimmed by each XADD (MAXLEN ~), or with `events_keep_bytes` by itself:
   retention.h. All must outlive the outbox. What is not delivered when it is freed is lost. */
struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct delivery_options *options, const struct keys *keys,
                          const struct delivery_handler *handler, void *owner);
void outbox_free(struct outbox *self);

/* Adds the event to the stream. */
void outbox_event(struct outbox *self, const struct step_event *event);

/* Defers the event until the next outbox_write with a `completed` event, which writes it into its
   piece, or until outbox_put_deferred, which makes one piece of all deferred events. Returns the
   bytes that are deferred. */
size_t outbox_defer_event(struct outbox *self, const struct step_event *event);
void outbox_put_deferred(struct outbox *self);

/* Adds the record. It is delivered when the send queue's `gone` is at least what is returned. */
uint64_t outbox_write(struct outbox *self, const struct outbox_record *record);

/* Calls back with the JSON of each result that is not delivered, the oldest first. */
typedef void outbox_result_seen(void *owner, const char *json, size_t length);
void outbox_each_result(const struct outbox *self, outbox_result_seen *seen, void *owner);

/* Restarts the time to live of all keys of the job but `committed` and `heartbeat`, now and three
   times in each such time, at least once an hour; without one it makes them stay, also where an
   earlier agent gave them one. */
void outbox_refresh(struct outbox *self);

/* The last record of a job that ends in order: removes the heartbeat. See delivery_end. */
void outbox_end(struct outbox *self);

/* Sets the key `heartbeat`, which then expires after `seconds`: the heartbeat has a connection of
   its own, this is for the time when it has none. At most one is queued: returns false, and does
   nothing, while the one before is not delivered. */
bool outbox_beat(struct outbox *self, const char *value, const char *seconds);

/* Sends everything that was added: at once, or after the batch that is under way. */
void outbox_flush(struct outbox *self);

/* How many more bytes it takes until it is full: 0 when it is full; SIZE_MAX when it is empty, so
   that one record of any size is accepted. */
size_t outbox_capacity(const struct outbox *self);

/* True if enough is free to wake those who wait for it: not for a few bytes only. */
bool outbox_has_capacity_again(const struct outbox *self);

/* True when everything is delivered. A queued heartbeat does not count: nobody waits for it. */
bool outbox_is_empty(const struct outbox *self);

#endif
