#include "agent/doors/redis/in/prefetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/in/consumer.h"
#include "agent/doors/redis/in/recovery.h"
#include "base/clock.h"
#include "base/memory.h"

/* How long a question that nobody waits for any more may still take a step: Redis holds it for
   CONSUMER_BLOCK_SECONDS, and an agent that was superseded may ask once more before it learns of
   it.
 */
#define LATE_MS (CONSUMER_BLOCK_SECONDS * 1000 + 5000)

struct prefetch {
  struct job job;
  const struct prefetch_handler *handler;
  void *owner;
  struct consumer *consumer;
  struct recovery recovery;
  struct step_queue queue;
  struct claimed_step *current; /* given and not settled */
  char *interrupted; /* a step that an earlier agent started, to be told; NULL for none */
  int64_t interrupted_events;
  int64_t late_until_ms; /* monotonic: till then others may take steps; 0: nobody else does */
  int64_t looked_ms;     /* monotonic: when the recovery that is going on began */
  bool recovered;        /* what was there at boot is known */
  bool needs_resync;     /* there may be taken steps that are not known here */
  bool peeking;          /* only for the oldest */
  bool sure;             /* right now: the oldest that waits is the oldest that is taken */
  bool returning;        /* steps are put back into the list */
  bool stopped;
};

static void look(struct prefetch *self, bool peek) {
  step_queue_forget_seen(&self->queue);
  if (self->current != NULL)
    self->current->seen = false;
  self->peeking = peek;
  if (!peek)
    self->needs_resync = false;
  self->looked_ms = clock_monotonic_ms();
  recovery_scan(&self->recovery);
}

static bool is_returning(const struct prefetch *self, const struct claimed_step *queued) {
  return queued != NULL && outbox_returns(self->job.outbox, &queued->claimed);
}

/* A copy of a step that is put back must not be taken before: it would be removed in its place. */
static bool any_is_returning(const struct prefetch *self) {
  bool any = is_returning(self, self->current);
  for (size_t i = 0; !any && i < self->queue.count; i++)
    any = is_returning(self, self->queue.items[i]);
  return any;
}

void prefetch_more(struct prefetch *self) {
  self->returning = self->returning && any_is_returning(self);
  if (self->returning || self->stopped || self->recovery.running || !self->recovered ||
      step_queue_is_full(&self->queue) || outbox_is_full(self->job.outbox, 0))
    return;
  if (!self->needs_resync)
    consumer_take(self->consumer);
  else if (self->queue.count <= STEP_QUEUE_MAX / 2) /* it is long: not with each step */
    look(self, false);
}

const struct claimed_step *prefetch_oldest(const struct prefetch *self) {
  return self->queue.count > 0 ? self->queue.items[0] : NULL;
}

/* As long as others may take steps, one that is older than what is known here may lie there. */
struct claimed_step *prefetch_next(struct prefetch *self) {
  if (!self->recovered || self->stopped || self->recovery.running || self->queue.count == 0)
    return NULL;
  if (self->late_until_ms > 0 && !self->sure) {
    look(self, clock_monotonic_ms() < self->late_until_ms);
    return NULL;
  }
  self->sure = false;
  self->current = step_queue_pop(&self->queue);
  return self->current;
}

void prefetch_settled(struct prefetch *self) {
  claimed_step_free(self->current);
  self->current = NULL;
}

struct claimed_step *prefetch_take_run(struct prefetch *self, const char *step_id) {
  return step_queue_take_run(&self->queue, step_id);
}

void prefetch_drop(struct prefetch *self,
                   bool (*drop)(void *owner, const struct claimed_step *queued), void *owner) {
  step_queue_drop(&self->queue, drop, owner);
}

void prefetch_wait_for_returns(struct prefetch *self) {
  self->returning = true;
}

void prefetch_each(const struct prefetch *self,
                   void (*known)(void *owner, struct claimed_step *queued), void *owner) {
  for (size_t i = self->queue.count; i-- > 0;)
    known(owner, self->queue.items[i]);
  if (self->current != NULL)
    known(owner, self->current);
}

static void watch_for_strays(struct prefetch *self) {
  self->late_until_ms = clock_monotonic_ms() + LATE_MS;
}

/* Takes the step over; true when it waits now. */
static bool arrive(struct prefetch *self, struct claimed_step *queued, size_t place) {
  if (self->handler->arrived(self->owner, queued))
    return false;
  struct claimed_step *newest = step_queue_insert(&self->queue, queued, place);
  if (newest != NULL) {
    claimed_step_free(newest); /* it is found again */
    self->needs_resync = true;
  }
  return true;
}

static struct claimed_step *parse(struct prefetch *self, const struct claimed *claimed) {
  struct claimed_step *queued = claimed_step_new(claimed);
  /* A large payload takes a while; what is timed from here on starts now. */
  (void)event_base_update_cache_time(self->job.base);
  return queued;
}

static void on_step(void *owner, const struct claimed *claimed) {
  struct prefetch *self = owner;
  (void)arrive(self, parse(self, claimed), self->queue.count);
  self->handler->changed(self->owner);
}

/* A question that was given up may have been answered nevertheless, to nobody. */
static void on_nothing(void *owner) {
  struct prefetch *self = owner;
  self->needs_resync |= self->current == NULL && self->queue.count == 0;
  self->handler->drained(self->owner);
  prefetch_more(self);
}

static void on_doubtful(void *owner) {
  struct prefetch *self = owner;
  self->needs_resync = true;
  watch_for_strays(self);
  prefetch_more(self);
}

static void on_intake_failed(void *owner, const struct error *error) {
  struct prefetch *self = owner;
  self->handler->failed(self->owner, error);
}

static void on_interrupted(void *owner, const char *step_id, int64_t events) {
  struct prefetch *self = owner;
  self->interrupted = memory_copy(step_id, strlen(step_id));
  self->interrupted_events = events;
}

static void tell_interrupted(struct prefetch *self, const struct claimed *claimed) {
  self->handler->interrupted(self->owner, self->interrupted, self->interrupted_events, claimed);
  free(self->interrupted);
  self->interrupted = NULL;
}

static bool is_current(struct prefetch *self, const struct claimed *claimed) {
  if (self->current == NULL || self->current->seen || !claimed_step_is(self->current, claimed))
    return false;
  return self->current->seen = true;
}

/* A step that is not known here; returns whether there is room for more. */
static bool find(struct prefetch *self, const struct claimed *claimed) {
  if (step_queue_behind_seen(&self->queue) == STEP_QUEUE_MAX) {
    self->needs_resync = true;
    return false;
  }
  struct claimed_step *queued = parse(self, claimed);
  queued->seen = true;
  if (self->interrupted != NULL && strcmp(queued->step.step_id, self->interrupted) == 0) {
    tell_interrupted(self, claimed);
    claimed_step_free(queued);
    return true;
  }
  log_line(self->job.log, LOG_DEBUG, queued->step.step_id,
           "found among those that are taken and not answered");
  if (!arrive(self, queued, step_queue_behind_seen(&self->queue)))
    return true;
  if (self->peeking)
    return false;
  self->needs_resync |= step_queue_is_full(&self->queue); /* there may be more */
  return !step_queue_is_full(&self->queue);
}

static bool on_recovered_step(void *owner, const struct claimed *claimed) {
  struct prefetch *self = owner;
  if (is_current(self, claimed))
    return true;
  return step_queue_see(&self->queue, claimed) ? !self->peeking : find(self, claimed);
}

bool prefetch_is_missing(const struct prefetch *self, const struct claimed_step *queued) {
  return !queued->seen && !queued->gone && !outbox_returns(self->job.outbox, &queued->claimed);
}

static bool any_is_missing(const struct prefetch *self) {
  for (size_t i = 0; i < self->queue.count; i++)
    if (prefetch_is_missing(self, self->queue.items[i]))
      return true;
  return self->current != NULL && prefetch_is_missing(self, self->current);
}

static void on_recovery_done(void *owner) {
  struct prefetch *self = owner;
  if (self->interrupted != NULL)
    tell_interrupted(self, NULL);
  if (!self->recovered && outbox_had_owner(self->job.outbox))
    watch_for_strays(self);
  self->recovered = true;
  if (!self->peeking && self->looked_ms > self->late_until_ms)
    self->late_until_ms = 0;
  if (!self->peeking && !self->needs_resync && any_is_missing(self))
    self->handler->missing(self->owner);
  self->sure = true;
  self->handler->changed(self->owner);
  self->sure = false;
}

struct prefetch *prefetch_new(const struct job *job, const struct prefetch_handler *handler,
                              void *owner) {
  static const struct consumer_handler consumer_handler = {.step = on_step,
                                                           .nothing = on_nothing,
                                                           .needs_resync = on_doubtful,
                                                           .failed = on_intake_failed};
  static const struct recovery_handler recovery_handler = {
      .interrupted = on_interrupted, .step = on_recovered_step, .done = on_recovery_done};
  struct prefetch *self = memory_allocate(sizeof *self);
  *self = (struct prefetch){.job = *job, .handler = handler, .owner = owner};
  char name[128];
  (void)snprintf(name, sizeof name, "sandbox:%.100s:in", job->options->job_id);
  self->consumer = consumer_new(job->base, job->log, &job->options->redis, job->keys, name,
                                &consumer_handler, self);
  recovery_init(&self->recovery, job->outbox, job->keys, &recovery_handler, self);
  return self;
}

void prefetch_free(struct prefetch *self) {
  if (self->current != NULL)
    claimed_step_free(self->current);
  step_queue_release(&self->queue);
  recovery_release(&self->recovery);
  consumer_free(self->consumer);
  free(self->interrupted);
  free(self);
}

void prefetch_prepare(struct prefetch *self) {
  consumer_prepare(self->consumer);
}

void prefetch_begin(struct prefetch *self) {
  recovery_begin(&self->recovery);
}

void prefetch_stop(struct prefetch *self) {
  self->stopped = true;
  consumer_stop(self->consumer);
}
