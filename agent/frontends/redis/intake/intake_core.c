#include "agent/frontends/redis/intake/intake_core.h"
#include "agent/frontends/redis/intake/intake_answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

/* The pause between comparisons if the lengths still differ after a correction. Redis then does not
   keep what is written. */
#define MISMATCH_PAUSE_MS 1000

/* More steps than stale BLMOVEs can move in INTAKE_STALE_MS. */
#define STALE_STEPS_MAX 4

/* How long a shutdown waits for the search for redelivered steps. The search does not end if the
   consumer's connection is lost. */
#define SHUTDOWN_SEARCH_MS 5000

#define SEEN_RUNNING 1U
#define SEEN_FETCHED 2U

const char intake_lost_message[] = "lost: the step has run, and redis has lost its result";
static const char interrupted_message[] =
    "interrupted: the agent ended while this step was running";

/* A BLMOVE may be stale from now on. The next intake_core_advance knows the time and sets the
   limit. */
static void expect_stale_moves(struct intake_core *self) {
  self->stale_until_ms = -1;
}

static void end_search(struct intake_core *self) {
  if (self->search.phase == INTAKE_SEARCH_UNDER_WAY)
    self->search.phase = INTAKE_SEARCH_OVER;
}

static void abandon_scan(struct intake_core *self) {
  queued_step_free(self->scan.oldest_kept);
  self->scan.oldest_kept = NULL;
  self->scan.kept = 0;
  if (self->query != INTAKE_QUERY_NONE)
    self->query = INTAKE_QUERY_ABANDONED;
}

/* Compares the lengths again, because `inflight` may have changed in another way than by a write of
   this agent, or during a scan. The scan then begins again after the comparison. */
static void recheck_inflight(struct intake_core *self) {
  if (self->state == INTAKE_SCANNING)
    abandon_scan(self);
  if (self->state == INTAKE_SCANNING || self->state == INTAKE_READY)
    self->state = INTAKE_COMPARING;
}

/* Returns whether Redis, after a reconnect, may be back at an earlier state in which `in` still has
   the running step, although it has every batch that it had acknowledged. If the start of the step
   was acknowledged, it has the BLMOVE, too. */
static bool may_be_missing(const struct intake_core *self) {
  const struct queued_step *step = self->running;
  return step != NULL && (!step->is_announced || step->start_end > self->context.delivered);
}

/* Redis may be back at an earlier state. `inflight` may then have as many steps as the agent knows,
   but other ones. */
static void doubt_inflight(struct intake_core *self) {
  if (may_be_missing(self))
    self->running->is_doubtful = true;
  self->needs_scan = true;
  recheck_inflight(self);
}

/* --- a loss of data --------------------------------------------------------------------------- */

void intake_core_mark_pending(struct intake_core *self, const char *step_id) {
  recent_steps_mark_pending(&self->recent, step_id, true);
}

/* Restores the running and the fetched step as the oldest steps of `inflight`. The fetched one is
   pushed first, so that their order stays. A step that is still in the list is moved. A truncated
   step cannot be restored, because only its beginning is known. */
static void restore_steps(struct intake_core *self) {
  struct queued_step *const steps[] = {self->fetched, self->running};
  for (size_t i = 0; i < 2; i++) {
    struct queued_step *step = steps[i];
    if (step == NULL)
      continue;
    recent_steps_mark_pending(&self->recent, step->step_id, step == self->running);
    step->place = step->payload.is_truncated ? QUEUED_STEP_LOST : QUEUED_STEP_RESTORED;
    if (step->place == QUEUED_STEP_RESTORED)
      intake_move(self, step, OUTBOX_REMOVE_OLDEST, OUTBOX_PUSH_OLDEST, OUTBOX_INFLIGHT);
  }
  self->timeouts = 0;
}

/* Restores the key `started`. At startup it is not deleted, because it may name a step of an
   earlier agent that was not read yet. */
static void restore_started(struct intake_core *self) {
  struct outbox_record record = {.started = self->interrupted.id};
  if (self->running != NULL && self->running->is_announced)
    record.started = self->running->step_id;
  record.ends_started = record.started == NULL && self->compare != INTAKE_QUERY_STARTUP;
  intake_write(self, &record);
}

bool intake_core_lose_data(struct intake_core *self, const struct intake_context *context) {
  struct queued_step *running = self->running;
  bool again = running != NULL && recent_steps_count_starts(&self->recent, running->step_id) > 1;
  log_line(self->log, LOG_WARN, NULL,
           "redis has lost what it had acknowledged: it is empty, or back at an earlier state");
  self->context = *context;
  self->is_unverified = true;
  self->backlog = 0;
  self->confirmed = self->searched_step = NULL;
  self->search_deadline_ms = 0;
  abandon_scan(self);
  end_search(self);
  control_messages_release(&self->control);
  if (running != NULL) /* the fetched step may be a copy of it */
    intake_core_mark_pending(self, running->step_id);
  if (self->fetched != NULL && intake_discard_redelivered(self, self->fetched))
    intake_free_fetched(self);
  restore_steps(self);
  intake_answer_discarded(self); /* but not the steps in flight, which are pending now */
  restore_started(self);
  self->state = INTAKE_WRITING;
  return again;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* The number of steps that `inflight` should have. */
static size_t count_known(const struct intake_core *self) {
  return self->backlog + (self->running != NULL && self->running->place != QUEUED_STEP_LOST) +
         (self->fetched != NULL && self->fetched->place != QUEUED_STEP_LOST);
}

/* The agent knows every step of `inflight`. */
static void finish_comparison(struct intake_core *self, size_t in) {
  self->state = self->phase == INTAKE_STOPPING ? INTAKE_STOPPED : INTAKE_READY;
  self->compare = INTAKE_QUERY_LENGTHS;
  self->confirmed = self->fetched;
  self->is_unverified = self->needs_scan = false;
  self->restores = self->mismatches = 0;
  if (self->stale_until_ms > 0 && self->asked.ms >= self->stale_until_ms) {
    self->stale_until_ms = 0;
    self->search.done_number = 0;
  }
  if (in == 0)
    intake_finish_unmatched(self, self->asked.number);
}

static void begin_scan(struct intake_core *self, size_t inflight) {
  self->state = INTAKE_SCANNING;
  self->mismatches++;
  self->scan = (struct intake_scan){.position = inflight, .count = 1};
}

static void handle_missing_steps(struct intake_core *self) {
  self->state = INTAKE_WRITING;
  self->mismatches++;
  log_line(self->log, self->restores++ > 0 ? LOG_DEBUG : LOG_WARN, NULL,
           "redis has lost steps that were taken; they are restored");
  self->backlog = 0;
  restore_steps(self);
}

/* Compares the length of `inflight` with the number of known steps. The answer is useless, and the
   query is sent again, if something was written since, or if BLMOVE was waiting at that time and
   has returned since: the list may or may not have had its step. */
static void compare(struct intake_core *self, size_t inflight, size_t in) {
  size_t known = count_known(self);
  bool takes = self->activity == INTAKE_TAKING;
  if ((self->asked.activity == INTAKE_TAKING && !takes) || self->asked.written != self->written)
    return;
  bool has_steps = self->running != NULL || self->fetched != NULL;
  bool may_differ = self->needs_scan && has_steps && !takes;
  if (inflight == known && !may_differ)
    finish_comparison(self, in);
  else if (takes)
    self->activity = INTAKE_ARRIVING;
  else if (inflight >= known)
    begin_scan(self, inflight);
  else
    handle_missing_steps(self);
}

/* Returns false if the answer is ignored: the query was abandoned, or the state has changed. */
static bool finish_query(struct intake_core *self, enum intake_query query,
                         enum intake_state state) {
  bool counts = self->query == query && self->state == state;
  self->query = INTAKE_QUERY_NONE;
  return counts;
}

void intake_core_lengths(struct intake_core *self, size_t inflight, size_t in) {
  if (finish_query(self, INTAKE_QUERY_LENGTHS, INTAKE_COMPARING))
    compare(self, inflight, in);
}

/* Takes ownership of the id. A step that was answered already is there again if Redis went back to
   older data since. */
static void record_interrupted(struct intake_core *self, const struct intake_interrupted *read) {
  if (read->id == NULL)
    return;
  if (recent_steps_count_starts(&self->recent, read->id) > 0) {
    free(read->id);
    intake_write(self, &(struct outbox_record){.ends_started = true});
    return;
  }
  free(self->interrupted.id);
  self->interrupted = *read;
}

void intake_core_startup(struct intake_core *self, const struct intake_startup *startup) {
  if (!finish_query(self, INTAKE_QUERY_STARTUP, INTAKE_COMPARING)) {
    free(startup->interrupted.id);
    return;
  }
  if (startup->had_owner && !intake_may_have_stale_moves(self))
    expect_stale_moves(self);
  record_interrupted(self, &startup->interrupted);
  if (startup->has_more_messages)
    return; /* the query is sent again and reads more of them */
  if (self->interrupted.id == NULL)
    compare(self, startup->inflight, startup->in);
  else if (self->earlier_agents == EARLIER_AGENTS_ENDED || self->handler->interrupted(self->owner))
    begin_scan(self, startup->inflight);
  else
    self->state = INTAKE_AWAITING;
}

void intake_core_interrupted_ended(struct intake_core *self) {
  self->earlier_agents = EARLIER_AGENTS_ENDED;
  if (self->state == INTAKE_AWAITING)
    self->state = INTAKE_COMPARING;
}

/* --- scanning `inflight` from the newest step to the oldest ----------------------------------- */

/* Leaves the step in `inflight`. The oldest of these steps is fetched when the scan is over. */
static void keep_step(struct intake_core *self, struct queued_step *step) {
  queued_step_free(self->scan.oldest_kept);
  self->scan.oldest_kept = step;
  self->scan.kept++;
}

/* Moves the step back to `in`, as its oldest step. */
static void return_step(struct intake_core *self, const struct queued_step *step) {
  intake_move(self, step, OUTBOX_REMOVE_NEWEST, OUTBOX_PUSH_OLDEST, OUTBOX_IN);
}

/* Returns the fetched step before an older one is returned, so that their order stays. */
static void return_fetched(struct intake_core *self) {
  if ((self->scan.seen & SEEN_FETCHED) == 0 || self->fetched == NULL ||
      self->fetched->place != QUEUED_STEP_TAKEN)
    return;
  return_step(self, self->fetched);
  intake_free_fetched(self);
}

/* Answers the step that an earlier agent had started. `step` is NULL if `inflight` does not have
   it. */
static void answer_interrupted(struct intake_core *self, struct queued_step *step) {
  struct queued_step lone = {.step_id = self->interrupted.id,
                             .step.schema_version = self->interrupted.version};
  struct outbox_record record = {.ends_started = true};
  if (step != NULL)
    intake_add_change(&record, OUTBOX_REMOVE_NEWEST, OUTBOX_INFLIGHT, &step->payload);
  log_line(self->log, LOG_WARN, self->interrupted.id, "%s", interrupted_message);
  recent_steps_add(&self->recent, self->interrupted.id);
  intake_answer_by_agent(self, step != NULL ? step : &lone, &record, STEP_CAUSE_LOST,
                         interrupted_message, self->interrupted.events);
  free(self->interrupted.id);
  self->interrupted.id = NULL;
}

/* Returns true if this is the running or the fetched step, each of which is in the list once. If
   newer steps are kept, a fetched step is kept like them. */
static bool recognize_step(struct intake_core *self, const struct payload *payload) {
  struct queued_step *const known[] = {self->running, self->fetched};
  for (size_t i = 0; i < 2; i++) {
    unsigned flag = i == 0 ? SEEN_RUNNING : SEEN_FETCHED;
    if (known[i] == NULL || (self->scan.seen & flag) != 0 ||
        !queued_step_matches(known[i], payload))
      continue;
    self->scan.seen |= flag;
    known[i]->is_doubtful = false;
    if (i == 1 && self->scan.kept > 0 && known[i]->place == QUEUED_STEP_TAKEN) {
      keep_step(self, known[i]);
      self->fetched = NULL;
    }
    return true;
  }
  return false;
}

/* Unknown steps go back to `in`. If a step cannot go back, because it is truncated, all older ones
   stay, too, so that their order stays. The oldest ones also stay while a BLMOVE may be stale: it
   would take a returned step, and the next scan would return that step before older ones. */
void intake_core_scan_step(struct intake_core *self, const struct payload *payload) {
  if (self->query != INTAKE_QUERY_SCAN || self->scan.position == 0)
    return;
  self->scan.position--;
  self->scan.bytes += payload->length;
  if (recognize_step(self, payload))
    return;
  struct queued_step *step = queued_step_new(payload);
  if (self->interrupted.id != NULL && !intake_is_cancel(step) &&
      strcmp(step->step_id, self->interrupted.id) == 0) {
    answer_interrupted(self, step);
  } else if (!intake_filter_step(self, step)) {
    bool is_at_risk = intake_may_have_stale_moves(self) && self->scan.position < STALE_STEPS_MAX;
    if (self->scan.kept > 0 || payload->is_truncated || is_at_risk) {
      keep_step(self, step);
      return;
    }
    log_line(self->log, LOG_DEBUG, step->step_id,
             "was taken but not started: moved back to the queue");
    return_fetched(self);
    return_step(self, step);
  }
  queued_step_free(step);
}

/* The oldest kept step becomes the fetched one. A fetched step that is newer than it is freed, and
   counts as one of the kept steps. A fetched step that was not seen is restored later. */
static void finish_scan(struct intake_core *self) {
  if (self->interrupted.id != NULL)
    answer_interrupted(self, NULL);
  self->needs_scan = false;
  if (self->scan.kept > 0 && (self->scan.seen & SEEN_FETCHED) != 0 && self->fetched != NULL &&
      self->fetched->place == QUEUED_STEP_TAKEN) {
    intake_free_fetched(self);
    self->scan.kept++;
  }
  self->backlog = self->scan.kept;
  self->confirmed = self->searched_step = NULL;
  if (self->fetched == NULL && self->scan.oldest_kept != NULL) {
    self->fetched = self->scan.oldest_kept;
    self->scan.oldest_kept = NULL;
    self->backlog--;
  }
  abandon_scan(self);
  self->state = INTAKE_WRITING;
}

/* Chooses the size of the next page. A short page is the last one, because the list has become
   shorter. */
void intake_core_end_scan_page(struct intake_core *self, bool is_short) {
  if (!finish_query(self, INTAKE_QUERY_SCAN, INTAKE_SCANNING))
    return;
  if (is_short)
    self->scan.position = 0;
  size_t fit = INTAKE_PAGE_BYTES / (self->scan.bytes / self->scan.count + 1);
  self->scan.count *= 2;
  if (self->scan.count > fit)
    self->scan.count = fit > 0 ? fit : 1;
  if (self->scan.count > INTAKE_PAGE_MAX)
    self->scan.count = INTAKE_PAGE_MAX;
  self->scan.bytes = 0;
}

/* --- taking ----------------------------------------------------------------------------------- */

void intake_core_step_taken(struct intake_core *self, const struct payload *payload) {
  struct queued_step *step = queued_step_new(payload);
  self->activity = INTAKE_IDLE;
  if (intake_filter_step(self, step)) {
    queued_step_free(step);
    return;
  }
  CHECK(self->fetched == NULL);
  self->fetched = step;
  self->confirmed = self->searched_step = NULL;
  self->search_deadline_ms = 0;
}

/* Returns whether Redis can redeliver nothing anymore: the lengths were equal, and `in` was empty
   for the time of a whole BLMOVE since the loss of data. The first BLMOVE that times out may have
   been sent before the loss. Something was delivered since, so another loss would be noticed. */
static bool is_redelivery_over(const struct intake_core *self) {
  return self->timeouts >= 2 && self->state == INTAKE_READY && self->context.is_empty &&
         !self->context.has_lost_data;
}

/* The lengths are compared if the agent is idle: a stale BLMOVE may have moved a step. */
void intake_core_take_timed_out(struct intake_core *self) {
  self->activity = INTAKE_IDLE;
  self->timeouts++;
  if (is_redelivery_over(self))
    recent_steps_end_redelivery(&self->recent);
  if (self->running == NULL)
    recheck_inflight(self);
}

static void end_activity(struct intake_core *self) {
  if (self->activity == INTAKE_SEARCHING)
    self->control.activity = CONTROL_IDLE;
  self->activity = INTAKE_IDLE;
  end_search(self);
}

void intake_core_reconnected(struct intake_core *self) {
  end_activity(self);
  expect_stale_moves(self);
  doubt_inflight(self);
}

/* Returns whether the fetched step is a shutdown, and `in` may have redelivered steps behind it
   that the next agent would run again. */
static bool has_unsearched_shutdown(const struct intake_core *self) {
  return self->fetched != NULL && !self->fetched->is_rejected &&
         self->fetched->step.kind == &step_shutdown && self->searched_step != self->fetched &&
         self->search.phase != INTAKE_SEARCH_DENIED &&
         recent_steps_has_redeliverable(&self->recent);
}

/* --- decisions -------------------------------------------------------------------------------- */

static void send_query(struct intake_core *self, enum intake_query query) {
  self->query = query;
  self->asked.activity = self->activity;
  self->asked.ms = self->context.now_ms;
  self->asked.number = self->control.next_number;
  self->asked.written = self->written;
  size_t position = 0, count = 0;
  if (query == INTAKE_QUERY_SCAN) {
    position = self->scan.position;
    count = self->scan.count < position ? self->scan.count : position;
  } else if (query == INTAKE_QUERY_STARTUP) { /* reads twice as many messages as before */
    position = self->control.count + 1;
    count = position < INTAKE_PAGE_MAX ? position : INTAKE_PAGE_MAX;
  }
  self->io->query(self->io_owner, query, position, count);
}

static bool is_paused(const struct intake_core *self) {
  return self->state == INTAKE_COMPARING && self->mismatches > 1 &&
         self->context.now_ms < self->asked.ms + MISMATCH_PAUSE_MS;
}

/* The lengths are only compared when everything that was written is delivered. */
static void send_query_if_due(struct intake_core *self) {
  if (self->query != INTAKE_QUERY_NONE)
    return;
  if (self->state == INTAKE_SCANNING && self->scan.position == 0)
    finish_scan(self);
  if (self->state == INTAKE_WRITING && self->context.delivered >= self->written)
    self->state = INTAKE_COMPARING;
  if (self->state == INTAKE_SCANNING && self->context.capacity > 0)
    send_query(self, INTAKE_QUERY_SCAN);
  else if (self->state == INTAKE_COMPARING && self->activity != INTAKE_ARRIVING &&
           !is_paused(self) && self->context.delivered >= self->written)
    send_query(self, self->compare);
}

/* Reads the next page of `in`. No control messages are read meanwhile, because the steps in the
   page cause the removal of some. */
static void search(struct intake_core *self) {
  if (!control_messages_may_remove(&self->control))
    return;
  if (self->search.phase == INTAKE_SEARCH_OVER)
    self->search =
        (struct intake_search){.phase = INTAKE_SEARCH_UNDER_WAY,
                               .count = 1,
                               .number = self->control.next_number,
                               .done_number = self->search.done_number,
                               .with_redelivered = recent_steps_has_redeliverable(&self->recent)};
  self->activity = INTAKE_SEARCHING;
  self->control.activity = CONTROL_SEARCHING;
  self->io->search(self->io_owner, self->search.skip, self->search.count);
}

/* Lets the consumer's connection search `in` or take the next step. It waits until the steps that a
   search has found have left `in`. */
static void use_consumer(struct intake_core *self) {
  if (self->activity != INTAKE_IDLE || self->context.delivered < self->search_end)
    return;
  bool is_due =
      intake_has_new_cancels(self, self->search.done_number) || has_unsearched_shutdown(self);
  if (self->state != INTAKE_READY) {
    end_search(self);
  } else if (self->search.phase == INTAKE_SEARCH_UNDER_WAY ||
             (self->search.phase == INTAKE_SEARCH_OVER && is_due)) {
    search(self);
  } else if (self->fetched == NULL && self->context.capacity > 0) {
    self->activity = INTAKE_TAKING;
    self->io->take(self->io_owner);
  }
}

/* Returns whether the lengths must be compared:
   - no BLMOVE is stale anymore
   - a step is next while a BLMOVE may be stale: `inflight` may have an older step
   - the next step of the backlog is needed
   - `in` may be empty, which means that a cancel has no step */
static bool is_comparison_due(const struct intake_core *self) {
  bool is_stale = intake_may_have_stale_moves(self);
  bool is_over = is_stale && self->context.now_ms >= self->stale_until_ms;
  bool may_have_older = is_stale && self->running == NULL && self->fetched != NULL &&
                        self->confirmed != self->fetched;
  bool may_be_unknown =
      (self->activity == INTAKE_TAKING || self->search.phase == INTAKE_SEARCH_DENIED) &&
      intake_has_new_cancels(self, self->asked.number);
  return is_over || may_have_older || may_be_unknown ||
         (self->backlog > 0 && self->fetched == NULL);
}

int64_t intake_core_wakeup_ms(const struct intake_core *self) {
  const int64_t times[] = {self->stale_until_ms, self->search_deadline_ms,
                           is_paused(self) ? self->asked.ms + MISMATCH_PAUSE_MS : 0};
  int64_t first_ms = 0;
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    if (times[i] > self->context.now_ms && (first_ms == 0 || times[i] < first_ms))
      first_ms = times[i];
  return first_ms;
}

void intake_core_advance(struct intake_core *self, const struct intake_context *context) {
  if (context->reconnections != self->context.reconnections)
    doubt_inflight(self);
  self->context = *context;
  if (self->stale_until_ms < 0)
    self->stale_until_ms = context->now_ms + INTAKE_STALE_MS;
  intake_free_discards(self, context->delivered);
  intake_apply_messages(self);
  if (self->state == INTAKE_READY && is_comparison_due(self)) {
    if (self->fetched == NULL)
      self->backlog = 0; /* so that a scan follows */
    recheck_inflight(self);
  }
  if (self->state == INTAKE_READY && self->running == NULL && has_unsearched_shutdown(self) &&
      self->search_deadline_ms == 0)
    self->search_deadline_ms = context->now_ms + SHUTDOWN_SEARCH_MS;
  send_query_if_due(self);
  use_consumer(self);
}

/* A step with the id of an earlier one waits until the answer to that one is delivered, because
   only then it is certain that it is another step. */
struct queued_step *intake_core_next_step(const struct intake_core *self) {
  struct queued_step *step = self->fetched;
  if (self->state != INTAKE_READY || step == NULL || self->running != NULL)
    return NULL;
  if (!step->is_rejected && recent_steps_count_starts(&self->recent, step->step_id) > 0) {
    if (!self->context.is_empty)
      return NULL;
  } else if (self->context.capacity == 0) {
    return NULL;
  }
  if (queued_step_is_work(step) && control_messages_find(&self->control, step->step_id) != NULL)
    return NULL;
  if (has_unsearched_shutdown(self) && self->context.now_ms < self->search_deadline_ms)
    return NULL;
  return intake_may_have_stale_moves(self) && self->confirmed != step ? NULL : step;
}

void intake_core_start_step(struct intake_core *self, bool announced) {
  CHECK(self->running == NULL && self->fetched != NULL);
  self->running = self->fetched;
  self->fetched = NULL;
  recent_steps_add(&self->recent, self->running->step_id);
  if (announced)
    intake_core_announce_start(self);
}

void intake_core_announce_start(struct intake_core *self) {
  self->running->is_announced = true;
  struct outbox_record record = {.started = self->running->step_id};
  intake_write(self, &record);
  self->running->start_end = self->written;
}

/* A removal during a scan changes the positions of the other steps, so the scan begins again. */
void intake_core_finish_step(struct intake_core *self, const struct step_event *completed,
                             const struct step_result *result) {
  struct queued_step **step = self->running != NULL ? &self->running : &self->fetched;
  struct outbox_record record = {
      .completed = completed, .result = result, .ends_started = (*step)->is_announced};
  intake_add_removal(&record, *step);
  intake_write(self, &record);
  if (self->running != NULL && self->running->is_doubtful)
    intake_core_mark_pending(self, self->running->step_id);
  queued_step_free(*step);
  *step = NULL;
  if (self->state == INTAKE_SCANNING)
    recheck_inflight(self);
}

void intake_core_stop(struct intake_core *self) {
  self->phase = INTAKE_STOPPING;
  end_activity(self);
  if (!self->is_unverified)
    self->state = INTAKE_STOPPED;
}

void intake_core_init(struct intake_core *self, const struct log *log, const struct intake_io *io,
                      void *io_owner, const struct intake_handler *handler, void *owner) {
  *self = (struct intake_core){.log = log,
                               .io = io,
                               .io_owner = io_owner,
                               .handler = handler,
                               .owner = owner,
                               .compare = INTAKE_QUERY_STARTUP};
}

void intake_core_release(struct intake_core *self) {
  abandon_scan(self);
  queued_step_free(self->running);
  queued_step_free(self->fetched);
  free(self->interrupted.id);
  intake_free_discards(self, UINT64_MAX);
  control_messages_release(&self->control);
}
