#include "agent/frontends/redis/intake/intake_answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "wire/json.h"

static const char interrupted_message[] =
    "interrupted: the agent ended while this step was running";

/* The most steps in one page of a search. */
#define SEARCH_PAGE_MAX 8192

/* --- writes ----------------------------------------------------------------------------------- */

void intake_add_change(struct outbox_record *record, enum outbox_change_kind kind,
                       enum outbox_list list, const struct payload *value) {
  CHECK(record->change_count < OUTBOX_CHANGES_MAX);
  record->changes[record->change_count++] =
      (struct outbox_change){.kind = kind, .list = list, .value = *value};
}

void intake_add_removal(struct outbox_record *record, const struct queued_step *step) {
  if (step->place != QUEUED_STEP_LOST)
    intake_add_change(record, OUTBOX_REMOVE_OLDEST, OUTBOX_INFLIGHT, &step->payload);
}

void intake_write(struct intake *self, const struct outbox_record *record) {
  if (record->result != NULL)
    self->handler->answered(self->owner, record->result);
  self->written = outbox_write(self->outbox, record);
}

void intake_move(struct intake *self, const struct queued_step *step,
                 enum outbox_change_kind removal, enum outbox_change_kind push,
                 enum outbox_list to) {
  struct outbox_record record = {0};
  intake_add_change(&record, removal, OUTBOX_INFLIGHT, &step->payload);
  intake_add_change(&record, push, to, &step->payload);
  intake_write(self, &record);
}

static void answer_by_agent(struct intake *self, const struct queued_step *step,
                            const struct outbox_record *record, enum step_cause cause,
                            const char *reason, int64_t event_count) {
  struct step_result result =
      step_result_of_agent(step_answer_version(&step->step), step->step_id, cause, reason);
  result.event_count = event_count;
  struct outbox_record answer = *record;
  answer.result = &result;
  answer.reply_to = step->reply_to;
  intake_write(self, &answer);
}

/* --- steps that Redis has redelivered --------------------------------------------------------- */

static bool is_shutdown(const struct queued_step *step) {
  return step != NULL && !step->is_rejected && step->step.kind == &step_shutdown;
}

/* Returns whether a step with this id may be discarded. A shutdown may be discarded only if another
   one has been fetched, because one must not be lost. */
static bool may_discard(const struct intake *self, const struct queued_step *step) {
  bool has_shutdown = self->fetched != step && is_shutdown(self->fetched);
  return queued_step_is_work(step) || (!step->is_rejected && has_shutdown);
}

static void answer_lost(struct intake *self, const struct queued_step *step,
                        const struct outbox_record *record) {
  log_line(self->log, LOG_WARN, step->step_id,
           "redis has lost the result of this step; it does not run again");
  answer_by_agent(self, step, record, STEP_CAUSE_LOST, intake_lost_message, -1);
}

/* Returns true if Redis has redelivered the step. The record, which removes the step, is then
   written; if the first result was lost, together with an answer that says so. */
static bool discard_redelivered(struct intake *self, const struct queued_step *step,
                                const struct outbox_record *record) {
  enum recent_steps_class class = RECENT_STEPS_NEW;
  if (may_discard(self, step))
    class = recent_steps_classify(&self->recent, step->step_id);
  if (class == RECENT_STEPS_DUPLICATE) {
    log_line(self->log, LOG_WARN, step->step_id,
             "redis has redelivered this step; it is answered once");
    intake_write(self, record);
  } else if (class == RECENT_STEPS_RESULT_LOST) {
    answer_lost(self, step, record);
  }
  return class != RECENT_STEPS_NEW;
}

static void answer_if_lost(void *owner, const char *bytes, size_t length) {
  struct intake *self = owner;
  struct queued_step *step = queued_step_new(&(struct payload){.bytes = bytes, .length = length});
  if (queued_step_is_work(step) && !recent_steps_is_pending(&self->recent, step->step_id) &&
      recent_steps_classify(&self->recent, step->step_id) == RECENT_STEPS_RESULT_LOST)
    answer_lost(self, step, &(struct outbox_record){0});
  queued_step_free(step);
}

void intake_answer_removed(struct intake *self) {
  outbox_for_each(self->outbox, "LREM", self->keys->inflight, answer_if_lost, self);
  outbox_for_each(self->outbox, "LREM", self->keys->in, answer_if_lost, self);
}

bool intake_is_cancel(const struct queued_step *step) {
  return !step->is_rejected && step->step.kind == &step_cancel;
}

static struct control_message *find_cancel(const struct intake *self,
                                           const struct queued_step *step) {
  return queued_step_is_work(step) ? control_messages_find(&self->control, step->step_id) : NULL;
}

/* If Redis has a copy of the step, that is discarded, and must be answered if it outlives the
   answer. */
static void answer_cancelled(struct intake *self, const struct queued_step *step,
                             struct outbox_record *record, struct control_message *message) {
  if (recent_steps_is_pending(&self->recent, step->step_id))
    recent_steps_mark_pending(&self->recent, step->step_id, true);
  log_line(self->log, LOG_INFO, step->step_id, "cancel: the waiting step will not run");
  intake_add_change(record, OUTBOX_REMOVE_OLDEST, OUTBOX_CONTROL, &message->payload);
  answer_by_agent(self, step, record, STEP_CAUSE_CANCELLED, "cancelled: by a cancel step", 0);
  control_messages_begin_removal(&self->control, message, self->written);
}

bool intake_filter_step(struct intake *self, const struct queued_step *step) {
  self->handler->arrived(self->owner);
  struct outbox_record record = {0};
  struct control_message *message = find_cancel(self, step);
  intake_add_change(&record, OUTBOX_REMOVE_NEWEST, OUTBOX_INFLIGHT, &step->payload);
  if (intake_is_cancel(step)) {
    intake_add_change(&record, OUTBOX_PUSH_NEWEST, OUTBOX_CONTROL, &step->payload);
    intake_write(self, &record);
  } else if (!discard_redelivered(self, step, &record)) {
    if (message == NULL || self->state != INTAKE_CHECKING ||
        !control_messages_may_remove(&self->control))
      return false;
    answer_cancelled(self, step, &record, message);
  }
  return true;
}

/* --- the step that an earlier agent had started ----------------------------------------------- */

/* Redis may lose the key after a check has read it. The step is answered nevertheless. */
void intake_read_started(struct intake *self, const struct payload *step_id) {
  const struct queued_step *running = self->running;
  bool is_own = running != NULL && running->is_announced &&
                strlen(running->step_id) == step_id->length &&
                memcmp(running->step_id, step_id->bytes, step_id->length) == 0;
  free(self->interrupted.id);
  self->interrupted.id = is_own ? NULL : memory_copy(step_id->bytes, step_id->length);
}

/* Finds the event in the newest entry of the stream: [[id, [field, value]]]. */
void intake_read_events(struct intake *self, const struct reply *entry) {
  struct intake_interrupted *interrupted = &self->interrupted;
  const struct reply *at = entry;
  for (size_t deep = 0; deep < 3 && at != NULL; deep++)
    at = at->type == REPLY_ARRAY && at->elements > 0 ? at->element[at->elements - 1] : NULL;
  interrupted->events = -1;
  interrupted->version = 1;
  if (interrupted->id != NULL && at != NULL && at->type == REPLY_STRING)
    interrupted->events =
        step_event_read_seq(at->str, at->len, interrupted->id, &interrupted->version);
}

/* If this agent has started the step, Redis went back to older data since, and redelivers it. */
void intake_answer_interrupted(struct intake *self, const struct queued_step *step) {
  const struct queued_step lone = {.step_id = self->interrupted.id,
                                   .step.schema_version = self->interrupted.version};
  struct outbox_record record = {.ends_started = true};
  if (step != NULL)
    intake_add_change(&record, OUTBOX_REMOVE_NEWEST, OUTBOX_INFLIGHT, &step->payload);
  bool was_started = recent_steps_count_starts(&self->recent, lone.step_id) > 0;
  if (was_started && step == NULL) {
    intake_write(self, &record);
  } else if (!was_started || !discard_redelivered(self, step, &record)) {
    log_line(self->log, LOG_WARN, lone.step_id, "%s", interrupted_message);
    recent_steps_add(&self->recent, lone.step_id);
    answer_by_agent(self, step != NULL ? step : &lone, &record, STEP_CAUSE_LOST,
                    interrupted_message, self->interrupted.events);
  }
  free(self->interrupted.id);
  self->interrupted.id = NULL;
}

bool intake_is_interrupted(const struct intake *self, const struct queued_step *step) {
  return self->interrupted.id != NULL && !intake_is_cancel(step) &&
         strcmp(step->step_id, self->interrupted.id) == 0;
}

/* --- steps that wait in `in` ------------------------------------------------------------------ */

static bool is_in_flight(const struct intake *self, const struct payload *payload) {
  return (self->running != NULL && queued_step_matches(self->running, payload)) ||
         (self->fetched != NULL && queued_step_matches(self->fetched, payload));
}

/* Answers a step of `in`. A redelivered step has an answer, so it is not cancelled: if no other
   step has its id, the cancel remains without a step. The answer and the removals are one record.
   LREM begins at the nearer end of the list, because it compares every step up to its target. A
   stale BLMOVE may have moved the step meanwhile, so it is removed from `inflight`, too; but not if
   the same step is in flight, which that would remove. */
static void answer_waiting_step(struct intake *self, const struct queued_step *step,
                                struct control_message *message) {
  struct outbox_record record = {0};
  bool is_newer = self->search.skip > self->search.length / 2;
  intake_add_change(&record, is_newer ? OUTBOX_REMOVE_NEWEST : OUTBOX_REMOVE_OLDEST, OUTBOX_IN,
                    &step->payload);
  if (self->stale_until_ms != 0 && !is_in_flight(self, &step->payload))
    intake_add_change(&record, OUTBOX_REMOVE_NEWEST, OUTBOX_INFLIGHT, &step->payload);
  bool is_discarded = discard_redelivered(self, step, &record);
  if (!is_discarded && message == NULL)
    return;
  if (!is_discarded)
    answer_cancelled(self, step, &record, message);
  self->search.skip--;
  self->search_end = self->written;
}

/* Returns whether a cancel for this step may exist. A fast test before parsing: if the payload has
   no escape, the id occurs in it literally. */
static bool may_match(const struct control_messages *control, const struct payload *payload) {
  char step_id[STEP_ID_MAX + 1];
  struct json_member id;
  if (memchr(payload->bytes, '\\', payload->length) != NULL)
    return true;
  if (!json_member_find(payload->bytes, payload->length, "stepId", &id) || id.length < 2 ||
      id.length > STEP_ID_MAX + 2)
    return false;
  memcpy(step_id, id.text + 1, id.length - 2);
  step_id[id.length - 2] = '\0';
  return control_messages_find(control, step_id) != NULL;
}

/* If Redis has lost data, redelivered steps are searched for, too. */
static void search_step(struct intake *self, const struct payload *payload) {
  self->search.skip++;
  self->search.page.bytes += payload->length;
  if (!self->search.with_redelivered && !may_match(&self->control, payload))
    return;
  struct queued_step *step = queued_step_new(payload);
  struct control_message *message = find_cancel(self, step);
  if (message != NULL || self->search.with_redelivered)
    answer_waiting_step(self, step, message);
  queued_step_free(step);
}

/* The first page has one step, because a step may have 64 MiB; the size doubles while the steps are
   small. */
void intake_set_next_page(struct intake_page *self, size_t most) {
  if (self->bytes < INTAKE_PAGE_BYTES)
    self->count = 2 * self->count < most ? 2 * self->count : most;
  else if (self->bytes > 2 * INTAKE_PAGE_BYTES && self->count > 1)
    self->count /= 2;
  self->bytes = 0;
}

void intake_end_search(struct intake *self) {
  if (self->search.phase == INTAKE_SEARCH_UNDER_WAY)
    self->search.phase = INTAKE_SEARCH_OVER;
}

/* LRANGE returns the newest step of the page first. A step that is too large for a page is skipped,
   and rejected when its turn comes. */
void intake_search_page(void *owner, size_t length, const struct reply *steps) {
  struct intake *self = owner;
  struct intake_search *search = &self->search;
  size_t wanted = search->page.count, count = steps != NULL ? steps->elements : 0;
  self->activity = INTAKE_IDLE;
  self->control.activity = CONTROL_IDLE;
  self->handler->changed(self->owner);
  if (self->state != INTAKE_READY || search->phase != INTAKE_SEARCH_UNDER_WAY)
    return;
  search->length = length;
  for (size_t i = count; i-- > 0;)
    search_step(
        self, &(struct payload){.bytes = steps->element[i]->str, .length = steps->element[i]->len});
  if (steps == NULL) {
    search->skip += wanted == 1;
    search->page = (struct intake_page){.count = 1};
    return;
  }
  intake_set_next_page(&search->page, SEARCH_PAGE_MAX);
  bool is_last = count < wanted;
  if (is_last || (self->control.by_state[CONTROL_PENDING] == 0 && !search->with_redelivered))
    search->phase = INTAKE_SEARCH_OVER;
  if (is_last)
    intake_finish_unmatched(self);
  if (is_last && self->fetched != NULL)
    self->fetched->search_until_ms = -1;
}

bool intake_has_unsearched_shutdown(const struct intake *self) {
  return is_shutdown(self->fetched) && self->fetched->search_until_ms >= 0 &&
         self->search.phase != INTAKE_SEARCH_DENIED &&
         recent_steps_has_redeliverable(&self->recent);
}

bool intake_may_search(const struct intake *self) {
  return self->search.phase == INTAKE_SEARCH_UNDER_WAY ||
         (self->search.phase == INTAKE_SEARCH_OVER &&
          (intake_has_new_cancels(self, self->looked_number) ||
           intake_has_unsearched_shutdown(self)));
}

/* No control messages are read meanwhile, because the steps in the page cause the removal of
   some. */
void intake_search(struct intake *self) {
  struct intake_search *search = &self->search;
  if (!control_messages_may_remove(&self->control))
    return;
  if (search->phase == INTAKE_SEARCH_OVER) {
    self->look_number = self->control.next_number;
    *search =
        (struct intake_search){.phase = INTAKE_SEARCH_UNDER_WAY,
                               .page.count = 1,
                               .with_redelivered = recent_steps_has_redeliverable(&self->recent)};
  }
  self->activity = INTAKE_SEARCHING;
  self->control.activity = CONTROL_SEARCHING;
  consumer_search(self->consumer, search->skip, search->page.count);
}

/* --- control messages ------------------------------------------------------------------------- */

void intake_message(struct intake *self, const struct payload *payload) {
  const struct control_message *message = control_messages_add(&self->control, payload);
  if (message->kind == CONTROL_READ)
    self->handler->read(self->owner, message->step_id, message->seq);
  else if (message->kind == CONTROL_MALFORMED)
    log_line(self->log, LOG_WARN, NULL,
             "a control message of %zu bytes is neither a cancel nor a read with a stepId: removed",
             payload->length);
  self->handler->arrived(self->owner);
}

void intake_finish_unmatched(struct intake *self) {
  self->looked_number = self->look_number;
  if (self->stale_until_ms != 0 || self->backlog > 0)
    return; /* `inflight` may have the step */
  const char *fetched =
      self->fetched != NULL && queued_step_is_work(self->fetched) ? self->fetched->step_id : "";
  for (struct control_message *at = self->control.oldest; at != NULL; at = at->newer)
    if (at->state == CONTROL_PENDING && at->number < self->look_number &&
        strcmp(at->step_id, fetched) != 0) {
      log_line(self->log, LOG_INFO, at->step_id, "cancel: no such step is running or waiting");
      control_messages_set_state(&self->control, at, CONTROL_DONE);
    }
}

bool intake_has_new_cancels(const struct intake *self, uint64_t seen) {
  return self->control.by_state[CONTROL_PENDING] > 0 && self->control.next_number > seen;
}

/* A truncated message can only be removed when it is the oldest. */
static void remove_messages(struct intake *self) {
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

void intake_apply_messages(struct intake *self) {
  struct control_message *message;
  bool may_remove = control_messages_may_remove(&self->control);
  control_messages_free_removed(&self->control, self->outbox->send_queue.delivered);
  while (self->running != NULL &&
         (message = control_messages_find(&self->control, self->running->step_id)) != NULL) {
    self->handler->cancel(self->owner, message->step_id);
    control_messages_set_state(&self->control, message, CONTROL_DONE);
  }
  if (self->state == INTAKE_READY && may_remove && self->fetched != NULL &&
      (message = find_cancel(self, self->fetched)) != NULL) {
    struct outbox_record record = {0};
    intake_add_removal(&record, self->fetched);
    answer_cancelled(self, self->fetched, &record, message);
    queued_step_free(self->fetched);
    self->fetched = NULL;
  }
  if (may_remove && self->control.by_state[CONTROL_DONE] > 0)
    remove_messages(self);
}
