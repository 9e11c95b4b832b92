#ifndef AGENT_DOORS_REDIS_IN_STEP_QUEUE_H
#define AGENT_DOORS_REDIS_IN_STEP_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/doors/redis/out/records.h"
#include "base/error.h"
#include "wire/step.h"

/*
 * The steps that lie in `inflight` and wait, in the order in which they run:
 *
 *   oldest                                                                   newest
 *   items[0] … items[count-1]                records[first] … records[first+record_count-1]
 *   parsed, with their payload               a hash of the payload and of the id, nothing else
 *
 * The oldest are in memory. A step that does not fit is dropped to a record, and read again from
 * `inflight` when its turn comes. As long as there is a record, what arrives becomes a record too.
 * A payload belongs to a record when length and hash are equal; two payloads that are equal may be
 * taken for each other, for they are removed by their bytes as well.
 *
 * A scan compares the queue with the list, oldest first:
 *
 *   step_queue_begin_scan
 *   step_queue_see, step_queue_see_record, or step_queue_insert      each payload of the list
 *   step_queue_drop_unseen                    when it has come to the end
 *
 * Does no I/O.
 */

/* Steps in memory, from which on a step becomes a record; so it does when they hold as many bytes,
   payload and step, as payload_limit(). The last one in memory may be of any size. */
#define STEP_QUEUE_MAX 64

/* Records from which on no more steps are to be taken: 1.5 MiB of them. (A scan may exceed it by
   STEP_QUEUE_MAX.) */
#define STEP_QUEUE_RECORDS_MAX 65536

/* One step with the payload by which it is removed from the list, parsed. */
struct claimed_step {
  struct claimed claimed; /* its payload is owned */
  struct step step;
  bool refused;
  struct error error; /* why it is refused */
  bool seen;          /* by the scan that is going on */
  bool gone;          /* not in the list any more: it is answered without being removed */
};

struct claimed_step *claimed_step_new(const struct claimed *claimed);
void claimed_step_free(struct claimed_step *self);

/* Whether this is its payload. */
bool claimed_step_is(const struct claimed_step *self, const struct claimed *claimed);

/* What is left of a step that was dropped. Hashes are hash_bytes. */
struct step_record {
  uint64_t payload;
  uint64_t step_id;
  uint32_t length;    /* of the payload; of a truncated one, of its beginning */
  bool truncated : 1; /* as in struct claimed */
  bool runs : 1;      /* a cancel may mean it: not refused, and not a shutdown */
  bool cancelled : 1; /* it is to be answered, not run */
  bool seen : 1;
};

struct step_queue {
  struct claimed_step *items[STEP_QUEUE_MAX];
  size_t count;
  size_t bytes;
  struct step_record *records; /* owned; NULL: none */
  size_t first, record_count, capacity;
  size_t place; /* of a scan: behind the last step that was seen, counted from the oldest */
};

void step_queue_release(struct step_queue *self);

/* No step waits. */
bool step_queue_is_empty(const struct step_queue *self);

/* The oldest; NULL when none is in memory. step_queue_pop takes it out: it is the caller's. */
const struct claimed_step *step_queue_oldest(const struct step_queue *self);
struct claimed_step *step_queue_pop(struct step_queue *self);

/* Takes over the newest step. There must be room for its record. */
bool step_queue_has_room(const struct step_queue *self);
void step_queue_push(struct step_queue *self, struct claimed_step *step);

enum step_queue_cancel {
  STEP_QUEUE_NONE,
  STEP_QUEUE_TAKEN_OUT, /* it is in *step, and the caller's */
  STEP_QUEUE_MARKED     /* there is a record of it, which is marked as cancelled */
};

/* The oldest step that runs, has this id, and is not marked. *record is the number of a record. */
enum step_queue_cancel step_queue_cancel(struct step_queue *self, const char *step_id,
                                         struct claimed_step **step, size_t *record);

/* The record with this number, 0 for the oldest. */
struct step_record *step_queue_record(const struct step_queue *self, size_t number);
void step_queue_remove_record(struct step_queue *self, size_t number);
bool step_record_is(const struct step_record *self, const struct claimed *claimed);

/* The number of the first record that is marked as cancelled; record_count: there is none. */
size_t step_queue_first_cancelled(const struct step_queue *self);

/* There is a record, the first one is not marked, and there is room in memory; for the second, half
   of it is free, so that several are read at once. */
bool step_queue_can_reload(const struct step_queue *self);
bool step_queue_wants_more(const struct step_queue *self);

/* A payload was read again: where it is that of the first record, and step_queue_can_reload, the
   step is in memory from here on; else false. */
bool step_queue_reload(struct step_queue *self, const struct claimed *claimed);

/* Takes out and frees the steps in memory of which `drop` is true, the oldest first. */
void step_queue_drop(struct step_queue *self,
                     bool (*drop)(void *owner, const struct claimed_step *step), void *owner);

/* Forgets all records. */
void step_queue_drop_records(struct step_queue *self);

/* The second is for a scan that ends at the oldest step in memory. */
void step_queue_begin_scan(struct step_queue *self);
void step_queue_begin_peek(struct step_queue *self);

/* The next payload of the list is that of a record, and the next one in order. Cheap. */
bool step_queue_expects(const struct step_queue *self, const struct claimed *claimed);

/* Whether this payload is that of a step that was not seen; it is now. Of a step in memory; of a
   record behind those that were seen, whose number is *record then. */
bool step_queue_see(struct step_queue *self, const struct claimed *claimed);
bool step_queue_see_record(struct step_queue *self, const struct claimed *claimed, size_t *record);

/* Takes over a step that the scan found behind the last one that was seen. Newer ones become
   records, if need be. */
void step_queue_insert(struct step_queue *self, struct claimed_step *step);

/* Forgets the records that were not seen; returns their number. */
size_t step_queue_drop_unseen(struct step_queue *self);

#endif
