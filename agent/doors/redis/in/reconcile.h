#ifndef AGENT_DOORS_REDIS_IN_RECONCILE_H
#define AGENT_DOORS_REDIS_IN_RECONCILE_H

#include <stdbool.h>

#include "agent/doors/redis/in/recent_steps.h"
#include "agent/doors/redis/in/step_queue.h"
#include "agent/doors/redis/out/outbox.h"

/*
 * Redis lost data (restored from an older snapshot, or empty). Puts back what this agent still
 * knows, and makes sure that a step handed out a second time neither runs nor is answered twice.
 *
 * What is in memory is put back as the oldest of `inflight`, in order; when Redis hands out a copy
 * of it, the copy is removed. What was dropped to a record cannot be put back. The records are
 * forgotten: such a step is in the restored lists, and is found there as if it were new, or it is
 * lost with Redis, like a step that still lay in `in`.
 */

/* What is known here, for the length of a call. */
struct reconcile {
  struct outbox *outbox;
  struct recent_steps *recent_steps; /* every step that was started */
  struct step_queue *queue;
  struct claimed_step *taken; /* given out and not released; NULL: none is */
  const char *taken_id;       /* its stepId: a run may have taken over that of the step */
  bool announced;             /* Redis has that the taken step was started, or gets it */
};

/* What is to be done with a step that arrives, by its id and kind. */
enum recent_steps_verdict reconcile_judge(const struct reconcile *self,
                                          const struct claimed_step *step);

/* Redis lost what it had acknowledged. `is_known` disposes of a waiting step that reconcile_judge
   knows, and returns true for it. */
void reconcile_forgotten(const struct reconcile *self,
                         bool (*is_known)(void *owner, const struct claimed_step *step),
                         void *owner);

/* Nothing that was delivered is lost, only that steps were taken, as a scan has found. */
void reconcile_missing(const struct reconcile *self);

/* A step in memory was not seen by a scan of the whole list, and will not be put back either. */
bool reconcile_is_any_missing(const struct reconcile *self);

/* Steps are on their way back into the list. Until they are there no copy of them may be taken,
   which would be removed in their place. */
bool reconcile_is_any_returning(const struct reconcile *self);

#endif
