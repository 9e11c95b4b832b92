#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Remembers the steps that were started last, to recognize steps that Redis redelivers after it was
 * restored from a snapshot in which they had no answer yet. Intake calls it. It is pure.
 *
 * The hard part: a server may also use an id twice. So an id is compared only between a rollback,
 * which is any loss of data, and the time when Redis has delivered everything from that snapshot. A
 * step stays known after it was recognized once, because the snapshot may have several copies of
 * it, and because Redis may go back to the snapshot again unnoticed.
 *
 *   recent_steps_add               for each step that is started
 *   recent_steps_roll_back         when Redis has lost data
 *   recent_steps_mark_pending      then, for each step in memory whose answer is not delivered
 *   recent_steps_classify          for each step that arrives
 *   recent_steps_end_redelivery    when Redis can redeliver nothing anymore
 */
#define RECENT_STEPS_MAX 1024

struct recent_steps {
  uint64_t entries[RECENT_STEPS_MAX]; /* a ring; the hash of the id, and a state */
  size_t next;
};

enum recent_steps_class {
  RECENT_STEPS_NEW,
  RECENT_STEPS_DUPLICATE,  /* the answer to this step will be delivered, or was delivered since */
  RECENT_STEPS_RESULT_LOST /* it was started, and Redis has lost its result; once for each start */
};

void recent_steps_add(struct recent_steps *self, const char *step_id);

/* Returns how many of the remembered starts have this id. */
size_t recent_steps_count_starts(const struct recent_steps *self, const char *step_id);

void recent_steps_roll_back(struct recent_steps *self);

/* `started`: the newest start of this id is meant; else a step that has not started. */
void recent_steps_mark_pending(struct recent_steps *self, const char *step_id, bool started);

/* Returns true if Redis may redeliver a step: it has lost data, and recent_steps_end_redelivery was
   not called since. */
bool recent_steps_has_redeliverable(const struct recent_steps *self);

/* Returns true if a step with this id is in memory, or its answer will be delivered. */
bool recent_steps_is_pending(const struct recent_steps *self, const char *step_id);

enum recent_steps_class recent_steps_classify(struct recent_steps *self, const char *step_id);
void recent_steps_end_redelivery(struct recent_steps *self);
