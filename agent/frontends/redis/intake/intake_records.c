#include "agent/frontends/redis/intake/intake_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

void intake_add_change(struct outbox_record *record, enum outbox_change_kind kind,
                       enum outbox_list list, const struct payload *value) {
  CHECK(record->change_count < OUTBOX_CHANGES_MAX);
  record->changes[record->change_count++] =
      (struct outbox_change){.kind = kind, .list = list, .value = *value};
}

uint64_t intake_write(struct intake_core *self, const struct outbox_record *record) {
  if (record->result != NULL)
    self->actions->answered(self->owner, record->result);
  return self->written = self->actions->write(self->owner, record);
}

void intake_add_removal(struct outbox_record *record, const struct held_step *step) {
  if (step->place != HELD_STEP_LOST)
    intake_add_change(record, OUTBOX_REMOVE_OLDEST, OUTBOX_INFLIGHT, &step->payload);
}

void intake_move(struct intake_core *self, const struct held_step *step,
                 enum outbox_change_kind removal, enum outbox_change_kind push,
                 enum outbox_list to) {
  struct outbox_record record = {0};
  intake_add_change(&record, removal, OUTBOX_INFLIGHT, &step->payload);
  intake_add_change(&record, push, to, &step->payload);
  (void)intake_write(self, &record);
}

/* An answer of the agent's own. */
uint64_t intake_answer_by_agent(struct intake_core *self, const struct held_step *step,
                                struct outbox_record *record, enum step_cause cause,
                                const char *reason, int64_t event_count) {
  struct step_result result =
      step_result_of_agent(step_answer_version(&step->step), step->step_id, cause, reason);
  result.event_count = event_count;
  record->result = &result;
  return intake_write(self, record);
}

void intake_drop_fetched(struct intake_core *self) {
  held_step_free(self->fetched);
  self->fetched = NULL;
}

static const char cancelled_result[] = "cancelled: by a cancel step";

void intake_answer_cancelled(struct intake_core *self, const struct held_step *step,
                             struct outbox_record *record, struct control_message *message) {
  log_line(self->log, LOG_INFO, step->step_id, "cancel: a step that was waiting will not run");
  if (message != NULL)
    intake_add_change(record, OUTBOX_REMOVE_OLDEST, OUTBOX_CONTROL, &message->payload);
  uint64_t end =
      intake_answer_by_agent(self, step, record, STEP_CAUSE_CANCELLED, cancelled_result, 0);
  if (message != NULL)
    control_messages_remove(&self->control, message, end);
}

/* --- steps that Redis hands out a second time ------------------------------------------------- */

/* Whether a step is told from others by its id. A shutdown is where one waits already; else it must
   not be lost. */
static bool has_identity(const struct intake_core *self, const struct held_step *step) {
  const struct held_step *fetched = self->fetched;
  bool has_shutdown = fetched != NULL && fetched != step && !fetched->is_refused &&
                      fetched->step.kind == &step_shutdown;
  return !step->is_refused && (step_is_work(&step->step) || has_shutdown);
}

static void answer_as_lost(struct intake_core *self, const struct held_step *step,
                           struct outbox_record *record) {
  log_line(self->log, LOG_WARN, step->step_id,
           "redis has lost the result of this step, which is not run again");
  (void)intake_answer_by_agent(self, step, record, STEP_CAUSE_LOST, intake_lost_result, -1);
}

static void remember_discard(struct intake_core *self, const struct held_step *step, uint64_t end) {
  const size_t size = strlen(step->step_id) + 1;
  struct intake_discard *discard = memory_allocate(sizeof *discard + size);
  *discard = (struct intake_discard){
      .next = self->discards, .end = end, .version = step_answer_version(&step->step)};
  memcpy(discard->step_id, step->step_id, size);
  self->discards = discard;
}

void intake_forget_discards(struct intake_core *self, uint64_t delivered) {
  for (struct intake_discard **at = &self->discards, *discard; (discard = *at) != NULL;)
    if (discard->end <= delivered) {
      *at = discard->next;
      free(discard);
    } else {
      at = &discard->next;
    }
}

/* The removals are sent again, also to a Redis that has no other trace of these steps. */
void intake_answer_discarded(struct intake_core *self) {
  for (const struct intake_discard *at = self->discards; at != NULL; at = at->next)
    if (recent_steps_judge(&self->recent, at->step_id) == RECENT_STEPS_ANSWERED) {
      const struct held_step step = {.step_id = (char *)(uintptr_t)at->step_id,
                                     .step.schema_version = at->version};
      answer_as_lost(self, &step, &(struct outbox_record){0});
    }
}

/* True when the step is removed, by the record, or answered as lost. */
bool intake_discard_copy(struct intake_core *self, const struct held_step *step,
                         struct outbox_record *record) {
  enum recent_steps_verdict verdict = RECENT_STEPS_NEW;
  if (has_identity(self, step))
    verdict = recent_steps_judge(&self->recent, step->step_id);
  if (verdict == RECENT_STEPS_HELD) {
    log_line(self->log, LOG_WARN, step->step_id,
             "redis hands out this step again; it is answered once");
    remember_discard(self, step, intake_write(self, record));
  } else if (verdict == RECENT_STEPS_ANSWERED) {
    answer_as_lost(self, step, record);
  }
  return verdict != RECENT_STEPS_NEW;
}

/* The same, of a step in `inflight`. */
bool intake_discard_taken_copy(struct intake_core *self, const struct held_step *step) {
  struct outbox_record record = {0};
  intake_add_change(&record, OUTBOX_REMOVE_NEWEST, OUTBOX_INFLIGHT, &step->payload);
  return intake_discard_copy(self, step, &record);
}

/* The cancel of a client that knows no `control`. */
bool intake_is_cancel(const struct held_step *step) {
  return !step->is_refused && step->step.kind == &step_cancel;
}

/* True when the step, which is in `inflight`, is none to be run or put back. */
bool intake_deal_with(struct intake_core *self, const struct held_step *step) {
  self->actions->arrived(self->owner);
  if (!intake_is_cancel(step))
    return intake_discard_taken_copy(self, step);
  intake_move(self, step, OUTBOX_REMOVE_NEWEST, OUTBOX_PUSH_NEWEST, OUTBOX_CONTROL);
  return true;
}
