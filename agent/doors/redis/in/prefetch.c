#include "agent/doors/redis/in/prefetch.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/in/consumer.h"
#include "agent/doors/redis/in/inflight_reader.h"
#include "agent/doors/redis/in/recent_steps.h"
#include "agent/doors/redis/in/reconcile.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "wire/step_result.h"

/* How long another agent's BLMOVE may still take a step: Redis lets it wait for
   CONSUMER_BLOCK_SECONDS, and an agent that was superseded may send one more before it learns of
   it. The same holds for one of this agent's own, on a connection that was lost. */
#define LATE_MS (CONSUMER_BLOCK_SECONDS * 1000 + 5000)

/* A Redis that has lost again what was put back keeps nothing: so long it is left alone. What waits is
   in memory meanwhile, and is run. */
#define RETURN_PAUSE_MS 1000

/* What is written in one outbox record for a step beside its payload, roughly. */
#define RECORD_BYTES 256

const char prefetch_lost_result[] = "lost: the step has run, and redis has lost its result";

/* A cancel of a step that was dropped: kept until that step is answered. */
struct pending_cancel {
  struct claimed_step *order;
  struct step_record target;
};

/* Whether the step that an earlier agent had started still runs. */
enum interrupted { NOT_ASKED, ENDING, ENDED };

struct prefetch {
  struct prefetch_options options;
  const struct prefetch_handler *handler;
  void *owner;
  struct consumer *consumer;
  struct inflight_reader reader;
  struct step_queue queue;
  struct recent_steps recent_steps;
  enum prefetch_state state;
  enum interrupted interrupted;
  struct claimed_step *taken; /* given out and not released; NULL: none is */
  char *taken_id;             /* its stepId, once it is started; else NULL */
  bool announced;             /* Redis has that it was started, or gets it */
  struct pending_cancel cancels[PREFETCH_CANCELS_MAX];
  size_t cancel_count, cancel_bytes;
  size_t overtaken_bytes; /* see PREFETCH_OVERTAKEN_BYTES */
  size_t read_from;       /* of the read that is going on: its first position */
  size_t found;           /* by it: steps that it was for */
  size_t empty_answers;   /* questions that found `in` empty, since the last loss */
  bool scan_due;          /* there may be steps in `inflight` that are not known here */
  bool unread;            /* Redis lost data, and `inflight` was not read to its end since */
  size_t scan_below;      /* a scan waits until there are fewer records */
  int64_t late_until_ms;  /* monotonic: until then others may take steps; 0: nobody does */
  int64_t scan_began_ms;  /* monotonic */
  int64_t returned_ms;    /* monotonic: when steps were put back; 0: never */
  bool loss_told;         /* of steps; and no scan has found all of them since */
  struct event *scan_again;
};

static void advance(struct prefetch *self);

static void answer(struct prefetch *self, const struct step_result *result,
                   const struct claimed *claimed, bool started) {
  outbox_result(self->options.outbox, NULL, result, claimed, started);
  outbox_flush(self->options.outbox);
}

static struct step_result result_of_agent(const struct claimed_step *step, const char *reason) {
  return step_result_of_agent(step_answer_version(&step->step), step->step.step_id, reason);
}

static void remove_order(struct prefetch *self, struct claimed_step *order) {
  outbox_removal(self->options.outbox, &order->claimed);
  outbox_flush(self->options.outbox);
  claimed_step_free(order);
}

static struct reconcile known(struct prefetch *self) {
  return (struct reconcile){.outbox = self->options.outbox,
                            .recent_steps = &self->recent_steps,
                            .queue = &self->queue,
                            .taken = self->taken,
                            .taken_id = self->taken_id,
                            .announced = self->announced};
}

/* Cancels. */

static void answer_cancelled(struct prefetch *self, const struct claimed_step *step) {
  struct step_result result = result_of_agent(step, "cancelled: by a cancel step");
  log_line(self->options.log, LOG_INFO, result.step_id,
           "cancel: a step that was waiting will not run");
  answer(self, &result, &step->claimed, false);
}

static void log_unknown(const struct prefetch *self, const char *step_id) {
  log_line(self->options.log, LOG_INFO, step_id, "cancel: no such step is running or waiting");
}

/* Takes the order over. */
static void cancel(struct prefetch *self, struct claimed_step *order) {
  const char *step_id = order->step.step_id;
  struct claimed_step *step;
  size_t record;
  if (!self->handler->cancel(self->owner, step_id)) {
    switch (step_queue_cancel(&self->queue, step_id, &step, &record)) {
    case STEP_QUEUE_NONE:
      log_unknown(self, step_id);
      break;
    case STEP_QUEUE_TAKEN_OUT:
      answer_cancelled(self, step);
      claimed_step_free(step);
      break;
    case STEP_QUEUE_MARKED:
      self->cancels[self->cancel_count++] = (struct pending_cancel){
          .order = order, .target = *step_queue_record(&self->queue, record)};
      self->cancel_bytes += order->claimed.length;
      return;
    }
  }
  remove_order(self, order);
}

static struct claimed_step *take_order(struct prefetch *self, size_t number) {
  struct claimed_step *order = self->cancels[number].order;
  self->cancel_bytes -= order->claimed.length;
  self->cancels[number] = self->cancels[--self->cancel_count];
  return order;
}

/* The payload of a step that was dropped and cancelled is here. The order is removed after the
   answer, so that it is not lost with this agent. */
static void finish_cancel(struct prefetch *self, size_t number, size_t record,
                          const struct claimed *claimed) {
  struct claimed_step *order = take_order(self, number);
  struct claimed_step *step = claimed_step_new(claimed);
  if (strcmp(step->step.step_id, order->step.step_id) == 0) {
    step_queue_remove_record(&self->queue, record);
    answer_cancelled(self, step);
  } else {
    step_queue_record(&self->queue, record)->cancelled = false;
    log_unknown(self, order->step.step_id);
  }
  remove_order(self, order);
  claimed_step_free(step);
}

/* Returns the number that the step's record had, or SIZE_MAX when it is another payload. */
static size_t find_cancelled(struct prefetch *self, const struct claimed *claimed) {
  size_t number = 0;
  while (number < self->cancel_count && !step_record_is(&self->cancels[number].target, claimed))
    number++;
  if (number == self->cancel_count)
    return SIZE_MAX;
  uint64_t payload = self->cancels[number].target.payload;
  size_t record = step_queue_first_cancelled(&self->queue);
  while (step_queue_record(&self->queue, record)->payload != payload ||
         !step_queue_record(&self->queue, record)->cancelled)
    record++;
  finish_cancel(self, number, record, claimed);
  return record;
}

/* Redis lost data: they are found again if they are still there. */
static void forget_cancels(struct prefetch *self) {
  while (self->cancel_count > 0)
    claimed_step_free(take_order(self, 0));
}

/* Ends those whose step is not in Redis any more. */
static void end_lost_cancels(struct prefetch *self) {
  for (size_t i = self->cancel_count; i-- > 0;) {
    size_t record = 0;
    while (record < self->queue.record_count &&
           (!step_queue_record(&self->queue, record)->cancelled ||
            step_queue_record(&self->queue, record)->payload != self->cancels[i].target.payload))
      record++;
    if (record < self->queue.record_count)
      continue;
    log_unknown(self, self->cancels[i].order->step.step_id);
    remove_order(self, take_order(self, i));
  }
}

/* Arrivals. */

/* A step that Redis hands out a second time; true: there is nothing left to be done for it. */
static bool settle(void *owner, const struct claimed_step *step) {
  struct prefetch *self = owner;
  struct reconcile reconcile = known(self);
  struct step_result lost = result_of_agent(step, prefetch_lost_result);
  const char *step_id = step->step.step_id;
  switch (reconcile_judge(&reconcile, step)) {
  case RECENT_STEPS_NEW:
    return false;
  case RECENT_STEPS_HELD:
    log_line(self->options.log, LOG_WARN, step_id,
             "redis hands out this step once more; it is answered once");
    outbox_removal_of_copy(self->options.outbox, &step->claimed);
    outbox_flush(self->options.outbox);
    break;
  case RECENT_STEPS_ANSWERED:
    log_line(self->options.log, LOG_WARN, step_id,
             "redis has lost the result of this step, which is not run again");
    lost.event_count = -1;
    answer(self, &lost, &step->claimed, false);
  }
  return true;
}

/* Takes the step over, unless it waits: then it returns true. */
static bool arrive(struct prefetch *self, struct claimed_step *step) {
  size_t bytes = step->claimed.length + RECORD_BYTES;
  self->handler->arrived(self->owner);
  if (!step->refused && step->step.kind == &step_cancel)
    cancel(self, step);
  else if (settle(self, step))
    claimed_step_free(step);
  else
    return true;
  self->overtaken_bytes += bytes;
  return false;
}

static struct claimed_step *parse(struct prefetch *self, const struct claimed *claimed) {
  struct claimed_step *step = claimed_step_new(claimed);
  /* A large payload takes a while; timers that start from here on start now. */
  (void)event_base_update_cache_time(self->options.base);
  return step;
}

static void changed(struct prefetch *self) {
  self->handler->changed(self->owner);
  advance(self);
}

static void on_step(void *owner, const struct claimed *claimed) {
  struct prefetch *self = owner;
  struct claimed_step *step = parse(self, claimed);
  if (arrive(self, step))
    step_queue_push(&self->queue, step);
  changed(self);
}

/* Whether nothing is left that Redis could hand out once more: `inflight` was read, and `in` was
   empty for the time of a whole question since the loss (the first to end may be older). What a
   Redis that goes back again can do is seen, because something was delivered since. */
static bool is_settled(const struct prefetch *self) {
  return self->empty_answers >= 2 && self->state == PREFETCH_READY && !self->scan_due &&
         !self->reader.is_running && outbox_is_empty(self->options.outbox) &&
         !outbox_has_lost_data(self->options.outbox);
}

/* A BLMOVE of a lost connection may have been answered nevertheless, to nobody. */
static void on_nothing(void *owner) {
  struct prefetch *self = owner;
  self->empty_answers++;
  if (is_settled(self))
    recent_steps_settle(&self->recent_steps);
  self->scan_due |= self->taken == NULL && step_queue_is_empty(&self->queue);
  advance(self);
}

static void watch_for_late(struct prefetch *self) {
  self->late_until_ms = clock_monotonic_ms() + LATE_MS;
}

static void on_needs_resync(void *owner) {
  struct prefetch *self = owner;
  self->scan_due = true;
  watch_for_late(self);
  advance(self);
}

static void on_consumer_failed(void *owner, const struct error *error) {
  struct prefetch *self = owner;
  self->handler->failed(self->owner, error);
}

/* Reading. */

/* Where a record lies in `inflight`, or in front of it: steps on their way out are not counted. */
static size_t position_of(const struct prefetch *self, size_t record) {
  size_t position = 1 + record + (self->taken != NULL && !self->taken->gone);
  for (size_t i = 0; i < self->queue.count; i++)
    position += !self->queue.items[i]->gone;
  return position;
}

static void read_from(struct prefetch *self, enum prefetch_state state, size_t position,
                      size_t commands) {
  self->state = state;
  self->read_from = position;
  self->found = 0;
  inflight_reader_read(&self->reader, position, commands);
}

static void read_all(struct prefetch *self, enum prefetch_state state) {
  step_queue_begin_scan(&self->queue);
  if (self->taken != NULL)
    self->taken->seen = false;
  read_from(self, state, 1, 1);
}

static void begin_scan(struct prefetch *self) {
  self->scan_due = false;
  self->scan_began_ms = clock_monotonic_ms();
  read_all(self, PREFETCH_SCANNING);
}

/* Mostly the one that was taken last, on its way out, and the oldest. */
static void begin_peek(struct prefetch *self) {
  step_queue_begin_peek(&self->queue);
  if (self->taken != NULL)
    self->taken->seen = false;
  read_from(self, PREFETCH_PEEKING, 1, self->queue.bytes < INFLIGHT_READER_BYTES ? 2 : 1);
}

static void begin_fetch(struct prefetch *self) {
  size_t record = step_queue_first_cancelled(&self->queue);
  read_from(self, PREFETCH_FETCHING, position_of(self, record), 1);
}

/* As many as fit, as far as is known. */
static void begin_load(struct prefetch *self) {
  size_t commands = 0, bytes = 0;
  size_t room = STEP_QUEUE_MAX - self->queue.count;
  while (commands < room && commands < self->queue.record_count && bytes < INFLIGHT_READER_BYTES)
    bytes += step_queue_record(&self->queue, commands++)->length;
  read_from(self, PREFETCH_LOADING, position_of(self, 0), commands);
}

static bool is_taken(struct prefetch *self, const struct claimed *claimed) {
  if (self->taken == NULL || self->taken->seen || !claimed_step_is(self->taken, claimed))
    return false;
  return self->taken->seen = true;
}

static bool is_interrupted(const struct prefetch *self, const struct claimed_step *step) {
  return self->reader.started != NULL && strcmp(step->step.step_id, self->reader.started) == 0;
}

/* An earlier agent had started it; NULL: it is not in the list any more. */
static void answer_interrupted(struct prefetch *self, const struct claimed_step *step) {
  static const char reason[] = "interrupted: the agent ended while this step was running";
  char *step_id = self->reader.started;
  self->reader.started = NULL;
  log_line(self->options.log, LOG_WARN, step_id, "%s", reason);
  recent_steps_add(&self->recent_steps, step_id);
  int version = step != NULL ? step_answer_version(&step->step) : self->reader.started_version;
  struct step_result result = step_result_of_agent(version, step_id, reason);
  result.event_count = self->reader.started_events;
  answer(self, &result, step != NULL ? &step->claimed : NULL, true);
  free(step_id);
}

/* A step that is not known here; returns whether the scan goes on. */
static bool find(struct prefetch *self, const struct claimed *claimed) {
  bool peeking = self->state == PREFETCH_PEEKING;
  bool no_room = !peeking && !step_queue_has_room(&self->queue);
  if (no_room || self->cancel_count == PREFETCH_CANCELS_MAX) {
    self->scan_due = true;
    if (no_room)
      self->scan_below = STEP_QUEUE_RECORDS_MAX / 2;
    if (peeking)
      self->state = PREFETCH_READY; /* not certain */
    return false;
  }
  struct claimed_step *step = parse(self, claimed);
  if (is_interrupted(self, step)) {
    answer_interrupted(self, step);
    claimed_step_free(step);
    return true;
  }
  log_line(self->options.log, LOG_DEBUG, step->step.step_id,
           "found among those that are taken and not answered");
  step->seen = true;
  bool waits = arrive(self, step);
  if (waits)
    step_queue_insert(&self->queue, step);
  return !peeking || !waits;
}

/* The search in the outbox is slow: it is left out for the many records. */
static bool is_passed_over(struct prefetch *self, const struct claimed *claimed) {
  return !step_queue_expects(&self->queue, claimed) &&
         (is_taken(self, claimed) || inflight_reader_is_removed(&self->reader, claimed));
}

static bool on_peeked(struct prefetch *self, const struct claimed *claimed) {
  if (is_passed_over(self, claimed))
    return true;
  return !step_queue_see(&self->queue, claimed) && find(self, claimed);
}

static bool on_scanned(struct prefetch *self, const struct claimed *claimed) {
  size_t record;
  if (is_passed_over(self, claimed) || step_queue_see(&self->queue, claimed))
    return true;
  if (!step_queue_see_record(&self->queue, claimed, &record))
    return find(self, claimed);
  if (record == 0)
    (void)step_queue_reload(&self->queue, claimed);
  return true;
}

/* What is new, and what waits, is for the agent after this one. */
static bool on_settled(struct prefetch *self, const struct claimed *claimed) {
  size_t record;
  if (is_passed_over(self, claimed) || step_queue_see(&self->queue, claimed) ||
      step_queue_see_record(&self->queue, claimed, &record))
    return true;
  struct claimed_step *step = parse(self, claimed);
  (void)settle(self, step);
  claimed_step_free(step);
  return true;
}

static bool on_fetched(struct prefetch *self, const struct claimed *claimed) {
  size_t record = find_cancelled(self, claimed);
  self->found += record != SIZE_MAX;
  return self->found == 0 ||
         (record < self->queue.record_count && step_queue_record(&self->queue, record)->cancelled);
}

static bool on_loaded(struct prefetch *self, const struct claimed *claimed) {
  self->found += step_queue_reload(&self->queue, claimed);
  return step_queue_can_reload(&self->queue);
}

/* Known as soon as the first payload comes, or none. What was read is then read again. */
static bool waits_for_interrupted(struct prefetch *self) {
  if (self->reader.started != NULL && self->interrupted == NOT_ASKED)
    self->interrupted =
        self->handler->interrupted(self->owner, self->reader.started) ? ENDED : ENDING;
  return self->interrupted == ENDING;
}

static bool on_payload(void *owner, const struct claimed *claimed) {
  struct prefetch *self = owner;
  if (waits_for_interrupted(self))
    return false;
  switch (self->state) {
  case PREFETCH_BOOTING:
  case PREFETCH_SCANNING:
    return on_scanned(self, claimed);
  case PREFETCH_PEEKING:
    return on_peeked(self, claimed);
  case PREFETCH_FETCHING:
    return on_fetched(self, claimed);
  case PREFETCH_LOADING:
    return on_loaded(self, claimed);
  case PREFETCH_SETTLING:
    return on_settled(self, claimed);
  case PREFETCH_NEW:
  case PREFETCH_READY:
  case PREFETCH_CERTAIN:
  case PREFETCH_RETURNING:
  case PREFETCH_STOPPING:
  case PREFETCH_STOPPED:
    break;
  }
  return false;
}

/* The list has been read to its end. */
static void compare(struct prefetch *self) {
  struct reconcile reconcile = known(self);
  size_t dropped = step_queue_drop_unseen(&self->queue);
  bool missing = reconcile_is_any_missing(&reconcile), told = self->loss_told;
  int64_t now_ms = clock_monotonic_ms();
  self->loss_told = dropped > 0 || missing;
  if (!self->loss_told)
    return;
  log_line(self->options.log, told ? LOG_DEBUG : LOG_WARN, NULL,
           "redis has lost that steps were taken");
  if (!missing)
    return;
  if (told && now_ms - self->returned_ms < RETURN_PAUSE_MS) {
    loop_timer_start(self->scan_again, RETURN_PAUSE_MS);
    return;
  }
  self->returned_ms = now_ms;
  self->empty_answers = 0;
  reconcile_missing(&reconcile);
  self->state = PREFETCH_RETURNING;
}

static void on_scan_again(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct prefetch *self = context;
  self->scan_due = true;
  advance(self);
}

static void end_scan(struct prefetch *self, bool complete) {
  if (self->reader.started != NULL)
    answer_interrupted(self, NULL);
  if (self->state == PREFETCH_BOOTING && outbox_had_owner(self->options.outbox))
    watch_for_late(self);
  else if (self->scan_began_ms > self->late_until_ms)
    self->late_until_ms = 0;
  self->state = PREFETCH_CERTAIN;
  self->unread &= !complete;
  if (!complete || self->scan_due)
    return;
  self->scan_below = SIZE_MAX;
  compare(self);
}

/* From where the record was to be found to the end of the list there was nothing; then from the
   beginning on. What is not there either is lost. */
static void end_search(struct prefetch *self, bool complete, size_t record) {
  if (!complete || self->found > 0 || record >= self->queue.record_count) {
    self->state = PREFETCH_READY;
  } else if (self->read_from > 1) {
    read_from(self, self->state, 1, 1);
  } else {
    step_queue_remove_record(&self->queue, record);
    end_lost_cancels(self);
    self->scan_due = true;
    self->state = PREFETCH_READY;
  }
}

static bool is_stopping(const struct prefetch *self) {
  return self->state >= PREFETCH_STOPPING;
}

static void on_read_end(void *owner, bool complete) {
  struct prefetch *self = owner;
  if (waits_for_interrupted(self) && !is_stopping(self)) {
    self->state = PREFETCH_BOOTING;
    return;
  }
  switch (self->state) {
  case PREFETCH_BOOTING:
  case PREFETCH_SCANNING:
    end_scan(self, complete);
    break;
  case PREFETCH_PEEKING:
    self->state = PREFETCH_CERTAIN;
    break;
  case PREFETCH_FETCHING:
    end_search(self, complete, step_queue_first_cancelled(&self->queue));
    break;
  case PREFETCH_LOADING:
    end_search(self, complete, 0);
    break;
  case PREFETCH_SETTLING:
    self->state = PREFETCH_STOPPED;
    break;
  case PREFETCH_NEW:
  case PREFETCH_READY:
  case PREFETCH_CERTAIN:
  case PREFETCH_RETURNING:
  case PREFETCH_STOPPING:
  case PREFETCH_STOPPED:
    break;
  }
  self->handler->changed(self->owner);
  if (self->state == PREFETCH_CERTAIN)
    self->state = PREFETCH_READY;
  advance(self);
}

/* Not while a step may be on its way, which it would see before it arrives. When the one before has
   ended for want of room it does not begin anew for each step. */
static bool may_scan(const struct prefetch *self) {
  return self->scan_due && !consumer_is_waiting(self->consumer) &&
         self->queue.record_count < self->scan_below;
}

/* A cancel comes first: as long as it is kept it lies in the list, where a scan would find it. */
static void begin_read(struct prefetch *self) {
  if (self->cancel_count > 0)
    begin_fetch(self);
  else if (may_scan(self))
    begin_scan(self);
  else if (step_queue_wants_more(&self->queue))
    begin_load(self);
}

static bool may_take(struct prefetch *self) {
  if (outbox_room(self->options.outbox) > 0)
    self->overtaken_bytes = 0;
  return self->state >= PREFETCH_READY && self->state < PREFETCH_SCANNING && !self->scan_due &&
         step_queue_has_room(&self->queue) && self->cancel_count < PREFETCH_CANCELS_MAX &&
         self->cancel_bytes < PREFETCH_OVERTAKEN_BYTES &&
         self->overtaken_bytes < PREFETCH_OVERTAKEN_BYTES;
}

/* A read that was going on before has ended, and what is put back is there. */
static bool may_read_anew(struct prefetch *self) {
  struct reconcile reconcile = known(self);
  return !self->reader.is_running && !reconcile_is_any_returning(&reconcile);
}

/* Does what is due, as far as the state allows it. */
static void advance(struct prefetch *self) {
  if (self->state == PREFETCH_RETURNING && may_read_anew(self)) {
    self->state = PREFETCH_READY;
    self->scan_due = true;
  }
  /* A Redis that goes back once more before anything was delivered does not report it. */
  if (self->state == PREFETCH_STOPPING && !outbox_has_lost_data(self->options.outbox) &&
      may_read_anew(self))
    read_all(self, PREFETCH_SETTLING);
  if (self->state == PREFETCH_READY && !self->reader.is_running)
    begin_read(self);
  if (may_take(self))
    consumer_take(self->consumer);
}

struct prefetch *prefetch_new(const struct prefetch_options *options,
                              const struct prefetch_handler *handler, void *owner) {
  static const struct consumer_handler consumer_handler = {.step = on_step,
                                                           .nothing = on_nothing,
                                                           .needs_resync = on_needs_resync,
                                                           .failed = on_consumer_failed};
  struct prefetch *self = memory_allocate(sizeof *self);
  *self = (struct prefetch){
      .options = *options, .handler = handler, .owner = owner, .scan_below = SIZE_MAX};
  self->scan_again = loop_timer_new(options->base, on_scan_again, self);
  char name[128];
  (void)snprintf(name, sizeof name, "sandbox:%.100s:in", options->job_id);
  self->options.job_id = NULL;
  self->consumer = consumer_new(options->base, options->log, options->url, options->keys, name,
                                &consumer_handler, self);
  inflight_reader_init(&self->reader, options->outbox, options->keys, on_payload, on_read_end,
                       self);
  return self;
}

void prefetch_free(struct prefetch *self) {
  forget_cancels(self);
  prefetch_release(self);
  step_queue_release(&self->queue);
  inflight_reader_release(&self->reader);
  event_free(self->scan_again);
  consumer_free(self->consumer);
  free(self);
}

void prefetch_begin(struct prefetch *self) {
  self->state = PREFETCH_BOOTING;
  self->scan_began_ms = clock_monotonic_ms();
  inflight_reader_boot(&self->reader);
}

void prefetch_interrupted_ended(struct prefetch *self) {
  self->interrupted = ENDED;
  if (self->state == PREFETCH_BOOTING && !self->reader.is_running)
    read_from(self, PREFETCH_BOOTING, 1, 1);
}

void prefetch_prepare(struct prefetch *self) {
  consumer_prepare(self->consumer);
}

void prefetch_more(struct prefetch *self) {
  advance(self);
}

const struct claimed_step *prefetch_oldest(const struct prefetch *self) {
  return step_queue_oldest(&self->queue);
}

/* An id that was used before waits until the answer to that step is delivered; what is full, until
   there is room for another answer. */
static bool may_give(struct prefetch *self, const struct claimed_step *oldest) {
  if (self->state != PREFETCH_READY && self->state != PREFETCH_CERTAIN &&
      self->state != PREFETCH_FETCHING && self->state != PREFETCH_LOADING)
    return false;
  if (!oldest->refused && recent_steps_times(&self->recent_steps, oldest->step.step_id) > 0)
    return outbox_is_empty(self->options.outbox);
  return outbox_room(self->options.outbox) > 0;
}

/* As long as others may take steps, one that is older than what is known here may lie there. */
static bool is_certain(struct prefetch *self) {
  if (self->late_until_ms == 0 || self->state == PREFETCH_CERTAIN)
    return true;
  self->scan_due |= clock_monotonic_ms() >= self->late_until_ms;
  if (self->state != PREFETCH_READY || self->reader.is_running || self->cancel_count > 0)
    return false;
  if (may_scan(self))
    begin_scan(self);
  else
    begin_peek(self);
  return false;
}

struct claimed_step *prefetch_take(struct prefetch *self) {
  const struct claimed_step *oldest = step_queue_oldest(&self->queue);
  if (self->taken != NULL || oldest == NULL || !may_give(self, oldest) || !is_certain(self))
    return NULL;
  if (self->state == PREFETCH_CERTAIN)
    self->state = PREFETCH_READY;
  return self->taken = step_queue_pop(&self->queue);
}

void prefetch_started(struct prefetch *self, bool announced) {
  const char *step_id = self->taken->step.step_id;
  self->taken_id = memory_copy(step_id, strlen(step_id));
  recent_steps_add(&self->recent_steps, step_id);
  if (announced)
    prefetch_announce(self);
}

void prefetch_announce(struct prefetch *self) {
  self->announced = true;
  outbox_started(self->options.outbox, self->taken_id);
}

void prefetch_release(struct prefetch *self) {
  if (self->taken != NULL)
    claimed_step_free(self->taken);
  free(self->taken_id);
  self->taken = NULL;
  self->taken_id = NULL;
  self->announced = false;
}

bool prefetch_forgotten(struct prefetch *self) {
  struct reconcile reconcile = known(self);
  bool again =
      self->taken_id != NULL && recent_steps_times(&self->recent_steps, self->taken_id) > 1;
  log_line(self->options.log, LOG_WARN, NULL,
           "redis has lost what it had acknowledged: it is empty, or back at an earlier state");
  forget_cancels(self);
  self->empty_answers = 0;
  self->unread = true;
  reconcile_forgotten(&reconcile, settle, self);
  if (self->state == PREFETCH_BOOTING && outbox_had_owner(self->options.outbox))
    watch_for_late(self);
  self->state = is_stopping(self) ? PREFETCH_STOPPING : PREFETCH_RETURNING;
  return again;
}

void prefetch_stop(struct prefetch *self) {
  self->state = self->unread ? PREFETCH_STOPPING : PREFETCH_STOPPED;
  consumer_stop(self->consumer);
  advance(self);
}

bool prefetch_is_stopped(const struct prefetch *self) {
  return self->state == PREFETCH_STOPPED;
}

void prefetch_dump(const struct prefetch *self) {
  static const char *const states[] = {
      [PREFETCH_NEW] = "new",         [PREFETCH_BOOTING] = "reads inflight at boot",
      [PREFETCH_READY] = "ready",     [PREFETCH_CERTAIN] = "ready",
      [PREFETCH_PEEKING] = "peeks",   [PREFETCH_FETCHING] = "reads a cancelled step",
      [PREFETCH_LOADING] = "loads",   [PREFETCH_SCANNING] = "scans inflight",
      [PREFETCH_STOPPED] = "stopped", [PREFETCH_RETURNING] = "puts steps back",
      [PREFETCH_STOPPING] = "stops",  [PREFETCH_SETTLING] = "reads inflight at the end",
  };
  log_line(self->options.log, LOG_WARN, NULL,
           "state: prefetch: %s, %zu steps wait in memory, %zu in inflight alone",
           states[self->state], self->queue.count, self->queue.record_count);
}
