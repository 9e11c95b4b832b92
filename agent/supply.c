#include "agent/supply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/intake.h"
#include "agent/redis/recovery.h"
#include "wire/memory.h"

struct supply {
  struct supply_context context;
  const struct supply_handler *handler;
  void *owner;
  struct intake *intake;
  struct recovery recovery;
  struct queue queue;
  struct queued *current; /* given and not settled */
  char *interrupted;      /* a step that an earlier agent started, to be told; NULL for none */
  int64_t interrupted_events;
  bool recovered; /* what was there at boot is known */
  bool doubtful;  /* there may be taken steps that are not known here */
  bool stopped;
};

void supply_more(struct supply *self) {
  if (self->stopped || self->recovery.running || !self->recovered || queue_is_full(&self->queue))
    return;
  if (!self->doubtful) {
    intake_take(self->intake);
    return;
  }
  self->doubtful = false;
  queue_forget_seen(&self->queue);
  if (self->current != NULL)
    self->current->seen = false;
  recovery_look(&self->recovery);
}

struct queued *supply_next(struct supply *self) {
  if (!self->recovered || self->stopped)
    return NULL;
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

void supply_each(const struct supply *self, void (*known)(void *owner, const struct queued *queued),
                 void *owner) {
  for (size_t i = self->queue.count; i-- > 0;)
    known(owner, self->queue.items[i]);
  if (self->current != NULL)
    known(owner, self->current);
}

static void arrive(struct supply *self, const struct taken *taken, bool seen) {
  struct queued *queued = queued_new(taken);
  queued->seen = seen;
  /* A large payload takes a while; what is timed from here on starts now. */
  (void)event_base_update_cache_time(self->context.base);
  if (!self->handler->arrived(self->owner, queued))
    queue_push(&self->queue, queued);
}

static void on_step(void *owner, const struct taken *taken) {
  struct supply *self = owner;
  arrive(self, taken, false);
  self->handler->changed(self->owner);
}

/* A question that was given up may have been answered nevertheless, to nobody. */
static void on_nothing(void *owner) {
  struct supply *self = owner;
  self->doubtful = self->current == NULL && self->queue.count == 0;
  supply_more(self);
}

static void on_doubtful(void *owner) {
  struct supply *self = owner;
  self->doubtful = true;
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

/* A step that was started is the oldest of those that are taken. */
static bool is_interrupted(struct supply *self, const struct taken *oldest) {
  if (self->interrupted == NULL)
    return false;
  struct queued *queued = queued_new(oldest);
  bool same = strcmp(queued->step.step_id, self->interrupted) == 0;
  queued_free(queued);
  tell_interrupted(self, same ? oldest : NULL);
  return same;
}

static bool is_current(struct supply *self, const struct taken *taken) {
  if (self->current == NULL || self->current->seen || !queued_is(self->current, taken))
    return false;
  return self->current->seen = true;
}

static bool on_recovered_step(void *owner, const struct taken *taken) {
  struct supply *self = owner;
  if (is_interrupted(self, taken) || is_current(self, taken) || queue_see(&self->queue, taken))
    return true;
  log_line(self->context.log, LOG_DEBUG, NULL, "found a step that was taken and not answered");
  arrive(self, taken, true);
  self->doubtful = queue_is_full(&self->queue); /* there may be more */
  return !self->doubtful;
}

bool supply_is_missing(const struct supply *self, const struct queued *queued) {
  return !queued->seen && !outbox_returns(self->context.outbox, &queued->taken);
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
  self->recovered = true;
  if (!self->doubtful && any_is_missing(self))
    self->handler->missing(self->owner);
  self->handler->changed(self->owner);
}

struct supply *supply_new(const struct supply_context *context,
                          const struct supply_handler *handler, void *owner) {
  static const struct intake_handler intake_handler = {
      .step = on_step, .nothing = on_nothing, .doubtful = on_doubtful, .failed = on_intake_failed};
  static const struct recovery_handler recovery_handler = {
      .interrupted = on_interrupted, .step = on_recovered_step, .done = on_recovery_done};
  struct supply *self = memory_allocate(sizeof *self);
  *self = (struct supply){.context = *context, .handler = handler, .owner = owner};
  char name[128];
  (void)snprintf(name, sizeof name, "sandbox:%.100s:in", context->job_id);
  self->intake = intake_new(context->base, context->log, context->url, context->keys, name,
                            &intake_handler, self);
  recovery_init(&self->recovery, context->outbox, context->keys, &recovery_handler, self);
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

void supply_begin(struct supply *self) {
  recovery_begin(&self->recovery);
}

void supply_stop(struct supply *self) {
  self->stopped = true;
  intake_stop(self->intake);
}
