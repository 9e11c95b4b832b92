#include "agent/frontends/redis/intake/intake_parts.h"

#include <string.h>

void intake_finish_unknown(struct intake_core *self, uint64_t before) {
  if (intake_is_late(self) || self->surplus > 0)
    return; /* `inflight` may have its step */
  for (struct control_message *at = self->control.oldest; at != NULL; at = at->newer)
    if (at->state == CONTROL_WAITS && at->number < before) {
      log_line(self->log, LOG_INFO, at->step_id, "cancel: no such step is running or waiting");
      control_messages_set(&self->control, at, CONTROL_DONE);
    }
}

bool intake_has_new_cancels(const struct intake_core *self, uint64_t seen) {
  return self->control.by_state[CONTROL_WAITS] > 0 && self->control.next > seen;
}

/* --- cancels whose step waits in `in` --------------------------------------------------------- */

static bool is_in_flight(const struct intake_core *self, const struct payload *payload) {
  return (self->running != NULL && held_step_is(self->running, payload)) ||
         (self->fetched != NULL && held_step_is(self->fetched, payload));
}

/* The result and the removals are one record. LREM searches from the nearer end of `in`. If another
   agent can still take steps, it may have moved the step to `inflight`, so the step is removed
   there, too; but not if it is a copy of a step that is in flight, because then that would go. */
static void end_waiting(struct intake_core *self, const struct held_step *step,
                        struct control_message *message) {
  struct outbox_record record = {0};
  bool is_newer = self->search.skip > self->search.length / 2;
  intake_add_change(&record, is_newer ? OUTBOX_REMOVE_NEWEST : OUTBOX_REMOVE_OLDEST, OUTBOX_IN,
                    &step->payload);
  if (intake_is_late(self) && !is_in_flight(self, &step->payload))
    intake_add_change(&record, OUTBOX_REMOVE_NEWEST, OUTBOX_INFLIGHT, &step->payload);
  if (message != NULL)
    intake_answer_cancelled(self, step, &record, message);
  else if (!intake_discard_copy(self, step, &record))
    return;
  self->search.skip--;
  self->search_end = self->written;
}

void intake_core_see_page(struct intake_core *self, size_t length) {
  self->search.length = length;
}

/* Whether the step may have an id that is looked for, which only parsing it tells: `stepId` and its
   value stand as they are, unless there is an escape. */
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

/* Also copies of steps that have run are sought, where Redis went back. */
void intake_core_see_step(struct intake_core *self, const struct payload *payload) {
  self->search.skip++;
  self->search.bytes += payload->length;
  if (self->state != INTAKE_READY ||
      (!self->search.has_copies && !may_match(&self->control, payload)))
    return;
  struct held_step *step = held_step_new(payload);
  struct control_message *message =
      held_step_is_work(step) ? control_messages_find(&self->control, step->step_id) : NULL;
  if (message != NULL || self->search.has_copies)
    end_waiting(self, step, message);
  held_step_free(step);
}

/* A page begins with one step, which may have 64 MiB, and grows twofold as long as steps are small.
   One that is too large for a page of its own is refused when its turn comes. */
static void end_page(struct intake_search *self, enum intake_page page) {
  bool is_cut = page == INTAKE_PAGE_CUT;
  self->skip += is_cut && self->count == 1;
  if (is_cut)
    self->count = 1;
  else if (self->bytes < INTAKE_PAGE_BYTES && self->count < INTAKE_SEARCH_MAX)
    self->count *= 2;
  else if (self->bytes > 2 * INTAKE_PAGE_BYTES && self->count > 1)
    self->count /= 2;
  self->bytes = 0;
}

void intake_core_see_end(struct intake_core *self, enum intake_page page) {
  struct intake_search *search = &self->search;
  self->activity = INTAKE_IDLE;
  self->control.user = CONTROL_OF_NOBODY;
  end_page(search, page);
  bool is_found = self->control.by_state[CONTROL_WAITS] == 0 && !search->has_copies;
  if (self->state != INTAKE_READY || page == INTAKE_PAGE_LAST || is_found)
    search->phase = INTAKE_SEARCH_OVER;
  if (self->state != INTAKE_READY || page != INTAKE_PAGE_LAST)
    return;
  search->done_number = search->number;
  intake_finish_unknown(self, search->number);
  self->searched_before = self->fetched;
}

/* A waiting step is then found when its turn comes. */
void intake_core_search_denied(struct intake_core *self) {
  log_line(self->log, LOG_WARN, NULL,
           "a cancel of a step that waits takes effect when its turn comes: redis refuses LRANGE; "
           "the user needs +lrange");
  self->activity = INTAKE_IDLE;
  self->control.user = CONTROL_OF_NOBODY;
  self->search.phase = INTAKE_SEARCH_DENIED;
}

/* --- control messages ------------------------------------------------------------------------- */

void intake_core_message(struct intake_core *self, const struct payload *payload) {
  if (control_messages_add(&self->control, payload)->step_id == NULL)
    log_line(self->log, LOG_WARN, NULL,
             "a control message of %zu bytes is no cancel with a stepId: removed", payload->length);
  self->actions->arrived(self->owner);
}

/* One whose beginning alone is known is removed when it is the oldest. */
static void remove_messages(struct intake_core *self) {
  bool is_oldest = true;
  for (struct control_message *at = self->control.oldest; at != NULL; at = at->newer) {
    if (at->state == CONTROL_DONE && (is_oldest || !at->payload.is_truncated)) {
      struct outbox_record record = {0};
      intake_add_change(&record, OUTBOX_REMOVE_OLDEST, OUTBOX_CONTROL, &at->payload);
      control_messages_remove(&self->control, at, intake_write(self, &record));
    }
    is_oldest &= at->state == CONTROL_REMOVED;
  }
}

void intake_obey(struct intake_core *self) {
  struct control_message *message;
  bool may_remove = control_messages_may_remove(&self->control);
  control_messages_delivered(&self->control, self->world.delivered);
  while (self->running != NULL &&
         (message = control_messages_find(&self->control, self->running->step_id)) != NULL) {
    self->actions->cancel(self->owner, message->step_id);
    control_messages_set(&self->control, message, CONTROL_DONE);
  }
  if (self->state == INTAKE_READY && may_remove && self->fetched != NULL &&
      held_step_is_work(self->fetched) &&
      (message = control_messages_find(&self->control, self->fetched->step_id)) != NULL) {
    struct outbox_record record = {0};
    intake_add_removal(&record, self->fetched);
    intake_answer_cancelled(self, self->fetched, &record, message);
    intake_drop_fetched(self);
  }
  if (may_remove && self->control.by_state[CONTROL_DONE] > 0)
    remove_messages(self);
}
