#include "agent/doors/redis/in/reconcile.h"

#include <stdlib.h>

#include "wire/step_result.h"

static void note_shutdown(void *context, struct claimed_step *queued) {
  bool *there = context;
  *there |= !queued->refused && queued->step.kind == &step_shutdown;
}

/* A cancel may come twice. A shutdown comes once more only where one waits already: ids are not
   told apart by kind, and it must not be lost. */
static bool may_come_once_more(struct reconcile *self, const struct claimed_step *queued) {
  bool waits = false;
  if (queued->refused || queued->step.kind == &step_cancel)
    return false;
  if (queued->step.kind == &step_shutdown)
    prefetch_each(self->prefetch, note_shutdown, &waits);
  return step_is_work(&queued->step) || waits;
}

bool reconcile_settles(struct reconcile *self, const struct claimed_step *queued) {
  const char *step_id = queued->step.step_id;
  if (!may_come_once_more(self, queued))
    return false;
  switch (recent_steps_judge(self->recent_steps, step_id)) {
  case RECENT_STEPS_NEW:
    return false;
  case RECENT_STEPS_HELD:
    log_line(self->log, LOG_WARN, step_id,
             "redis hands out this step once more; it is answered once");
    outbox_removal_of_copy(self->outbox, &queued->claimed);
    outbox_flush(self->outbox);
    break;
  case RECENT_STEPS_ANSWERED:
    log_line(self->log, LOG_WARN, step_id,
             "redis has lost the result of this step, which is not run again");
    self->lost(self->owner, queued);
  }
  return true;
}

/* The one that is running has given its id away. */
static void hold(void *context, struct claimed_step *queued) {
  struct reconcile *self = context;
  const char *step_id = queued->step.step_id;
  recent_steps_hold(self->recent_steps, step_id != NULL ? step_id : self->running);
}

static void hold_missing(void *context, struct claimed_step *queued) {
  const struct reconcile *self = context;
  if (prefetch_is_missing(self->prefetch, queued))
    hold(context, queued);
}

static void put_back(void *context, struct claimed_step *queued) {
  const struct reconcile *self = context;
  queued->gone = queued->claimed.truncated; /* only its beginning could be returned */
  if (!queued->claimed.truncated)
    outbox_return(self->outbox, &queued->claimed);
}

/* All are returned, so that their order stays. */
static void put_all_back(struct reconcile *self) {
  prefetch_each(self->prefetch, put_back, self);
  prefetch_wait_for_returns(self->prefetch);
}

/* Nothing that was delivered is lost, only that steps were taken: they may come again. */
void reconcile_missing(struct reconcile *self, const char *running) {
  self->running = running;
  log_line(self->log, LOG_WARN, NULL, "redis has lost that steps were taken");
  prefetch_each(self->prefetch, hold_missing, self);
  put_all_back(self);
  outbox_flush(self->outbox);
}

static void hold_result(void *context, const char *json, size_t length) {
  const struct reconcile *self = context;
  char *step_id = step_result_read_id(json, length);
  if (step_id != NULL)
    recent_steps_hold(self->recent_steps, step_id);
  free(step_id);
}

static bool is_twin(void *context, const struct claimed_step *queued) {
  return reconcile_settles(context, queued);
}

void reconcile_forgotten(struct reconcile *self, const char *running) {
  self->running = running;
  log_line(self->log, LOG_WARN, NULL,
           "redis has lost what it had acknowledged: it is empty, or back at an earlier state");
  recent_steps_roll_back(self->recent_steps);
  outbox_each_result(self->outbox, hold_result, self);
  if (running != NULL)
    recent_steps_hold(self->recent_steps, running);
  prefetch_drop(self->prefetch, is_twin, self);
  prefetch_each(self->prefetch, hold, self);
  put_all_back(self);
  outbox_started(self->outbox, running);
  outbox_flush(self->outbox);
}
