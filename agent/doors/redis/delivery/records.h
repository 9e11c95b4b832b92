#ifndef AGENT_DOORS_REDIS_DELIVERY_RECORDS_H
#define AGENT_DOORS_REDIS_DELIVERY_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/doors/redis/delivery/retention.h"
#include "agent/doors/redis/delivery/send_queue.h"
#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/link/command.h"
#include "base/buffer.h"
#include "wire/step_event.h"
#include "wire/step_result.h"

/*
 * What the agent writes to Redis, as commands in the send queue. Each call below adds one piece:
 * its commands are in one transaction, so that all of them are executed or none. Does no I/O.
 * Nothing here fails; it ends the program when out of memory.
 */
struct records {
  struct send_queue *send_queue;
  const struct keys *keys;
  struct command_head event;  /* the XADD */
  struct command_head result; /* the LPUSH */
  char ttl[24];               /* in seconds; empty: keys do not expire */
  struct buffer deferred;     /* the XADDs of deferred events */
  size_t deferred_commands;
  struct retention retention; /* of the queued events */
};

/* A step as it lies in the list `inflight`. The payload is borrowed. */
struct claimed {
  const char *payload;
  size_t length;
  bool
      truncated; /* only its beginning is known: it can be removed only as the oldest of the list */
};

/* Where a piece lies in the send queue, until it is delivered. */
struct piece_place {
  uint64_t end;        /* the send queue's `gone` at its delivery, at the least */
  const char *payload; /* of the step that it removes; NULL: it removes none */
  const char *result;  /* the JSON; NULL: it has none */
  size_t result_length;
};

/* Send queue and keys must outlive the records. The stream is trimmed by each XADD (MAXLEN ~), or
   with `keep_bytes` by itself: retention.h. `key_ttl_seconds` 0: keys do not expire. */
void records_init(struct records *self, struct send_queue *send_queue, const struct keys *keys,
                  unsigned long long events_maxlen, unsigned long long keep_bytes,
                  unsigned long long key_ttl_seconds);
void records_release(struct records *self);

/* Adds the event to the stream. */
void records_event(struct records *self, const struct step_event *event);

/* Trims the stream to this many entries; the others do so when the retention asks for it. */
void records_trim(struct records *self, uint64_t entries);

/* Defers the event until the next records_result with a `completed` event, which writes it into its
   piece, or until records_put_deferred, which makes one piece of all deferred events. Returns the
   bytes that are deferred. */
size_t records_defer_event(struct records *self, const struct step_event *event);
void records_put_deferred(struct records *self);

/* Sets the key `started` to this id, until the step's result; NULL: removes the key. */
void records_started(struct records *self, const char *step_id);

/* Pushes the result, after the step's last event (`completed`; NULL: none) and the deferred events,
   and removes the step from `inflight` (`claimed`; NULL: it is not there). `started`: removes the
   key `started`, too. */
struct piece_place records_result(struct records *self, const struct step_event *completed,
                                  const struct step_result *result, const struct claimed *claimed,
                                  bool started);

/* Removes a step from `inflight`, without a result; of a step that was claimed twice, and is not
   truncated, the newest of the equal payloads. */
struct piece_place records_removal(struct records *self, const struct claimed *claimed);
struct piece_place records_removal_of_copy(struct records *self, const struct claimed *claimed);

/* Puts a step into `inflight` as the oldest, once: where it is there already, it is moved. */
struct piece_place records_return(struct records *self, const struct claimed *claimed);

/* Restarts the time to live of all keys of the job but `committed` and `heartbeat`; without one it
   makes them stay, also where an earlier agent gave them one. */
void records_refresh(struct records *self);

/* Sets the key `heartbeat`, which then expires after `seconds`: the heartbeat has a connection of its own,
   this is for the time when it has none. Removes the key: the final DEL. */
void records_beat(struct records *self, const char *value, const char *seconds);
void records_remove_heartbeat(struct records *self);

#endif
