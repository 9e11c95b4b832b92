/*
 * The difficulty: a step is in the list `inflight`, and in memory too when it is one of the oldest.
 * Different connections change the two, and a step that were known twice would run twice.
 *
 * The ledger has what is known in the order of the list, and the number of what is not. A page of
 * the list is asked for between two batches, when it is known which steps have left;
 * ledger_position then says where the next one lies. Of what lies behind the window only as many
 * are read as have arrived, so that none is met before its BLMOVE is answered. A page that is taken
 * in begins with the step in front of the place, which must be what it was: where it is not, or
 * where the list is too short, all of the list is read once no BLMOVE is under way.
 */
#include "agent/frontends/redis/intake/window.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/intake/consumer.h"
#include "agent/frontends/redis/intake/inflight_reader.h"
#include "agent/frontends/redis/intake/recent_steps.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "wire/step_report.h"

/* How long another agent's BLMOVE may still take a step: Redis lets it wait for
   CONSUMER_BLOCK_SECONDS, and an agent that was superseded may send one more before it learns of
   it. The same holds for one of this agent's own, on a connection that was lost. */
#define LATE_MS (CONSUMER_BLOCK_SECONDS * 1000 + 5000)

/* A Redis that has lost again what was put back keeps nothing: so long it is left alone. What waits
   is in memory meanwhile, and is run. */
#define RETURN_PAUSE_MS 1000

/* What is written in one outbox record for a step beside its payload, roughly. */
#define RECORD_BYTES 256

/* The step in front of a page is read again unless it is longer. */
#define CHECKED_BYTES ((size_t)64 * 1024)

const char window_lost_result[] = "lost: the step has run, and redis has lost its result";

struct window {
  struct event_base *base;
  const struct log *log;
  struct outbox *outbox;
  const struct window_handler *handler;
  void *owner;
  struct consumer *consumer;
  struct inflight_reader reader;
  struct ledger ledger;
  struct recent_steps recent_steps;
  enum window_state state;
  enum window_reading purpose;                   /* of READING */
  enum { NOT_ASKED, ENDING, ENDED } interrupted; /* the step that an earlier agent had started */
  bool checks;                                   /* the next payload is that in front of the page */
  bool certain;             /* the oldest step that waits is the oldest in the list */
  bool all_due;             /* there may be steps in `inflight` that are not known here */
  bool unread;              /* Redis lost data, and `inflight` was not read to its end since */
  bool loss_told;           /* of steps; and no read has found all of them since */
  size_t overtaken_bytes;   /* see WINDOW_OVERTAKEN_BYTES */
  size_t empty_answers;     /* questions that found `in` empty, since the last loss */
  uint64_t returned_end;    /* of what puts steps back, in the outbox */
  int64_t returned_ms;      /* monotonic: when that was; 0: never */
  int64_t late_until_ms;    /* monotonic: until then others may take steps; 0: nobody does */
  int64_t all_read_from_ms; /* monotonic: when the last read of all began */
  struct event *read_again;
};

/* What leaves. */

void window_answer(struct window *self, struct claimed_step *step,
                   const struct step_event *completed, const struct step_result *result) {
  self->handler->answered(self->owner, result);
  ledger_answer(&self->ledger, step,
                outbox_result(self->outbox, completed, result, step->listed ? &step->claimed : NULL,
                              step->announced));
}

void window_remove(struct window *self, struct claimed_step *step) {
  ledger_answer(&self->ledger, step, outbox_removal(self->outbox, &step->claimed));
}

/* An answer of the agent's own. */
static void answer(struct window *self, struct claimed_step *step, int version,
                   enum step_cause cause, const char *reason, int64_t event_count) {
  struct step_result result = step_result_of_agent(version, step->step_id, cause, reason);
  result.event_count = event_count;
  window_answer(self, step, NULL, &result);
  outbox_flush(self->outbox);
}

void window_log_undelivered(struct window *self, const struct log *log) {
  ledger_delivered(&self->ledger, self->outbox->send_queue.gone);
  for (struct claimed_step *step = self->ledger.oldest; step != NULL; step = step->newer)
    if (step->place.result != NULL)
      log_line(log, LOG_ERROR, NULL, "undelivered result: %.*s", (int)step->place.result_length,
               step->place.result);
}

/* Cancels. */

static void answer_cancelled(struct window *self, struct claimed_step *step) {
  log_line(self->log, LOG_INFO, step->step_id, "cancel: a step that was waiting will not run");
  answer(self, step, step_answer_version(&step->step), STEP_CAUSE_CANCELLED,
         "cancelled: by a cancel step", 0);
}

static void remove_order(struct window *self, struct claimed_step *order, bool is_obeyed) {
  if (!is_obeyed)
    log_line(self->log, LOG_INFO, order->step_id, "cancel: no such step is running or waiting");
  window_remove(self, order);
  outbox_flush(self->outbox);
}

static bool is_reading(const struct window *self, enum window_reading purpose) {
  return self->state == WINDOW_READING && self->purpose == purpose;
}

/* An order whose step lies behind the window stays in the list until that is found, so that it is
   not lost with this agent. */
static void obey(struct window *self, struct claimed_step *order) {
  const char *step_id = order->step_id;
  bool is_all = is_reading(self, READ_BOOT) || is_reading(self, READ_ALL);
  bool is_obeyed = self->handler->cancel(self->owner, step_id);
  struct claimed_step *step = is_obeyed ? NULL : ledger_find(&self->ledger, step_id);
  if (step != NULL)
    answer_cancelled(self, step);
  else if (!is_obeyed && (is_all ? self->ledger.passed : self->ledger.behind) > 0)
    return;
  remove_order(self, order, is_obeyed || step != NULL);
}

/* The list behind the window was read to its end for some of them, or there is nothing. */
static void end_orders(struct window *self) {
  for (struct claimed_step *step = self->ledger.oldest; step != NULL; step = step->newer)
    if (claimed_step_is_order(step) && (step->sought || self->ledger.behind == 0))
      remove_order(self, step, false);
}

/* Arrivals. */

/* What is to be done with a step that arrives, by its id. A shutdown counts as a copy only where
   one waits already, since it must not be lost. */
static enum recent_steps_verdict judge(struct window *self, const struct claimed_step *step) {
  if (step->refused || step->step.kind == &step_cancel ||
      (!step_is_work(&step->step) && !ledger_has_shutdown(&self->ledger)))
    return RECENT_STEPS_NEW;
  return recent_steps_judge(&self->recent_steps, step->step_id);
}

/* A step that Redis hands out a second time is removed, or answered as lost. */
static void dispose(struct window *self, struct claimed_step *step,
                    enum recent_steps_verdict verdict) {
  if (verdict == RECENT_STEPS_HELD) {
    log_line(self->log, LOG_WARN, step->step_id,
             "redis hands out this step once more; it is answered once");
    ledger_answer(&self->ledger, step, outbox_removal_of_copy(self->outbox, &step->claimed));
    outbox_flush(self->outbox);
  } else if (verdict == RECENT_STEPS_ANSWERED) {
    log_line(self->log, LOG_WARN, step->step_id,
             "redis has lost the result of this step, which is not run again");
    answer(self, step, step_answer_version(&step->step), STEP_CAUSE_LOST, window_lost_result, -1);
  }
}

/* Puts the step into the ledger and deals with it, unless it waits: then it returns true. */
static bool arrive(struct window *self, struct claimed_step *step,
                   void (*put)(struct ledger *ledger, struct claimed_step *step)) {
  size_t bytes = step->claimed.length + RECORD_BYTES;
  self->handler->arrived(self->owner);
  if (claimed_step_is_order(step)) {
    put(&self->ledger, step);
    obey(self, step);
  } else {
    enum recent_steps_verdict verdict = judge(self, step);
    if (verdict == RECENT_STEPS_NEW)
      return true;
    put(&self->ledger, step);
    dispose(self, step, verdict);
  }
  self->overtaken_bytes += bytes;
  return false;
}

static struct claimed_step *parse(struct window *self, const struct claimed *claimed) {
  struct claimed_step *step = claimed_step_new(claimed);
  /* A large payload takes a while; timers that start from here on start now. */
  (void)event_base_update_cache_time(self->base);
  return step;
}

static bool is_full(const struct window *self) {
  return self->ledger.waiting >= WINDOW_STEPS || self->ledger.bytes >= payload_limit();
}

static void on_step(void *owner, const struct claimed *claimed) {
  struct window *self = owner;
  struct claimed_step *step = parse(self, claimed);
  if (arrive(self, step, ledger_append)) {
    if (self->ledger.behind == 0 && !is_full(self))
      ledger_append(&self->ledger, step);
    else
      ledger_append_behind(&self->ledger, step);
  }
  self->handler->changed(self->owner);
  window_more(self);
}

/* Whether nothing is left that Redis could hand out once more: `inflight` was read, and `in` was
   empty for the time of a whole question since the loss (the first to end may be older). What a
   Redis that goes back again can do is seen, because something was delivered since. */
static bool is_settled(const struct window *self) {
  return self->empty_answers >= 2 && self->state == WINDOW_READY && !self->all_due &&
         !self->reader.is_running && outbox_is_empty(self->outbox) &&
         !delivery_has_lost_data(self->outbox->delivery);
}

/* A BLMOVE of a lost connection may have been answered nevertheless, to nobody. */
static void on_nothing(void *owner) {
  struct window *self = owner;
  self->empty_answers++;
  if (is_settled(self))
    recent_steps_settle(&self->recent_steps);
  self->all_due |=
      self->ledger.waiting == 0 && self->ledger.behind == 0 && self->ledger.begun == NULL;
  window_more(self);
}

static void watch_for_late(struct window *self) {
  self->late_until_ms = clock_monotonic_ms() + LATE_MS;
}

static void on_needs_resync(void *owner) {
  struct window *self = owner;
  watch_for_late(self);
  self->all_due = true;
  window_more(self);
}

static void on_consumer_failed(void *owner, const struct error *error) {
  struct window *self = owner;
  self->handler->failed(self->owner, error);
}

/* What Redis has lost. */

static void hold(struct window *self, const struct claimed_step *step) {
  recent_steps_hold(&self->recent_steps, step->step_id, step->state != STEP_CLAIMED);
}

/* All that is begun or waits, the newest first: each becomes the oldest of the list, so that their
   order stays. Only the beginning of a truncated one is known. */
static void put_all_back(struct window *self) {
  for (struct claimed_step *step = self->ledger.newest; step != NULL; step = step->older) {
    if (step->state == STEP_ANSWERED || claimed_step_is_order(step))
      continue;
    step->returned = true;
    step->listed = !step->claimed.truncated;
    if (step->listed)
      self->returned_end = outbox_return(self->outbox, &step->claimed).end;
  }
}

static void tell_loss(struct window *self) {
  log_line(self->log, self->loss_told ? LOG_DEBUG : LOG_WARN, NULL,
           "redis has lost that steps were taken");
  self->loss_told = true;
}

/* The list has been read to its end. Nothing that was delivered is lost, only that steps were
   taken. */
static void compare(struct window *self, bool is_short) {
  bool missing = false, told = self->loss_told;
  for (struct claimed_step *step = self->ledger.oldest; step != NULL; step = step->newer)
    missing |= claimed_step_is_missing(step);
  if (missing || is_short)
    tell_loss(self);
  self->loss_told = missing || is_short;
  if (!missing)
    return;
  if (told && clock_monotonic_ms() - self->returned_ms < RETURN_PAUSE_MS) {
    loop_timer_start(self->read_again, RETURN_PAUSE_MS);
    return;
  }
  self->returned_ms = clock_monotonic_ms();
  self->empty_answers = 0;
  for (struct claimed_step *step = self->ledger.oldest; step != NULL; step = step->newer)
    if (claimed_step_is_missing(step))
      hold(self, step);
  put_all_back(self);
  outbox_flush(self->outbox);
  self->state = WINDOW_RETURNING;
}

LOOP_CALLBACK(on_read_again, struct window *self) {
  self->all_due = true;
  window_more(self);
}

static bool is_stopping(const struct window *self) {
  return self->state >= WINDOW_STOPPING || is_reading(self, READ_LAST);
}

bool window_forgotten(struct window *self) {
  ledger_delivered(&self->ledger, self->outbox->send_queue.gone);
  struct claimed_step *begun = self->ledger.begun;
  bool again = begun != NULL && recent_steps_times(&self->recent_steps, begun->step_id) > 1;
  log_line(self->log, LOG_WARN, NULL,
           "redis has lost what it had acknowledged: it is empty, or back at an earlier state");
  ledger_drop_orders(&self->ledger);
  self->ledger.behind = 0;
  self->empty_answers = 0;
  self->unread = true;
  recent_steps_roll_back(&self->recent_steps);
  for (struct claimed_step *step = self->ledger.oldest; step != NULL; step = step->newer)
    if (step->place.result != NULL || step == begun)
      hold(self, step);
  for (struct claimed_step *step = self->ledger.oldest; step != NULL; step = step->newer)
    if (claimed_step_waits(step))
      dispose(self, step, judge(self, step));
  for (struct claimed_step *step = self->ledger.oldest; step != NULL; step = step->newer)
    if (claimed_step_waits(step))
      hold(self, step);
  put_all_back(self);
  outbox_started(self->outbox, begun != NULL && begun->announced ? begun->step_id : NULL);
  outbox_flush(self->outbox);
  if (is_reading(self, READ_BOOT) && delivery_had_owner(self->outbox->delivery))
    watch_for_late(self);
  self->state = is_stopping(self) ? WINDOW_STOPPING : WINDOW_RETURNING;
  return again;
}

/* Reading. */

static void begin_read(struct window *self, enum window_reading purpose, size_t most) {
  self->state = WINDOW_READING;
  self->purpose = purpose;
  ledger_begin_pass(&self->ledger, purpose == READ_BEHIND);
  if (purpose == READ_ALL || purpose == READ_BOOT) {
    self->all_due = false;
    self->all_read_from_ms = clock_monotonic_ms();
  }
  inflight_reader_read(&self->reader, most);
}

static size_t on_place(void *owner) {
  struct window *self = owner;
  ledger_delivered(&self->ledger, self->outbox->send_queue.gone);
  const struct claimed_step *met = self->ledger.met;
  self->checks = self->purpose == READ_BEHIND && self->ledger.passed == 0 && met != NULL &&
                 met->listed && met->claimed.length <= CHECKED_BYTES;
  return ledger_position(&self->ledger) - (self->checks ? 1 : 0);
}

static bool can_take_in(const struct window *self) {
  return self->ledger.passed == 0 && !is_full(self);
}

static bool wants_more_behind(const struct window *self) {
  return self->ledger.passed < self->ledger.behind &&
         (can_take_in(self) || self->ledger.sought > 0);
}

/* The list is not what it was, and nothing else tells of it: it has less, or what others took. */
static bool find_loss(struct window *self) {
  if (self->late_until_ms == 0)
    tell_loss(self);
  ledger_drop_orders(&self->ledger);
  self->ledger.behind = 0;
  self->all_due = true;
  return false;
}

/* An order is for a step in front of its own place. */
static bool on_known(struct window *self, struct claimed_step *step) {
  if (claimed_step_is_order(step) && step->sought)
    remove_order(self, step, false);
  if (self->purpose == READ_BEHIND)
    return wants_more_behind(self);
  return self->purpose != READ_OLDEST || !claimed_step_waits(step);
}

static bool on_behind(struct window *self, struct claimed_step *step) {
  bool executions = !step->refused && step_is_work(&step->step);
  struct claimed_step *order = executions ? ledger_find_order(&self->ledger, step->step_id) : NULL;
  if (order == NULL && !can_take_in(self)) {
    ledger_pass(&self->ledger, step);
    return wants_more_behind(self);
  }
  self->ledger.behind--;
  ledger_insert(&self->ledger, step);
  if (order != NULL) {
    answer_cancelled(self, step);
    remove_order(self, order, true);
  }
  return wants_more_behind(self);
}

/* An earlier agent had started it; NULL: it is not in the list any more. */
static void answer_interrupted(struct window *self, struct claimed_step *step) {
  static const char reason[] = "interrupted: the agent ended while this step was running";
  char *step_id = self->reader.started;
  self->reader.started = NULL;
  log_line(self->log, LOG_WARN, step_id, "%s", reason);
  recent_steps_add(&self->recent_steps, step_id);
  int version = step != NULL ? step_answer_version(&step->step) : self->reader.started_version;
  if (step == NULL) {
    step = memory_allocate(sizeof *step);
    *step = (struct claimed_step){.step_id = memory_copy(step_id, strlen(step_id))};
  }
  step->announced = true;
  ledger_insert(&self->ledger, step);
  answer(self, step, version, STEP_CAUSE_LOST, reason, self->reader.started_events);
  free(step_id);
}

/* The oldest stay in memory, also where that makes others leave it. */
static void find(struct window *self, struct claimed_step *step) {
  if (!ledger_is_inside(&self->ledger) && !can_take_in(self) && self->purpose != READ_OLDEST) {
    ledger_pass(&self->ledger, step);
    return;
  }
  log_line(self->log, LOG_DEBUG, step->step_id,
           "found among those that are taken and not answered");
  if (self->ledger.behind > 0 && !ledger_is_inside(&self->ledger))
    self->ledger.behind--;
  ledger_insert(&self->ledger, step);
  while (is_full(self) && ledger_leave_newest(&self->ledger))
    ;
}

/* What is new, and what waits, is for the agent after this one. */
static bool on_last(struct window *self, struct claimed_step *step) {
  enum recent_steps_verdict verdict = judge(self, step);
  if (verdict == RECENT_STEPS_NEW) {
    ledger_pass(&self->ledger, step);
  } else {
    ledger_insert(&self->ledger, step);
    dispose(self, step, verdict);
  }
  return true;
}

/* A step that is not known, in a read from the tail on; returns whether that goes on. */
static bool on_unknown(struct window *self, struct claimed_step *step) {
  if (self->purpose == READ_LAST)
    return on_last(self, step);
  if (self->ledger.orders == WINDOW_ORDERS_MAX || self->ledger.waiting >= 2 * WINDOW_STEPS) {
    claimed_step_free(step);
    self->all_due = true;
    if (self->purpose == READ_OLDEST)
      self->state = WINDOW_READY; /* not certain */
    return false;
  }
  if (self->reader.started != NULL && strcmp(step->step_id, self->reader.started) == 0) {
    answer_interrupted(self, step);
    return true;
  }
  if (!arrive(self, step, ledger_insert))
    return true;
  find(self, step);
  return self->purpose != READ_OLDEST;
}

/* Known as soon as the first payload comes, or none. What was read is then read again. */
static bool waits_for_interrupted(struct window *self) {
  if (self->reader.started != NULL && self->interrupted == NOT_ASKED)
    self->interrupted = self->handler->interrupted(self->owner) ? ENDED : ENDING;
  return self->interrupted == ENDING;
}

static bool on_payload(void *owner, const struct claimed *claimed) {
  struct window *self = owner;
  if (waits_for_interrupted(self) || self->state != WINDOW_READING)
    return false;
  if (self->checks) {
    self->checks = false;
    return ledger_is_last(&self->ledger, claimed) || find_loss(self);
  }
  struct claimed_step *known = ledger_meet(&self->ledger, claimed);
  if (known != NULL)
    return on_known(self, known);
  struct claimed_step *step = parse(self, claimed);
  return self->purpose == READ_BEHIND ? on_behind(self, step) : on_unknown(self, step);
}

static void end_read_of_all(struct window *self, bool complete) {
  bool is_short = self->ledger.passed < self->ledger.behind;
  ledger_end_pass(&self->ledger, complete);
  if (self->reader.started != NULL)
    answer_interrupted(self, NULL);
  if (self->purpose == READ_BOOT && delivery_had_owner(self->outbox->delivery))
    watch_for_late(self);
  else if (self->all_read_from_ms > self->late_until_ms)
    self->late_until_ms = 0;
  self->unread &= !complete;
  if (complete && !self->all_due)
    compare(self, is_short);
}

static void on_read_end(void *owner, bool complete) {
  struct window *self = owner;
  if (waits_for_interrupted(self) && !is_stopping(self)) {
    self->state = WINDOW_READING;
    self->purpose = READ_BOOT;
    return;
  }
  if (self->state == WINDOW_READING) {
    self->state = self->purpose == READ_LAST ? WINDOW_STOPPED : WINDOW_READY;
    self->certain = self->purpose != READ_BEHIND;
    if (self->purpose == READ_ALL || self->purpose == READ_BOOT)
      end_read_of_all(self, complete);
    else if (self->purpose == READ_BEHIND && self->ledger.passed >= self->ledger.behind)
      end_orders(self);
    else if (self->purpose == READ_BEHIND && complete)
      (void)find_loss(self);
  }
  self->handler->changed(self->owner);
  self->certain = false;
  window_more(self);
}

/* Not while a step may be on its way, which it would meet before that arrives. */
static bool may_read_all(const struct window *self) {
  return self->all_due && !consumer_is_waiting(self->consumer) &&
         self->ledger.waiting <= WINDOW_STEPS;
}

/* A cancel comes first. */
static void read_what_is_due(struct window *self) {
  if (self->ledger.orders > 0 && self->ledger.behind > 0)
    begin_read(self, READ_BEHIND, SIZE_MAX);
  else if (may_read_all(self))
    begin_read(self, READ_ALL, SIZE_MAX);
  else if (self->ledger.behind > 0 && self->ledger.waiting <= WINDOW_STEPS / 2 &&
           self->ledger.bytes <= payload_limit() / 2)
    begin_read(self, READ_BEHIND, WINDOW_STEPS - self->ledger.waiting + 1);
}

static bool may_claim(struct window *self) {
  const struct ledger *ledger = &self->ledger;
  if (outbox_capacity(self->outbox) > 0)
    self->overtaken_bytes = 0;
  return (self->state == WINDOW_READY || is_reading(self, READ_OLDEST) ||
          is_reading(self, READ_BEHIND)) &&
         !self->all_due && ledger->behind < WINDOW_BEHIND_MAX &&
         ledger->orders < WINDOW_ORDERS_MAX && ledger->order_bytes < WINDOW_OVERTAKEN_BYTES &&
         self->overtaken_bytes < WINDOW_OVERTAKEN_BYTES;
}

/* A read that was going on before has ended, and what is put back is there. */
static bool may_read_anew(const struct window *self) {
  return !self->reader.is_running && self->outbox->send_queue.gone >= self->returned_end;
}

/* Does what is due, as far as the state allows it. */
void window_more(struct window *self) {
  ledger_delivered(&self->ledger, self->outbox->send_queue.gone);
  if (self->state == WINDOW_RETURNING && may_read_anew(self)) {
    self->state = WINDOW_READY;
    self->all_due = true;
  }
  /* A Redis that goes back once more before anything was delivered does not report it. */
  if (self->state == WINDOW_STOPPING && !delivery_has_lost_data(self->outbox->delivery) &&
      may_read_anew(self))
    begin_read(self, READ_LAST, 1);
  if (self->state == WINDOW_READY && !self->reader.is_running)
    read_what_is_due(self);
  if (may_claim(self))
    consumer_take(self->consumer);
}

/* An id that was used before waits until the answer to that step is delivered; what is full, until
   there is room for another answer. */
static bool may_give(struct window *self, const struct claimed_step *oldest) {
  if (self->state != WINDOW_READY && !is_reading(self, READ_BEHIND))
    return false;
  if (!oldest->refused && recent_steps_times(&self->recent_steps, oldest->step_id) > 0)
    return outbox_is_empty(self->outbox);
  return outbox_capacity(self->outbox) > 0;
}

/* As long as others may take steps, one that is older than what is known here may lie there. */
static bool is_certain(struct window *self) {
  if (self->late_until_ms == 0 || self->certain)
    return true;
  self->all_due |= clock_monotonic_ms() >= self->late_until_ms;
  if (self->state != WINDOW_READY || self->reader.is_running || self->ledger.orders > 0)
    return false;
  if (may_read_all(self))
    begin_read(self, READ_ALL, SIZE_MAX);
  else /* mostly the one that was taken last, on its way out, and the oldest */
    begin_read(self, READ_OLDEST, self->ledger.bytes < INFLIGHT_READER_BYTES ? 2 : 1);
  return false;
}

struct claimed_step *window_take(struct window *self) {
  struct claimed_step *oldest = ledger_oldest_waiting(&self->ledger);
  if (oldest == NULL || self->ledger.begun != NULL || !may_give(self, oldest) || !is_certain(self))
    return NULL;
  self->certain = false;
  return oldest;
}

void window_begin(struct window *self, struct claimed_step *step, bool announced) {
  ledger_begin(&self->ledger, step, announced);
  recent_steps_add(&self->recent_steps, step->step_id);
  if (announced)
    window_announce(self);
}

void window_announce(struct window *self) {
  struct claimed_step *begun = self->ledger.begun;
  begun->announced = true;
  outbox_started(self->outbox, begun->step_id);
}

struct window *window_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const struct keys *keys,
                          struct outbox *outbox, const struct window_handler *handler,
                          void *owner) {
  static const struct consumer_handler consumer_handler = {.step = on_step,
                                                           .nothing = on_nothing,
                                                           .needs_resync = on_needs_resync,
                                                           .failed = on_consumer_failed};
  static const struct inflight_reader_handler reader_handler = {
      .place = on_place, .payload = on_payload, .end = on_read_end};
  struct window *self = memory_allocate(sizeof *self);
  *self = (struct window){.base = base,
                          .log = log,
                          .outbox = outbox,
                          .handler = handler,
                          .owner = owner,
                          .reader = {.outbox = outbox,
                                     .keys = keys,
                                     .handler = &reader_handler,
                                     .owner = self,
                                     .started_version = 1,
                                     .boot_due = 2,
                                     .commands = 1}};
  self->read_again = loop_timer_new(base, on_read_again, self);
  self->consumer = consumer_new(base, log, url, keys, &consumer_handler, self);
  begin_read(self, READ_BOOT, 1);
  return self;
}

void window_free(struct window *self) {
  ledger_release(&self->ledger);
  free(self->reader.started);
  event_free(self->read_again);
  consumer_free(self->consumer);
  free(self);
}

void window_interrupted_ended(struct window *self) {
  self->interrupted = ENDED;
  if (is_reading(self, READ_BOOT) && !self->reader.is_running)
    begin_read(self, READ_BOOT, 1);
}

void window_prepare(struct window *self) {
  consumer_prepare(self->consumer);
}

void window_stop(struct window *self) {
  self->state = self->unread ? WINDOW_STOPPING : WINDOW_STOPPED;
  consumer_stop(self->consumer);
  window_more(self);
}

bool window_is_stopped(const struct window *self) {
  return self->state == WINDOW_STOPPED;
}

uint64_t window_reconnections(const struct window *self) {
  return consumer_reconnections(self->consumer);
}

void window_dump(const struct window *self) {
  static const char *const states[] = {"ready", "reads", "puts steps back", "stops", "stopped"};
  static const char *const readings[] = {" inflight at boot", " inflight", " the oldest step",
                                         " what is not in memory", " inflight at the end"};
  log_line(self->log, LOG_WARN, NULL,
           "state: window: %s%s, %zu steps wait in memory, %zu in inflight alone",
           states[self->state], self->state == WINDOW_READING ? readings[self->purpose] : "",
           self->ledger.waiting, self->ledger.behind);
}
