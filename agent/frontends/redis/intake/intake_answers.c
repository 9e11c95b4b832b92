#include "agent/frontends/redis/intake/intake_answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

bool intake_may_have_stale_moves(const struct intake_core *self) {
  return self->stale_until_ms != 0;
}

/* --- writes ----------------------------------------------------------------------------------- */

void intake_add_change(struct outbox_record *record, enum outbox_change_kind kind,
                       enum outbox_list list, const struct payload *value) {
  CHECK(record->change_count < OUTBOX_CHANGES_MAX);
  record->changes[record->change_count++] =
      (struct outbox_change){.kind = kind, .list = list, .value = *value};
}

void intake_write(struct intake_core *self, const struct outbox_record *record) {
  if (record->result != NULL)
    self->handler->answered(self->owner, record->result);
  self->written = self->io->write(self->io_owner, record);
}

void intake_add_removal(struct outbox_record *record, const struct queued_step *step) {
  if (step->place != QUEUED_STEP_LOST)
    intake_add_change(record, OUTBOX_REMOVE_OLDEST, OUTBOX_INFLIGHT, &step->payload);
}

void intake_move(struct intake_core *self, const struct queued_step *step,
                 enum outbox_change_kind removal, enum outbox_change_kind push,
                 enum outbox_list to) {
  struct outbox_record record = {0};
  intake_add_change(&record, removal, OUTBOX_INFLIGHT, &step->payload);
  intake_add_change(&record, push, to, &step->payload);
  intake_write(self, &record);
}

void intake_answer_by_agent(struct intake_core *self, const struct queued_step *step,
                            const struct outbox_record *record, enum step_cause cause,
                            const char *reason, int64_t event_count) {
  struct step_result result =
      step_result_of_agent(step_answer_version(&step->step), step->step_id, cause, reason);
  result.event_count = event_count;
  struct outbox_record answer = *record;
  answer.result = &result;
  intake_write(self, &answer);
}

void intake_free_fetched(struct intake_core *self) {
  queued_step_free(self->fetched);
  self->fetched = NULL;
}

/* --- steps that Redis has redelivered --------------------------------------------------------- */

/* Returns whether a step with this id may be discarded. A shutdown may be discarded only if another
   one has been fetched, because one must not be lost. */
static bool may_discard(const struct intake_core *self, const struct queued_step *step) {
  const struct queued_step *fetched = self->fetched;
  bool has_shutdown = fetched != NULL && fetched != step && !fetched->is_rejected &&
                      fetched->step.kind == &step_shutdown;
  return !step->is_rejected && (step_is_work(&step->step) || has_shutdown);
}

static void answer_lost(struct intake_core *self, const struct queued_step *step,
                        struct outbox_record *record) {
  log_line(self->log, LOG_WARN, step->step_id,
           "redis has lost the result of this step; it does not run again");
  intake_answer_by_agent(self, step, record, STEP_CAUSE_LOST, intake_lost_message, -1);
}

static void add_discard(struct intake_core *self, const struct queued_step *step) {
  const size_t size = strlen(step->step_id) + 1;
  struct intake_discard *discard = memory_allocate(sizeof *discard + size);
  *discard = (struct intake_discard){
      .next = self->discards, .end = self->written, .version = step_answer_version(&step->step)};
  memcpy(discard->step_id, step->step_id, size);
  self->discards = discard;
}

void intake_free_discards(struct intake_core *self, uint64_t delivered) {
  for (struct intake_discard **at = &self->discards, *discard; (discard = *at) != NULL;)
    if (discard->end <= delivered) {
      *at = discard->next;
      free(discard);
    } else {
      at = &discard->next;
    }
}

void intake_answer_discarded(struct intake_core *self) {
  for (const struct intake_discard *at = self->discards; at != NULL; at = at->next)
    if (recent_steps_classify(&self->recent, at->step_id) == RECENT_STEPS_RESULT_LOST) {
      const struct queued_step step = {.step_id = (char *)(uintptr_t)at->step_id,
                                       .step.schema_version = at->version};
      answer_lost(self, &step, &(struct outbox_record){0});
    }
}

/* Returns true if Redis has redelivered the step. The record, which removes the step, is then
   written; if the first result was lost, together with an answer that says so. */
static bool discard_redelivered(struct intake_core *self, const struct queued_step *step,
                                struct outbox_record *record) {
  enum recent_steps_class class = RECENT_STEPS_NEW;
  if (may_discard(self, step))
    class = recent_steps_classify(&self->recent, step->step_id);
  if (class == RECENT_STEPS_DUPLICATE) {
    log_line(self->log, LOG_WARN, step->step_id,
             "redis has redelivered this step; it is answered once");
    intake_write(self, record);
    add_discard(self, step);
  } else if (class == RECENT_STEPS_RESULT_LOST) {
    answer_lost(self, step, record);
  }
  return class != RECENT_STEPS_NEW;
}

bool intake_discard_redelivered(struct intake_core *self, const struct queued_step *step) {
  struct outbox_record record = {0};
  intake_add_change(&record, OUTBOX_REMOVE_NEWEST, OUTBOX_INFLIGHT, &step->payload);
  return discard_redelivered(self, step, &record);
}

bool intake_is_cancel(const struct queued_step *step) {
  return !step->is_rejected && step->step.kind == &step_cancel;
}

bool intake_filter_step(struct intake_core *self, const struct queued_step *step) {
  self->handler->arrived(self->owner);
  if (!intake_is_cancel(step))
    return intake_discard_redelivered(self, step);
  intake_move(self, step, OUTBOX_REMOVE_NEWEST, OUTBOX_PUSH_NEWEST, OUTBOX_CONTROL);
  return true;
}

/* --- steps that wait in `in` ------------------------------------------------------------------ */

static void answer_cancelled(struct intake_core *self, const struct queued_step *step,
                             struct outbox_record *record, struct control_message *message) {
  log_line(self->log, LOG_INFO, step->step_id, "cancel: the waiting step will not run");
  intake_add_change(record, OUTBOX_REMOVE_OLDEST, OUTBOX_CONTROL, &message->payload);
  intake_answer_by_agent(self, step, record, STEP_CAUSE_CANCELLED, "cancelled: by a cancel step",
                         0);
  control_messages_begin_removal(&self->control, message, self->written);
}

static bool is_in_flight(const struct intake_core *self, const struct payload *payload) {
  return (self->running != NULL && queued_step_matches(self->running, payload)) ||
         (self->fetched != NULL && queued_step_matches(self->fetched, payload));
}

/* Answers a step of `in`. A redelivered step has an answer, so it is not cancelled: if no other
   step has its id, the cancel remains without a step. The answer and the removals are one record.
   LREM begins at the nearer end of the list, because it compares every step up to its target. A
   stale BLMOVE may have moved the step meanwhile, so it is removed from `inflight`, too; but not if
   the same step is in flight, which that would remove. */
static void answer_waiting_step(struct intake_core *self, const struct queued_step *step,
                                struct control_message *message) {
  struct outbox_record record = {0};
  bool is_newer = self->search.skip > self->search.length / 2;
  intake_add_change(&record, is_newer ? OUTBOX_REMOVE_NEWEST : OUTBOX_REMOVE_OLDEST, OUTBOX_IN,
                    &step->payload);
  if (intake_may_have_stale_moves(self) && !is_in_flight(self, &step->payload))
    intake_add_change(&record, OUTBOX_REMOVE_NEWEST, OUTBOX_INFLIGHT, &step->payload);
  bool is_discarded = discard_redelivered(self, step, &record);
  if (!is_discarded && message == NULL)
    return;
  if (!is_discarded)
    answer_cancelled(self, step, &record, message);
  self->search.skip--;
  self->search_end = self->written;
}

void intake_core_begin_search_page(struct intake_core *self, size_t length) {
  self->search.length = length;
}

/* Returns whether a cancel for this step may exist. A fast test before parsing: if the payload has
   no escape, `stepId` and its value occur in it literally. */
static bool may_match(const struct control_messages *control, const struct payload *payload) {
  static const char name[] = "\"stepId\"";
  const char *at = payload->bytes, *end = at + payload->length;
  if (memchr(at, '\\', payload->length) != NULL)
    return true;
  while ((at = memmem(at, (size_t)(end - at), name, sizeof name - 1)) != NULL) {
    char step_id[STEP_ID_MAX + 1];
    at += sizeof name - 1;
    const char *open = memchr(at, '"', (size_t)(end - at));
    const char *close = open != NULL ? memchr(open + 1, '"', (size_t)(end - open - 1)) : NULL;
    if (close == NULL || close - open - 1 > STEP_ID_MAX)
      continue;
    memcpy(step_id, open + 1, (size_t)(close - open - 1));
    step_id[close - open - 1] = '\0';
    if (control_messages_find(control, step_id) != NULL)
      return true;
  }
  return false;
}

/* If Redis has lost data, redelivered steps are searched for, too. */
void intake_core_search_step(struct intake_core *self, const struct payload *payload) {
  self->search.skip++;
  self->search.bytes += payload->length;
  if (self->state != INTAKE_READY ||
      (!self->search.with_redelivered && !may_match(&self->control, payload)))
    return;
  struct queued_step *step = queued_step_new(payload);
  struct control_message *message =
      queued_step_is_work(step) ? control_messages_find(&self->control, step->step_id) : NULL;
  if (message != NULL || self->search.with_redelivered)
    answer_waiting_step(self, step, message);
  queued_step_free(step);
}

/* Chooses the next page. The first page has one step, because a step may have 64 MiB; the size
   doubles while the steps are small. A step that is too large for a page is skipped, and rejected
   when its turn comes. */
static void set_next_page(struct intake_search *self, enum intake_page page) {
  bool is_too_large = page == INTAKE_PAGE_TOO_LARGE;
  self->skip += is_too_large && self->count == 1;
  if (is_too_large)
    self->count = 1;
  else if (self->bytes < INTAKE_PAGE_BYTES && self->count < INTAKE_SEARCH_MAX)
    self->count *= 2;
  else if (self->bytes > 2 * INTAKE_PAGE_BYTES && self->count > 1)
    self->count /= 2;
  self->bytes = 0;
}

void intake_core_end_search_page(struct intake_core *self, enum intake_page page) {
  struct intake_search *search = &self->search;
  self->activity = INTAKE_IDLE;
  self->control.activity = CONTROL_IDLE;
  set_next_page(search, page);
  bool is_found = self->control.by_state[CONTROL_PENDING] == 0 && !search->with_redelivered;
  if (self->state != INTAKE_READY || page == INTAKE_PAGE_LAST || is_found)
    search->phase = INTAKE_SEARCH_OVER;
  if (self->state != INTAKE_READY || page != INTAKE_PAGE_LAST)
    return;
  search->done_number = search->number;
  intake_finish_unmatched(self, search->number);
  self->searched_step = self->fetched;
}

/* A waiting step is then cancelled when its turn comes. */
void intake_core_search_denied(struct intake_core *self) {
  log_line(self->log, LOG_WARN, NULL,
           "a waiting step is cancelled only when its turn comes: redis refuses LRANGE; the user "
           "needs +lrange");
  self->activity = INTAKE_IDLE;
  self->control.activity = CONTROL_IDLE;
  self->search.phase = INTAKE_SEARCH_DENIED;
}

/* --- control messages ------------------------------------------------------------------------- */

void intake_core_message(struct intake_core *self, const struct payload *payload) {
  if (control_messages_add(&self->control, payload)->step_id == NULL)
    log_line(self->log, LOG_WARN, NULL,
             "a control message of %zu bytes is not a cancel with a stepId: removed",
             payload->length);
  self->handler->arrived(self->owner);
}

void intake_finish_unmatched(struct intake_core *self, uint64_t before) {
  if (intake_may_have_stale_moves(self) || self->backlog > 0)
    return; /* `inflight` may have the step */
  for (struct control_message *at = self->control.oldest; at != NULL; at = at->newer)
    if (at->state == CONTROL_PENDING && at->number < before) {
      log_line(self->log, LOG_INFO, at->step_id, "cancel: no such step is running or waiting");
      control_messages_set_state(&self->control, at, CONTROL_DONE);
    }
}

bool intake_has_new_cancels(const struct intake_core *self, uint64_t seen) {
  return self->control.by_state[CONTROL_PENDING] > 0 && self->control.next_number > seen;
}

/* A truncated message can only be removed when it is the oldest. */
static void remove_messages(struct intake_core *self) {
  bool is_oldest = true;
  for (struct control_message *at = self->control.oldest; at != NULL; at = at->newer) {
    if (at->state == CONTROL_DONE && (is_oldest || !at->payload.is_truncated)) {
      struct outbox_record record = {0};
      intake_add_change(&record, OUTBOX_REMOVE_OLDEST, OUTBOX_CONTROL, &at->payload);
      intake_write(self, &record);
      control_messages_begin_removal(&self->control, at, self->written);
    }
    is_oldest &= at->state == CONTROL_REMOVING;
  }
}

void intake_apply_messages(struct intake_core *self) {
  struct control_message *message;
  bool may_remove = control_messages_may_remove(&self->control);
  control_messages_free_removed(&self->control, self->context.delivered);
  while (self->running != NULL &&
         (message = control_messages_find(&self->control, self->running->step_id)) != NULL) {
    self->handler->cancel(self->owner, message->step_id);
    control_messages_set_state(&self->control, message, CONTROL_DONE);
  }
  if (self->state == INTAKE_READY && may_remove && self->fetched != NULL &&
      queued_step_is_work(self->fetched) &&
      (message = control_messages_find(&self->control, self->fetched->step_id)) != NULL) {
    struct outbox_record record = {0};
    intake_add_removal(&record, self->fetched);
    answer_cancelled(self, self->fetched, &record, message);
    intake_free_fetched(self);
  }
  if (may_remove && self->control.by_state[CONTROL_DONE] > 0)
    remove_messages(self);
}
