#include "agent/supply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/intake.h"
#include "agent/redis/recovery.h"
#include "base/clock.h"
#include "base/memory.h"

/* How long a question that nobody waits for any more may still take a step: Redis holds it for
   INTAKE_BLOCK_SECONDS, and an agent that was superseded may ask once more before it learns of it.
 */
#define STRAYS_MS (INTAKE_BLOCK_SECONDS * 1000 + 5000)

struct supply {
  struct job job;
  const struct supply_handler *handler;
  void *owner;
  struct intake *intake;
  struct recovery recovery;
  struct queue queue;
  struct queued *current; /* given and not settled */
  char *interrupted;      /* a step that an earlier agent started, to be told; NULL for none */
  int64_t interrupted_events;
  int64_t strays_until_ms; /* monotonic: till then others may take steps; 0: nobody else does */
  int64_t looked_ms;       /* monotonic: when the recovery that is going on began */
  bool recovered;          /* what was there at boot is known */
  bool doubtful;           /* there may be taken steps that are not known here */
  bool peeking;            /* only for the oldest */
  bool sure;               /* right now: the oldest that waits is the oldest that is taken */
  bool returning;          /* steps are put back into the list */
  bool stopped;
};

static void look(struct supply *self, bool peek) {
  queue_forget_seen(&self->queue);
  if (self->current != NULL)
    self->current->seen = false;
  self->peeking = peek;
  if (!peek)
    self->doubtful = false;
  self->looked_ms = clock_monotonic_ms();
  recovery_look(&self->recovery);
}

static bool is_returning(const struct supply *self, const struct queued *queued) {
  return queued != NULL && outbox_returns(self->job.outbox, &queued->taken);
}

/* A copy of a step that is put back must not be taken before: it would be removed in its place. */
static bool any_is_returning(const struct supply *self) {
  bool any = is_returning(self, self->current);
  for (size_t i = 0; !any && i < self->queue.count; i++)
    any = is_returning(self, self->queue.items[i]);
  return any;
}

void supply_more(struct supply *self) {
  self->returning = self->returning && any_is_returning(self);
  if (self->returning || self->stopped || self->recovery.running || !self->recovered ||
      queue_is_full(&self->queue) || outbox_is_full(self->job.outbox, 0))
    return;
  if (!self->doubtful)
    intake_take(self->intake);
  else if (self->queue.count <= QUEUE_MOST / 2) /* it is long: not with each step */
    look(self, false);
}

const struct queued *supply_oldest(const struct supply *self) {
  return self->queue.count > 0 ? self->queue.items[0] : NULL;
}

/* As long as others may take steps, one that is older than what is known here may lie there. */
struct queued *supply_next(struct supply *self) {
  if (!self->recovered || self->stopped || self->recovery.running || self->queue.count == 0)
    return NULL;
  if (self->strays_until_ms > 0 && !self->sure) {
    look(self, clock_monotonic_ms() < self->strays_until_ms);
    return NULL;
  }
  self->sure = false;
  self->current = queue_pop(&self->queue);
  return self->current;
}

void supply_settled(struct supply *self) {
  queued_free(self->current);
  self->current = NULL;
}

struct queued *supply_take_run(struct supply *self, const char *step_id) {
  return queue_take_run(&self->queue, step_id);
}

void supply_drop(struct supply *self, bool (*drop)(void *owner, const struct queued *queued),
                 void *owner) {
  queue_drop(&self->queue, drop, owner);
}

void supply_wait_for_returns(struct supply *self) {
  self->returning = true;
}

void supply_each(const struct supply *self, void (*known)(void *owner, struct queued *queued),
                 void *owner) {
  for (size_t i = self->queue.count; i-- > 0;)
    known(owner, self->queue.items[i]);
  if (self->current != NULL)
    known(owner, self->current);
}

static void watch_for_strays(struct supply *self) {
  self->strays_until_ms = clock_monotonic_ms() + STRAYS_MS;
}

/* Takes the step over; true when it waits now. */
static bool arrive(struct supply *self, struct queued *queued, size_t place) {
  if (self->handler->arrived(self->owner, queued))
    return false;
  struct queued *newest = queue_insert(&self->queue, queued, place);
  if (newest != NULL) {
    queued_free(newest); /* it is found again */
    self->doubtful = true;
  }
  return true;
}

static struct queued *parse(struct supply *self, const struct taken *taken) {
  struct queued *queued = queued_new(taken);
  /* A large payload takes a while; what is timed from here on starts now. */
  (void)event_base_update_cache_time(self->job.base);
  return queued;
}

static void on_step(void *owner, const struct taken *taken) {
  struct supply *self = owner;
  (void)arrive(self, parse(self, taken), self->queue.count);
  self->handler->changed(self->owner);
}

/* A question that was given up may have been answered nevertheless, to nobody. */
static void on_nothing(void *owner) {
  struct supply *self = owner;
  self->doubtful |= self->current == NULL && self->queue.count == 0;
  self->handler->drained(self->owner);
  supply_more(self);
}

static void on_doubtful(void *owner) {
  struct supply *self = owner;
  self->doubtful = true;
  watch_for_strays(self);
  supply_more(self);
}

static void on_intake_failed(void *owner, const struct error *error) {
  struct supply *self = owner;
  self->handler->failed(self->owner, error);
}

static void on_interrupted(void *owner, const char *step_id, int64_t events) {
  struct supply *self = owner;
  self->interrupted = memory_copy(step_id, strlen(step_id));
  self->interrupted_events = events;
}

static void tell_interrupted(struct supply *self, const struct taken *taken) {
  self->handler->interrupted(self->owner, self->interrupted, self->interrupted_events, taken);
  free(self->interrupted);
  self->interrupted = NULL;
}

static bool is_current(struct supply *self, const struct taken *taken) {
  if (self->current == NULL || self->current->seen || !queued_is(self->current, taken))
    return false;
  return self->current->seen = true;
}

/* A step that is not known here; returns whether there is room for more. */
static bool find(struct supply *self, const struct taken *taken) {
  if (queue_behind_seen(&self->queue) == QUEUE_MOST) {
    self->doubtful = true;
    return false;
  }
  struct queued *queued = parse(self, taken);
  queued->seen = true;
  if (self->interrupted != NULL && strcmp(queued->step.step_id, self->interrupted) == 0) {
    tell_interrupted(self, taken);
    queued_free(queued);
    return true;
  }
  log_line(self->job.log, LOG_DEBUG, queued->step.step_id,
           "found among those that are taken and not answered");
  if (!arrive(self, queued, queue_behind_seen(&self->queue)))
    return true;
  if (self->peeking)
    return false;
  self->doubtful |= queue_is_full(&self->queue); /* there may be more */
  return !queue_is_full(&self->queue);
}

static bool on_recovered_step(void *owner, const struct taken *taken) {
  struct supply *self = owner;
  if (is_current(self, taken))
    return true;
  return queue_see(&self->queue, taken) ? !self->peeking : find(self, taken);
}

bool supply_is_missing(const struct supply *self, const struct queued *queued) {
  return !queued->seen && !queued->gone && !outbox_returns(self->job.outbox, &queued->taken);
}

static bool any_is_missing(const struct supply *self) {
  for (size_t i = 0; i < self->queue.count; i++)
    if (supply_is_missing(self, self->queue.items[i]))
      return true;
  return self->current != NULL && supply_is_missing(self, self->current);
}

static void on_recovery_done(void *owner) {
  struct supply *self = owner;
  if (self->interrupted != NULL)
    tell_interrupted(self, NULL);
  if (!self->recovered && outbox_had_owner(self->job.outbox))
    watch_for_strays(self);
  self->recovered = true;
  if (!self->peeking && self->looked_ms > self->strays_until_ms)
    self->strays_until_ms = 0;
  if (!self->peeking && !self->doubtful && any_is_missing(self))
    self->handler->missing(self->owner);
  self->sure = true;
  self->handler->changed(self->owner);
  self->sure = false;
}

struct supply *supply_new(const struct job *job, const struct supply_handler *handler,
                          void *owner) {
  static const struct intake_handler intake_handler = {
      .step = on_step, .nothing = on_nothing, .doubtful = on_doubtful, .failed = on_intake_failed};
  static const struct recovery_handler recovery_handler = {
      .interrupted = on_interrupted, .step = on_recovered_step, .done = on_recovery_done};
  struct supply *self = memory_allocate(sizeof *self);
  *self = (struct supply){.job = *job, .handler = handler, .owner = owner};
  char name[128];
  (void)snprintf(name, sizeof name, "sandbox:%.100s:in", job->options->job_id);
  self->intake =
      intake_new(job->base, job->log, &job->options->redis, job->keys, name, &intake_handler, self);
  recovery_init(&self->recovery, job->outbox, job->keys, &recovery_handler, self);
  return self;
}

void supply_free(struct supply *self) {
  if (self->current != NULL)
    queued_free(self->current);
  queue_release(&self->queue);
  recovery_release(&self->recovery);
  intake_free(self->intake);
  free(self->interrupted);
  free(self);
}

void supply_prepare(struct supply *self) {
  intake_prepare(self->intake);
}

void supply_begin(struct supply *self) {
  recovery_begin(&self->recovery);
}

void supply_stop(struct supply *self) {
  self->stopped = true;
  intake_stop(self->intake);
}
