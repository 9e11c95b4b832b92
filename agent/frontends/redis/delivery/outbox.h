#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/delivery/delivery.h"
#include "agent/frontends/redis/delivery/flow_control.h"
#include "agent/frontends/redis/delivery/retention.h"
#include "agent/frontends/redis/delivery/send_queue.h"
#include "agent/frontends/redis/keys.h"
#include "base/buffer.h"
#include "base/decimal.h"
#include "base/log.h"
#include "wire/step_report.h"

/*
 * Encodes everything that the agent writes to Redis, except the regular heartbeat: events, results
 * and the changes of the job's lists. The frontend and intake call it. Each write is encoded once,
 * as the bytes that are sent, and stays in the send queue until the delivery (delivery.h) has
 * executed it exactly once, in order.
 *
 *   delivery_start(outbox->delivery)
 *     DELIVERY_OWNED                        this agent owns the job: call outbox_refresh
 *   outbox_add_event, …, outbox_flush       sends everything that was added since the last flush
 *     DELIVERY_DELIVERED                    outbox_is_empty and outbox_capacity have changed
 *
 * The commands of one call are one group: they are in the same transaction, so that Redis executes
 * all of them or none. A call also adds to a full outbox; callers that can wait check
 * outbox_capacity first. Nothing here fails; running out of memory ends the program.
 */
struct outbox {
  const struct keys *keys;
  struct send_queue send_queue;
  struct delivery *delivery;
  struct buffer event;                    /* the beginning of each XADD */
  struct buffer trimming_event;           /* the same with MAXLEN; empty: XTRIM trims the stream */
  struct buffer result;                   /* the beginning of each LPUSH of a result */
  char ttl[DECIMAL_LENGTH_MAX + 1];       /* in seconds; empty: keys do not expire */
  char reply_ttl[DECIMAL_LENGTH_MAX + 1]; /* of the key of `reply_to` */
  struct buffer deferred;                 /* the encoded XADDs of deferred events */
  size_t deferred_commands;
  struct retention retention; /* of the queued events */
  struct flow_control flow;   /* of the same */
  struct event *trim;         /* pending while the stream has to be trimmed later */
  struct event *refresh;
  int64_t refresh_ms; /* 0: never */
  size_t hold_bytes;
  size_t capacity_bytes;  /* executions are woken when at most this many bytes are queued */
  uint64_t needed_end;    /* where the last event, record or outbox_end ends in all bytes that were
                             ever queued */
  uint64_t heartbeat_end; /* the same of the last outbox_set_heartbeat; 0: there was none */
};

/* A value of a list: a step or a control message. Borrowed. */
struct payload {
  const char *bytes;
  size_t length;
  bool is_truncated; /* only its beginning is known; it can be removed only as the oldest value */
};

static inline struct payload payload_of(const struct reply *reply) {
  return (struct payload){
      .bytes = reply->str, .length = reply->len, .is_truncated = reply->is_truncated};
}

/* The oldest value of each list is at its tail. */
enum outbox_list { OUTBOX_IN, OUTBOX_INFLIGHT, OUTBOX_CONTROL };
enum outbox_change_kind {
  OUTBOX_REMOVE_OLDEST,
  OUTBOX_REMOVE_NEWEST,
  OUTBOX_PUSH_OLDEST,
  OUTBOX_PUSH_NEWEST
};

/* A removal removes the oldest or the newest of the values that are equal to `value`. */
struct outbox_change {
  enum outbox_change_kind kind;
  enum outbox_list list;
  struct payload value;
};

/* Writes that Redis executes together or not at all. */
#define OUTBOX_CHANGES_MAX 3
struct outbox_record {
  const struct step_event *completed; /* the last event of the step; it follows the deferred ones.
                                         NULL: none */
  const struct step_result *result;   /* NULL: none */
  const char *reply_to;               /* of the step; NULL: the result stays in `results` */
  struct outbox_change changes[OUTBOX_CHANGES_MAX];
  size_t change_count;
  const char *started; /* the new value of the key `started`; NULL: it is not set */
  bool ends_started;   /* the key `started` is deleted, unless it is set */
};

/* Each XADD trims the stream (MAXLEN ~); with `events_keep_bytes`, or while a reader protects
   events, XTRIM does (retention.h). All arguments must outlive the outbox. Freeing the outbox loses
   everything that is not delivered. */
struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct delivery_options *options, const struct keys *keys,
                          const struct delivery_handler *handler, void *owner);
void outbox_free(struct outbox *self);

/* Appends the event to the stream. */
void outbox_add_event(struct outbox *self, const struct step_event *event);

/* Defers the event. The next outbox_write with a `completed` event adds all deferred events to its
   group; outbox_add_deferred adds them as a group of their own. Returns the total of deferred
   bytes. */
size_t outbox_defer_event(struct outbox *self, const struct step_event *event);
void outbox_add_deferred(struct outbox *self);

/* Adds the record. Returns the position in the send queue at which it ends: the record is delivered
   when send_queue.delivered is at least this. */
uint64_t outbox_write(struct outbox *self, const struct outbox_record *record);

/* The result of a step with `reply_to` is moved from `results` to `results:<reply_to>` in the same
   transaction. If Redis refuses that, it stays in `results`. The key expires after this time, or
   sooner with the job's other keys. */
#define REPLY_SECONDS_MAX 3600ULL

/* Calls `visit` with the last word of each command that is not delivered and has this name and this
   key, the oldest first: "LPUSH" with the results, or "LREM" with removed steps. The visitor may
   write. */
typedef void outbox_visitor(void *owner, const char *text, size_t length);
void outbox_for_each(const struct outbox *self, const char *command, const char *key,
                     outbox_visitor *visit, void *owner);

/* Restarts the time to live of all keys of the job except `committed` and `heartbeat`: now, and
   then three times per time to live, at least once an hour. If keys do not expire, removes the time
   to live that an earlier agent may have set. */
void outbox_refresh(struct outbox *self);

/* Adds the last write of a job that ends in order: it deletes the key `heartbeat`. See
   delivery_end. */
void outbox_end(struct outbox *self);

/* Sets the key `heartbeat`, which then expires after `seconds`. It stands in for the heartbeat's
   own connection while that one is lost. Returns false and does nothing if the previous one is not
   delivered yet, so at most one is queued. */
bool outbox_set_heartbeat(struct outbox *self, const char *value, const char *seconds);

/* Redis has lost data. */
void outbox_lose_data(struct outbox *self);

/* Sends everything that was added: at once, or after the batch that is under way. */
void outbox_flush(struct outbox *self);

/* Returns how many more bytes fit: 0 if the outbox is full, and SIZE_MAX if it is empty, so that
   one record of any size is accepted. */
size_t outbox_capacity(const struct outbox *self);

/* Returns true if enough is free that waking the executions is worthwhile. */
bool outbox_has_capacity_again(const struct outbox *self);

/* Returns true if everything is delivered, except what nobody waits for: heartbeats, times to live
   and trimming. */
bool outbox_is_empty(const struct outbox *self);
