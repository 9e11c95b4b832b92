#ifndef AGENT_DOORS_REDIS_IN_STEP_QUEUE_H
#define AGENT_DOORS_REDIS_IN_STEP_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/out/records.h"
#include "base/error.h"
#include "wire/step.h"

/*
 * The steps that were taken and wait, oldest first. Pure.
 */
#define STEP_QUEUE_MAX 64

/* The sum of payloads from which on no more are taken; the last one may be as large as it likes. */
#define STEP_QUEUE_BYTES ((size_t)32 * 1024 * 1024)

/* One step, parsed, with the payload it came as: by that it is removed from the list. */
struct claimed_step {
  struct claimed claimed; /* its payload is owned */
  struct step step;
  bool refused;
  struct error error; /* why */
  bool seen;          /* by a recovery that is going on */
  bool gone;          /* it is not in the list any more */
};

struct claimed_step *claimed_step_new(const struct claimed *claimed);
void claimed_step_free(struct claimed_step *self);

struct step_queue {
  struct claimed_step *items[STEP_QUEUE_MAX];
  size_t count;
  size_t bytes;
};

void step_queue_release(struct step_queue *self);

bool step_queue_is_full(const struct step_queue *self);

/* The oldest; NULL when there is none. The caller's from here on. */
struct claimed_step *step_queue_pop(struct step_queue *self);

/* The oldest that is to be run and has this stepId, taken out; NULL when there is none. */
struct claimed_step *step_queue_take_run(struct step_queue *self, const char *step_id);

/* Takes out and frees those of which `drop` says so, the oldest first. */
void step_queue_drop(struct step_queue *self,
                     bool (*drop)(void *owner, const struct claimed_step *queued), void *owner);

/* For a recovery, which sees the steps in their order: none was seen; this one is: false when it is
   not there, or was seen. */
void step_queue_forget_seen(struct step_queue *self);
bool step_queue_see(struct step_queue *self, const struct claimed *claimed);

/* The place behind the last one that was seen. */
size_t step_queue_behind_seen(const struct step_queue *self);

/* The queue takes it over, at this place, at most `count`. When it is full the newest one has to
   go: it is returned, else NULL. */
struct claimed_step *step_queue_insert(struct step_queue *self, struct claimed_step *queued,
                                       size_t place);

bool claimed_step_is(const struct claimed_step *self, const struct claimed *claimed);

#endif
