#include "agent/frontends/redis/intake/intake_core.h"
#include "agent/frontends/redis/intake/intake_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

/* A Redis that has lost again what was put back, or has again what was removed, keeps nothing: it
   is compared again in such pauses. */
#define RETURN_PAUSE_MS 1000

/* More than an agent has fetched ahead, and one that was superseded may take. */
#define STAY_MAX 4

/* How long a shutdown waits for the search for copies of steps: the consumer's connection may be
   lost. */
#define COPIES_MS 5000

#define MET_RUNNING 1U
#define MET_FETCHED 2U

const char intake_lost_result[] = "lost: the step has run, and redis has lost its result";
static const char interrupted_result[] = "interrupted: the agent ended while this step was running";

enum intake_event {
  EVENT_EQUAL,
  EVENT_MORE,
  EVENT_FEWER,
  EVENT_DEAD,
  EVENT_DEAD_ENDED,
  EVENT_READ,
  EVENT_DELIVERED,
  EVENT_DOUBT,
  EVENT_LOST_DATA,
  EVENT_STOP,
  EVENTS
};

/* Answers that come in another state than the one that has asked have no effect (NOP). */
#define NOP INTAKE_STATES
static const enum intake_state next_state[INTAKE_STATES][EVENTS] = {
    /* EQUAL, MORE, FEWER, DEAD, DEAD_ENDED, READ, DELIVERED, DOUBT, LOST_DATA, STOP */
    [INTAKE_COMPARING] = {INTAKE_READY, INTAKE_READING, INTAKE_WRITING, INTAKE_AWAITING, NOP, NOP,
                          NOP, NOP, INTAKE_WRITING, INTAKE_STOPPED},
    [INTAKE_AWAITING] = {NOP, NOP, NOP, NOP, INTAKE_COMPARING, NOP, NOP, NOP, INTAKE_WRITING,
                         INTAKE_STOPPED},
    [INTAKE_READING] = {NOP, NOP, NOP, NOP, NOP, INTAKE_WRITING, NOP, INTAKE_COMPARING,
                        INTAKE_WRITING, INTAKE_STOPPED},
    [INTAKE_WRITING] = {NOP, NOP, NOP, NOP, NOP, NOP, INTAKE_COMPARING, NOP, INTAKE_WRITING,
                        INTAKE_STOPPED},
    [INTAKE_READY] = {INTAKE_READY, NOP, NOP, NOP, NOP, NOP, NOP, INTAKE_COMPARING, INTAKE_WRITING,
                      INTAKE_STOPPED},
    [INTAKE_STOPPED] = {NOP, NOP, NOP, NOP, NOP, NOP, NOP, NOP, INTAKE_WRITING, INTAKE_STOPPED}};

/* True when the event counts. A pass that was under way begins again after the next comparison. */
static bool become(struct intake_core *self, enum intake_event event) {
  enum intake_state state = next_state[self->state][event];
  if (state == NOP)
    return false;
  self->state = state;
  if (state == INTAKE_READY && self->phase == INTAKE_STOPPING)
    self->state = INTAKE_STOPPED;
  return true;
}

bool intake_is_late(const struct intake_core *self) {
  return self->late_until_ms != 0;
}

/* From the next intake_core_advance on, which knows the time. */
static void watch_for_late(struct intake_core *self) {
  self->late_until_ms = -1;
}

static void end_search(struct intake_core *self) {
  if (self->search.phase == INTAKE_SEARCH_GOES_ON)
    self->search.phase = INTAKE_SEARCH_OVER;
}

static void drop_pass(struct intake_core *self) {
  held_step_free(self->pass.oldest);
  self->pass.oldest = NULL;
  self->pass.left = 0;
  if (self->question != INTAKE_ASKS_NOTHING)
    self->question = INTAKE_ASKS_IN_VAIN;
}

/* `inflight` may have changed otherwise than by this agent's writes, or while it is read. */
static void doubt(struct intake_core *self) {
  bool was_reading = self->state == INTAKE_READING;
  if (become(self, EVENT_DOUBT) && was_reading)
    drop_pass(self);
}

/* --- a loss of data --------------------------------------------------------------------------- */

void intake_core_hold(struct intake_core *self, const char *step_id) {
  recent_steps_hold(&self->recent, step_id, true);
}

/* The newest first: each becomes the oldest of the list, so that their order stays. Where it is
   there already, it is moved. Only the beginning of a truncated one is known. */
static void put_back(struct intake_core *self) {
  struct held_step *const steps[] = {self->fetched, self->running};
  for (size_t i = 0; i < 2; i++) {
    struct held_step *step = steps[i];
    if (step == NULL)
      continue;
    recent_steps_hold(&self->recent, step->step_id, step == self->running);
    step->place = step->payload.is_truncated ? HELD_STEP_LOST : HELD_STEP_RETURNED;
    if (step->place == HELD_STEP_RETURNED)
      intake_move(self, step, OUTBOX_REMOVE_OLDEST, OUTBOX_PUSH_OLDEST, OUTBOX_INFLIGHT);
  }
  self->empty_answers = 0;
}

/* At boot the key may be that of an earlier agent's step, which is not read yet. */
static void set_started(struct intake_core *self) {
  struct outbox_record record = {.started = self->interrupted.id};
  if (self->running != NULL && self->running->is_announced)
    record.started = self->running->step_id;
  record.ends_started = record.started == NULL && self->compare != INTAKE_ASKS_BOOT;
  (void)intake_write(self, &record);
}

bool intake_core_lose_data(struct intake_core *self, const struct intake_world *world,
                           void (*hold)(void *owner)) {
  struct held_step *running = self->running;
  bool again = running != NULL && recent_steps_times(&self->recent, running->step_id) > 1;
  log_line(self->log, LOG_WARN, NULL,
           "redis has lost what it had acknowledged: it is empty, or back at an earlier state");
  self->world = *world;
  self->is_unread = true;
  self->surplus = 0;
  self->certain = self->searched_before = NULL;
  self->search_until_ms = 0;
  drop_pass(self);
  end_search(self);
  control_messages_release(&self->control);
  recent_steps_roll_back(&self->recent);
  hold(self->owner);
  intake_answer_discarded(self);
  if (self->fetched != NULL && intake_discard_taken_copy(self, self->fetched))
    intake_drop_fetched(self);
  put_back(self);
  set_started(self);
  (void)become(self, EVENT_LOST_DATA);
  return again;
}

/* --- comparing -------------------------------------------------------------------------------- */

static size_t count_known(const struct intake_core *self) {
  return self->surplus + (self->running != NULL && self->running->place != HELD_STEP_LOST) +
         (self->fetched != NULL && self->fetched->place != HELD_STEP_LOST);
}

/* Nothing is in the list that is not known. */
static void be_equal(struct intake_core *self, size_t in) {
  if (!become(self, EVENT_EQUAL))
    return;
  self->compare = INTAKE_ASKS_LENGTHS;
  self->certain = self->fetched;
  self->is_unread = self->is_unverified = false;
  self->losses = self->differences = 0;
  if (self->late_until_ms > 0 && self->asked.ms >= self->late_until_ms) {
    self->late_until_ms = 0;
    self->search.done_number = 0;
  }
  if (in == 0)
    intake_finish_unknown(self, self->asked.number);
}

static void begin_pass(struct intake_core *self, size_t inflight) {
  if (!become(self, EVENT_MORE))
    return;
  self->differences++;
  self->pass.position = inflight;
  self->pass.count = 1;
  self->pass.bytes = 0;
  self->pass.met = 0;
}

static void restore(struct intake_core *self) {
  if (!become(self, EVENT_FEWER))
    return;
  self->differences++;
  log_line(self->log, self->losses++ > 0 ? LOG_DEBUG : LOG_WARN, NULL,
           "redis has lost that steps were taken");
  self->surplus = 0;
  put_back(self);
}

/* While the answer of this agent's own BLMOVE is on its way, its step may be counted or not; and
   what was written since the question is counted. Then it is asked again. */
static void compare(struct intake_core *self, size_t inflight, size_t in) {
  size_t known = count_known(self);
  bool takes = self->activity == INTAKE_TAKING;
  if ((self->asked.activity == INTAKE_TAKING && !takes) || self->asked.written != self->written)
    return;
  bool has_steps = self->running != NULL || self->fetched != NULL;
  if (inflight == known && (takes || !has_steps || !self->is_unverified))
    be_equal(self, in);
  else if (inflight == known)
    begin_pass(self, inflight);
  else if (takes)
    self->activity = INTAKE_ARRIVING;
  else if (inflight > known)
    begin_pass(self, inflight);
  else
    restore(self);
}

static bool is_answer(struct intake_core *self, enum intake_question question) {
  bool counts = self->question == question;
  self->question = INTAKE_ASKS_NOTHING;
  return counts;
}

void intake_core_lengths(struct intake_core *self, size_t inflight, size_t in) {
  if (is_answer(self, INTAKE_ASKS_LENGTHS))
    compare(self, inflight, in);
}

/* A step that was answered already is there again when Redis went back since. */
static void take_interrupted(struct intake_core *self, const struct intake_interrupted *read) {
  if (read->id == NULL)
    return;
  if (recent_steps_times(&self->recent, read->id) > 0) {
    free(read->id);
    (void)intake_write(self, &(struct outbox_record){.ends_started = true});
    return;
  }
  free(self->interrupted.id);
  self->interrupted = *read;
}

void intake_core_boot(struct intake_core *self, const struct intake_boot *boot) {
  if (!is_answer(self, INTAKE_ASKS_BOOT)) {
    free(boot->interrupted.id);
    return;
  }
  if (boot->had_owner && !intake_is_late(self))
    watch_for_late(self);
  take_interrupted(self, &boot->interrupted);
  if (boot->has_more_messages)
    return; /* it is asked again */
  if (self->interrupted.id == NULL)
    compare(self, boot->inflight, boot->in);
  else if (self->dead == DEAD_ENDED || self->actions->interrupted(self->owner))
    begin_pass(self, boot->inflight);
  else
    (void)become(self, EVENT_DEAD);
}

void intake_core_interrupted_ended(struct intake_core *self) {
  self->dead = DEAD_ENDED;
  (void)become(self, EVENT_DEAD_ENDED);
}

/* --- reading `inflight` from the newest step on ----------------------------------------------- */

/* Its oldest step is the one that runs next. */
static void leave(struct intake_core *self, struct held_step *step) {
  held_step_free(self->pass.oldest);
  self->pass.oldest = step;
  self->pass.left++;
}

static void give_back(struct intake_core *self, const struct held_step *step) {
  intake_move(self, step, OUTBOX_REMOVE_NEWEST, OUTBOX_PUSH_OLDEST, OUTBOX_IN);
}

/* What was fetched is newer than the step, so it goes back first. */
static void give_fetched_back(struct intake_core *self) {
  if ((self->pass.met & MET_FETCHED) == 0 || self->fetched == NULL ||
      self->fetched->place != HELD_STEP_TAKEN)
    return;
  give_back(self, self->fetched);
  intake_drop_fetched(self);
}

static void answer_interrupted(struct intake_core *self, struct held_step *step) {
  struct held_step lone = {.step_id = self->interrupted.id,
                           .step.schema_version = self->interrupted.version};
  struct outbox_record record = {.ends_started = true};
  if (step != NULL)
    intake_add_change(&record, OUTBOX_REMOVE_NEWEST, OUTBOX_INFLIGHT, &step->payload);
  log_line(self->log, LOG_WARN, self->interrupted.id, "%s", interrupted_result);
  recent_steps_add(&self->recent, self->interrupted.id);
  (void)intake_answer_by_agent(self, step != NULL ? step : &lone, &record, STEP_CAUSE_LOST,
                               interrupted_result, self->interrupted.events);
  free(self->interrupted.id);
  self->interrupted.id = NULL;
}

/* A known step, which is there once. What was fetched is older than steps that stay: so it stays,
   too. */
static bool meet(struct intake_core *self, const struct payload *payload) {
  struct held_step *const known[] = {self->running, self->fetched};
  for (size_t i = 0; i < 2; i++) {
    unsigned met = i == 0 ? MET_RUNNING : MET_FETCHED;
    if (known[i] == NULL || (self->pass.met & met) != 0 || !held_step_is(known[i], payload))
      continue;
    self->pass.met |= met;
    if (i == 1 && self->pass.left > 0 && known[i]->place == HELD_STEP_TAKEN) {
      leave(self, known[i]);
      self->fetched = NULL;
    }
    return true;
  }
  return false;
}

/* From the first step on that cannot be put back all stay, so that their order does. So do the
   oldest while another agent may take steps: it would take newer ones before those that are put
   back. */
void intake_core_page_step(struct intake_core *self, const struct payload *payload) {
  if (self->question != INTAKE_ASKS_PAGE || self->pass.position == 0)
    return;
  self->pass.position--;
  self->pass.bytes += payload->length;
  if (meet(self, payload))
    return;
  struct held_step *step = held_step_new(payload);
  if (self->interrupted.id != NULL && !intake_is_cancel(step) &&
      strcmp(step->step_id, self->interrupted.id) == 0) {
    answer_interrupted(self, step);
  } else if (!intake_deal_with(self, step)) {
    bool may_be_passed = intake_is_late(self) && self->pass.position < STAY_MAX;
    if (self->pass.left > 0 || payload->is_truncated || may_be_passed) {
      leave(self, step);
      return;
    }
    log_line(self->log, LOG_DEBUG, step->step_id, "was taken and not started: waits again");
    give_fetched_back(self);
    give_back(self, step);
  }
  held_step_free(step);
}

/* What was fetched is newer than what stays, and is left to Redis. */
static void end_pass(struct intake_core *self) {
  if (self->interrupted.id != NULL)
    answer_interrupted(self, NULL);
  self->is_unverified = false;
  if (self->pass.left > 0 && (self->pass.met & MET_FETCHED) != 0 && self->fetched != NULL &&
      self->fetched->place == HELD_STEP_TAKEN) {
    intake_drop_fetched(self);
    self->pass.left++;
  }
  self->surplus = self->pass.left;
  self->certain = NULL;
  if (self->fetched == NULL && self->pass.oldest != NULL) {
    self->fetched = self->pass.oldest;
    self->pass.oldest = NULL;
    self->surplus--;
  }
  drop_pass(self);
  (void)become(self, EVENT_READ);
}

/* Where the page was short, the list is shorter than it was. */
void intake_core_page_end(struct intake_core *self, bool is_short) {
  if (!is_answer(self, INTAKE_ASKS_PAGE))
    return;
  if (is_short)
    self->pass.position = 0;
  size_t fit = INTAKE_PAGE_BYTES / (self->pass.bytes / self->pass.count + 1);
  self->pass.count *= 2;
  if (self->pass.count > fit)
    self->pass.count = fit > 0 ? fit : 1;
  if (self->pass.count > INTAKE_PAGE_MAX)
    self->pass.count = INTAKE_PAGE_MAX;
  self->pass.bytes = 0;
}

/* --- taking ----------------------------------------------------------------------------------- */

void intake_core_take_step(struct intake_core *self, const struct payload *payload) {
  struct held_step *step = held_step_new(payload);
  self->activity = INTAKE_IDLE;
  if (intake_deal_with(self, step)) {
    held_step_free(step);
    return;
  }
  CHECK(self->fetched == NULL);
  self->fetched = step;
  self->certain = self->searched_before = NULL;
  self->search_until_ms = 0;
}

/* Whether nothing is left that Redis could hand out again: `inflight` was compared, and `in`
   was empty for the time of a whole question since the loss (the first to end may be older). What a
   Redis that goes back again can do is seen, because something was delivered since. */
static bool is_settled(const struct intake_core *self) {
  return self->empty_answers >= 2 && self->state == INTAKE_READY && self->world.is_empty &&
         !self->world.has_lost_data;
}

/* A BLMOVE of a lost connection may have been answered nevertheless, to nobody. */
void intake_core_nothing(struct intake_core *self) {
  self->activity = INTAKE_IDLE;
  self->empty_answers++;
  if (is_settled(self))
    recent_steps_settle(&self->recent);
  if (self->running == NULL)
    doubt(self);
}

static void end_activity(struct intake_core *self) {
  if (self->activity == INTAKE_SEARCHING)
    self->control.user = CONTROL_OF_NOBODY;
  self->activity = INTAKE_IDLE;
  end_search(self);
}

/* Redis may be back at an earlier state without having lost what this agent wrote: then the list
   may have as many steps as are known, but others. */
void intake_core_reconnected(struct intake_core *self) {
  end_activity(self);
  self->is_unverified = true;
  watch_for_late(self);
  doubt(self);
}

/* A shutdown, behind which copies of steps that have run may wait for the agent after this one. */
static bool may_leave_copies(const struct intake_core *self) {
  return self->fetched != NULL && !self->fetched->is_refused &&
         self->fetched->step.kind == &step_shutdown && self->searched_before != self->fetched &&
         self->search.phase != INTAKE_SEARCH_DENIED && recent_steps_may_have_copies(&self->recent);
}

/* --- decisions -------------------------------------------------------------------------------- */

static void ask(struct intake_core *self, enum intake_question question) {
  self->question = question;
  self->asked.activity = self->activity;
  self->asked.ms = self->world.now_ms;
  self->asked.number = self->control.next;
  self->asked.written = self->written;
  self->actions->ask(self->owner, question, self->pass.position, self->pass.count);
}

static bool is_paused(const struct intake_core *self) {
  return self->state == INTAKE_COMPARING && self->differences > 1 &&
         self->world.now_ms < self->asked.ms + RETURN_PAUSE_MS;
}

/* What was written is counted when it is delivered. */
static void ask_what_is_due(struct intake_core *self) {
  if (self->question != INTAKE_ASKS_NOTHING)
    return;
  if (self->state == INTAKE_READING && self->pass.position == 0)
    end_pass(self);
  if (self->state == INTAKE_WRITING && self->world.delivered >= self->written)
    (void)become(self, EVENT_DELIVERED);
  if (self->state == INTAKE_READING && self->world.capacity > 0)
    ask(self, INTAKE_ASKS_PAGE);
  else if (self->state == INTAKE_COMPARING && self->activity != INTAKE_ARRIVING &&
           !is_paused(self) && self->world.delivered >= self->written)
    ask(self, self->compare);
}

/* Messages are not read meanwhile, since what the page has removes some. */
static void search(struct intake_core *self) {
  if (!control_messages_may_remove(&self->control))
    return;
  if (self->search.phase == INTAKE_SEARCH_OVER)
    self->search =
        (struct intake_search){.phase = INTAKE_SEARCH_GOES_ON,
                               .count = 1,
                               .number = self->control.next,
                               .done_number = self->search.done_number,
                               .has_copies = recent_steps_may_have_copies(&self->recent)};
  self->activity = INTAKE_SEARCHING;
  self->control.user = CONTROL_OF_SEARCH;
  self->actions->search(self->owner, self->search.skip, self->search.count);
}

/* The consumer's connection takes a step ahead, or looks for steps that were cancelled. Nothing is
   taken, and no page is read, before what was found has left `in`. */
static void use_consumer(struct intake_core *self) {
  if (self->activity != INTAKE_IDLE || self->world.delivered < self->search_end)
    return;
  bool is_due = intake_has_new_cancels(self, self->search.done_number) || may_leave_copies(self);
  if (self->state != INTAKE_READY) {
    end_search(self);
  } else if (self->search.phase == INTAKE_SEARCH_GOES_ON ||
             (self->search.phase == INTAKE_SEARCH_OVER && is_due)) {
    search(self);
  } else if (self->fetched == NULL && self->world.capacity > 0) {
    self->activity = INTAKE_TAKING;
    self->actions->take(self->owner);
  }
}

/* The lengths must be compared if other agents can no longer take steps; if they still can, before
   each step starts, because an older one may be in the list; if steps stay in `inflight` and the
   next of them is due; and if `in` may be empty, so that a cancel has no step. */
static bool is_comparison_due(const struct intake_core *self) {
  bool is_over = intake_is_late(self) && self->world.now_ms >= self->late_until_ms;
  bool may_be_older = intake_is_late(self) && self->running == NULL && self->fetched != NULL &&
                      self->certain != self->fetched;
  bool may_be_unknown =
      (self->activity == INTAKE_TAKING || self->search.phase == INTAKE_SEARCH_DENIED) &&
      intake_has_new_cancels(self, self->asked.number);
  return is_over || may_be_older || may_be_unknown || (self->surplus > 0 && self->fetched == NULL);
}

int64_t intake_core_wakeup_ms(const struct intake_core *self) {
  int64_t times[] = {self->late_until_ms, self->search_until_ms,
                     is_paused(self) ? self->asked.ms + RETURN_PAUSE_MS : 0};
  int64_t first_ms = 0;
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    if (times[i] > self->world.now_ms && (first_ms == 0 || times[i] < first_ms))
      first_ms = times[i];
  return first_ms;
}

void intake_core_advance(struct intake_core *self, const struct intake_world *world) {
  self->world = *world;
  if (self->late_until_ms < 0)
    self->late_until_ms = world->now_ms + INTAKE_LATE_MS;
  intake_forget_discards(self, world->delivered);
  intake_obey(self);
  if (self->state == INTAKE_READY && is_comparison_due(self)) {
    if (self->fetched == NULL)
      self->surplus = 0; /* they are read again */
    doubt(self);
  }
  if (self->state == INTAKE_READY && self->running == NULL && may_leave_copies(self) &&
      self->search_until_ms == 0)
    self->search_until_ms = world->now_ms + COPIES_MS;
  ask_what_is_due(self);
  use_consumer(self);
}

/* An id that was used before waits until the answer to that step is delivered, since it is known
   only then whether it is the same step. */
struct held_step *intake_core_give(const struct intake_core *self) {
  struct held_step *step = self->fetched;
  if (self->state != INTAKE_READY || step == NULL || self->running != NULL)
    return NULL;
  if (!step->is_refused && recent_steps_times(&self->recent, step->step_id) > 0) {
    if (!self->world.is_empty)
      return NULL;
  } else if (self->world.capacity == 0) {
    return NULL;
  }
  if (held_step_is_work(step) && control_messages_find(&self->control, step->step_id) != NULL)
    return NULL;
  if (may_leave_copies(self) && self->world.now_ms < self->search_until_ms)
    return NULL;
  return intake_is_late(self) && self->certain != step ? NULL : step;
}

void intake_core_begin(struct intake_core *self, bool announced) {
  CHECK(self->running == NULL && self->fetched != NULL);
  self->running = self->fetched;
  self->fetched = NULL;
  recent_steps_add(&self->recent, self->running->step_id);
  if (announced)
    intake_core_announce(self);
}

void intake_core_announce(struct intake_core *self) {
  self->running->is_announced = true;
  struct outbox_record record = {.started = self->running->step_id};
  (void)intake_write(self, &record);
}

/* What is removed while the list is read changes the places of what was not read yet. A step that
   ends before it is known whether Redis still had it as taken may be handed out again. */
void intake_core_answer(struct intake_core *self, const struct step_event *completed,
                        const struct step_result *result) {
  struct held_step **step = self->running != NULL ? &self->running : &self->fetched;
  struct outbox_record record = {
      .completed = completed, .result = result, .ends_started = (*step)->is_announced};
  intake_add_removal(&record, *step);
  (void)intake_write(self, &record);
  if (self->running != NULL && self->state != INTAKE_READY)
    intake_core_hold(self, self->running->step_id);
  held_step_free(*step);
  *step = NULL;
  if (self->state == INTAKE_READING)
    doubt(self);
}

void intake_core_stop(struct intake_core *self) {
  self->phase = INTAKE_STOPPING;
  end_activity(self);
  if (!self->is_unread)
    (void)become(self, EVENT_STOP);
}

void intake_core_init(struct intake_core *self, const struct log *log,
                      const struct intake_actions *actions, void *owner) {
  *self = (struct intake_core){
      .log = log, .actions = actions, .owner = owner, .compare = INTAKE_ASKS_BOOT};
}

void intake_core_release(struct intake_core *self) {
  drop_pass(self);
  held_step_free(self->running);
  held_step_free(self->fetched);
  free(self->interrupted.id);
  intake_forget_discards(self, UINT64_MAX);
  control_messages_release(&self->control);
}
