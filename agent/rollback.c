#include "agent/rollback.h"

#include <stdlib.h>

#include "wire/step_result.h"

static void note_shutdown(void *context, struct queued *queued) {
  bool *there = context;
  *there |= !queued->refused && queued->step.kind == &step_shutdown;
}

/* A cancel may come twice. A shutdown comes once more only where one waits already: ids are not
   told apart by kind, and it must not be lost. */
static bool may_come_once_more(struct rollback *self, const struct queued *queued) {
  bool waits = false;
  if (queued->refused || queued->step.kind == &step_cancel)
    return false;
  if (queued->step.kind == &step_shutdown)
    supply_each(self->supply, note_shutdown, &waits);
  return step_is_work(&queued->step) || waits;
}

bool rollback_settles(struct rollback *self, const struct queued *queued) {
  const char *step_id = queued->step.step_id;
  if (!may_come_once_more(self, queued))
    return false;
  switch (history_judge(self->history, step_id)) {
  case HISTORY_NEW:
    return false;
  case HISTORY_HELD:
    log_line(self->log, LOG_WARN, step_id,
             "redis hands out this step once more; it is answered once");
    outbox_removal_of_copy(self->outbox, &queued->taken);
    outbox_flush(self->outbox);
    break;
  case HISTORY_ANSWERED:
    log_line(self->log, LOG_WARN, step_id,
             "redis has lost the result of this step, which is not run again");
    self->lost(self->owner, queued);
  }
  return true;
}

/* The one that is running has given its id away. */
static void hold(void *context, struct queued *queued) {
  struct rollback *self = context;
  const char *step_id = queued->step.step_id;
  history_hold(self->history, step_id != NULL ? step_id : self->running);
}

static void hold_missing(void *context, struct queued *queued) {
  const struct rollback *self = context;
  if (supply_is_missing(self->supply, queued))
    hold(context, queued);
}

static void put_back(void *context, struct queued *queued) {
  const struct rollback *self = context;
  queued->gone = !queued->taken.whole; /* only its beginning could be returned */
  if (queued->taken.whole)
    outbox_return(self->outbox, &queued->taken);
}

/* All are returned, so that their order stays. */
static void put_all_back(struct rollback *self) {
  supply_each(self->supply, put_back, self);
  supply_wait_for_returns(self->supply);
}

/* Nothing that was delivered is lost, only that steps were taken: they may come again. */
void rollback_missing(struct rollback *self, const char *running) {
  self->running = running;
  log_line(self->log, LOG_WARN, NULL, "redis has lost that steps were taken");
  supply_each(self->supply, hold_missing, self);
  put_all_back(self);
  outbox_flush(self->outbox);
}

static void hold_result(void *context, const char *json, size_t length) {
  const struct rollback *self = context;
  char *step_id = step_result_read_id(json, length);
  if (step_id != NULL)
    history_hold(self->history, step_id);
  free(step_id);
}

static bool is_twin(void *context, const struct queued *queued) {
  return rollback_settles(context, queued);
}

void rollback_forgotten(struct rollback *self, const char *running) {
  self->running = running;
  log_line(self->log, LOG_WARN, NULL,
           "redis has lost what it had acknowledged: it is empty, or back at an earlier state");
  history_roll_back(self->history);
  outbox_each_result(self->outbox, hold_result, self);
  if (running != NULL)
    history_hold(self->history, running);
  supply_drop(self->supply, is_twin, self);
  supply_each(self->supply, hold, self);
  put_all_back(self);
  outbox_started(self->outbox, running);
  outbox_flush(self->outbox);
}
