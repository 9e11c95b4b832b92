#include "agent/doors/redis/in/reconcile.h"

#include <stdlib.h>

#include "wire/step_result.h"

static bool shutdown_waits(const struct step_queue *queue) {
  for (size_t i = 0; i < queue->count; i++)
    if (!queue->items[i]->refused && queue->items[i]->step.kind == &step_shutdown)
      return true;
  return false;
}

/* Ids are not told apart by kind. A cancel may come twice; a shutdown counts as a copy only where
   one waits already, since it must not be lost. */
enum recent_steps_verdict reconcile_judge(const struct reconcile *self,
                                          const struct claimed_step *step) {
  if (step->refused || step->step.kind == &step_cancel)
    return RECENT_STEPS_NEW;
  if (!step_is_work(&step->step) && !shutdown_waits(self->queue))
    return RECENT_STEPS_NEW;
  return recent_steps_judge(self->recent_steps, step->step.step_id);
}

static bool is_returning(const struct reconcile *self, const struct claimed_step *step) {
  return outbox_returns(self->outbox, &step->claimed);
}

static bool is_missing(const struct reconcile *self, const struct claimed_step *step) {
  return !step->seen && !step->gone && !is_returning(self, step);
}

static bool any(const struct reconcile *self,
                bool (*is)(const struct reconcile *self, const struct claimed_step *step)) {
  for (size_t i = 0; i < self->queue->count; i++)
    if (is(self, self->queue->items[i]))
      return true;
  return self->taken != NULL && is(self, self->taken);
}

bool reconcile_is_any_missing(const struct reconcile *self) {
  return any(self, is_missing);
}

bool reconcile_is_any_returning(const struct reconcile *self) {
  return any(self, is_returning);
}

static void hold(const struct reconcile *self, const struct claimed_step *step) {
  const char *step_id = step->step.step_id != NULL ? step->step.step_id : self->taken_id;
  if (step_id != NULL)
    recent_steps_hold(self->recent_steps, step_id, step == self->taken && self->taken_id != NULL);
}

/* Only the beginning of a truncated one is known. */
static void put_back(const struct reconcile *self, struct claimed_step *step) {
  step->gone = step->claimed.truncated;
  if (!step->gone)
    outbox_return(self->outbox, &step->claimed);
}

/* All of them, the newest first: each becomes the oldest of the list, so that their order stays. */
static void put_all_back(const struct reconcile *self) {
  for (size_t i = self->queue->count; i-- > 0;)
    put_back(self, self->queue->items[i]);
  if (self->taken != NULL)
    put_back(self, self->taken);
}

void reconcile_missing(const struct reconcile *self) {
  for (size_t i = 0; i < self->queue->count; i++)
    if (is_missing(self, self->queue->items[i]))
      hold(self, self->queue->items[i]);
  if (self->taken != NULL && is_missing(self, self->taken))
    hold(self, self->taken);
  put_all_back(self);
  outbox_flush(self->outbox);
}

static void hold_result(void *context, const char *json, size_t length) {
  const struct reconcile *self = context;
  char *step_id = step_result_read_id(json, length);
  if (step_id != NULL)
    recent_steps_hold(self->recent_steps, step_id, true);
  free(step_id);
}

void reconcile_forgotten(const struct reconcile *self,
                         bool (*is_known)(void *owner, const struct claimed_step *step),
                         void *owner) {
  recent_steps_roll_back(self->recent_steps);
  outbox_each_result(self->outbox, hold_result, (void *)(uintptr_t)self);
  if (self->taken != NULL)
    hold(self, self->taken);
  step_queue_drop_records(self->queue);
  step_queue_drop(self->queue, is_known, owner);
  for (size_t i = 0; i < self->queue->count; i++)
    hold(self, self->queue->items[i]);
  put_all_back(self);
  outbox_started(self->outbox, self->announced ? self->taken_id : NULL);
  outbox_flush(self->outbox);
}
