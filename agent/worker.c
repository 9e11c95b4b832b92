/*
 * A step's way: taken (it lies in `inflight`, and waits in the supply), begun (that it was started
 * is on its way to Redis), running, answered (its result, and its removal from `inflight`, are on
 * their way). A command runs only once Redis knows that it was started, so that no agent after this
 * one runs it again.
 */
#include "agent/worker.h"

#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/in/prefetch.h"
#include "agent/engine/run_log.h"
#include "agent/process/process.h"
#include "base/memory.h"

struct worker {
  struct job job;
  const struct run_context *context;
  const struct worker_handler *handler;
  void *owner;
  struct prefetch *prefetch;
  struct run *run; /* begun or running; NULL for none */
  const struct claimed_step *running;
  bool begun; /* the run waits for Redis to know of it */
  bool waits; /* the run is over but for lines for which there is no room */
  uint64_t runs;
  bool stopping;
};

static void next(struct worker *self);

/* An answer of the agent's own. */
static void answer(struct worker *self, const char *step_id, const char *message, int64_t events,
                   const struct claimed *claimed, bool started) {
  struct step_result result = {.step_id = step_id,
                               .exit_code = -1,
                               .error_message = message,
                               .error_message_length = strlen(message),
                               .event_count = events};
  outbox_result(self->job.outbox, NULL, &result, claimed, started);
  outbox_flush(self->job.outbox);
}

static void remove_unanswered(struct worker *self, const struct claimed *claimed) {
  outbox_removal(self->job.outbox, claimed);
  outbox_flush(self->job.outbox);
}

static const char *running_id(const struct worker *self) {
  return self->run != NULL ? run_step(self->run)->step_id : NULL;
}

static void on_run_event(void *owner, const struct step_event *event) {
  static const char *const names[] = {"started", "stdout", "stderr"};
  struct worker *self = owner;
  outbox_event(self->job.outbox, event);
  if (self->job.log->least <= LOG_DEBUG && self->run != NULL)
    log_line(self->job.log, LOG_DEBUG, running_id(self), "%s: %.*s", names[event->kind],
             (int)event->line_length, event->line);
}

static void on_run_flush(void *owner) {
  struct worker *self = owner;
  outbox_flush(self->job.outbox);
}

/* Without Redis there may never be room. What is over is little: its result is worth it. */
static bool on_run_full(void *owner, size_t more) {
  const struct worker *self = owner;
  return !(self->stopping && self->waits) && outbox_is_full(self->job.outbox, more);
}

/* From here on it is time without a step. */
static void on_run_waits(void *owner) {
  struct worker *self = owner;
  self->waits = true;
  self->handler->idle(self->owner);
  if (self->stopping)
    run_resume(self->run);
}

static bool next_is_run(const struct worker *self) {
  const struct claimed_step *oldest = prefetch_oldest(self->prefetch);
  return oldest != NULL && !oldest->refused && step_is_work(&oldest->step);
}

/* The answer leaves together with the start of the next step, and before it is logged: somebody
   waits for it. */
static void on_run_done(void *owner, const struct run_report *report) {
  struct worker *self = owner;
  struct run *run = self->run;
  outbox_result(self->job.outbox, &report->completed, &report->result, &self->running->claimed,
                true);
  self->run = NULL;
  self->running = NULL;
  self->begun = self->waits = false;
  prefetch_release(self->prefetch);
  bool joined = !self->stopping && next_is_run(self);
  if (joined)
    next(self);
  outbox_flush(self->job.outbox);
  run_log_done(self->job.log, run_step(run), report);
  run_free(run);
  if (self->stopping)
    self->handler->stopped(self->owner);
  else if (!joined)
    next(self);
}

static void begin_run(struct worker *self, struct claimed_step *queued) {
  static const struct run_handler handler = {.event = on_run_event,
                                             .flush = on_run_flush,
                                             .full = on_run_full,
                                             .waits = on_run_waits,
                                             .done = on_run_done};
  prefetch_started(self->prefetch);
  self->begun = true;
  self->running = queued;
  self->run = run_new(self->context, &queued->step, ++self->runs, &handler, self);
  self->handler->idle(self->owner);
}

void worker_delivered(struct worker *self) {
  if (self->begun && outbox_is_empty(self->job.outbox)) {
    self->begun = false;
    self->handler->busy(self->owner);
    log_line(self->job.log, LOG_DEBUG, running_id(self), "started");
    run_start(self->run);
  }
  if (self->run == NULL)
    next(self);
  else
    prefetch_more(self->prefetch);
}

static void begin(struct worker *self, struct claimed_step *queued) {
  if (!queued->refused && step_is_work(&queued->step)) {
    begin_run(self, queued);
  } else if (queued->refused) {
    run_log_refused(self->job.log, queued->step.step_id, &queued->error, queued->claimed.payload,
                    queued->claimed.length);
    answer(self, queued->step.step_id, queued->error.text, 0,
           queued->gone ? NULL : &queued->claimed, false);
    prefetch_release(self->prefetch);
  } else { /* a shutdown: what overtakes does not come this way */
    remove_unanswered(self, &queued->claimed);
    prefetch_release(self->prefetch);
    self->handler->shutdown(self->owner);
  }
}

static void next(struct worker *self) {
  struct claimed_step *queued;
  while (self->run == NULL && !self->stopping && (queued = prefetch_take(self->prefetch)) != NULL)
    begin(self, queued);
  if (self->run == NULL && !self->stopping)
    self->handler->idle(self->owner);
  prefetch_more(self->prefetch);
}

void worker_room(struct worker *self) {
  if (self->run != NULL) {
    run_resume(self->run);
    prefetch_more(self->prefetch);
  } else {
    next(self);
  }
}

static bool on_cancel(void *owner, const char *step_id) {
  struct worker *self = owner;
  if (self->run == NULL || strcmp(running_id(self), step_id) != 0)
    return false;
  log_line(self->job.log, LOG_INFO, step_id, "cancel: ending the running step");
  run_stop(self->run, PROCESS_GRACE_MS, "cancelled: by a cancel step");
  return true;
}

static void on_arrived(void *owner) {
  struct worker *self = owner;
  if (self->run == NULL)
    self->handler->busy(self->owner); /* else the time may be running that it waits for Redis */
}

static void on_changed(void *owner) {
  next(owner);
}

static void on_supply_failed(void *owner, const struct error *error) {
  struct worker *self = owner;
  self->handler->failed(self->owner, error);
}

void worker_begin(struct worker *self) {
  prefetch_begin(self->prefetch);
}

void worker_prepare(struct worker *self) {
  prefetch_prepare(self->prefetch);
}

/* A step that waits to be started may have run before. */
void worker_forgotten(struct worker *self) {
  if (prefetch_forgotten(self->prefetch) && self->begun)
    run_stop(self->run, 0, prefetch_lost_result);
}

struct worker *worker_new(const struct job *job, const struct run_context *context,
                          const struct worker_handler *handler, void *owner) {
  static const struct prefetch_handler prefetch_handler = {.arrived = on_arrived,
                                                           .cancel = on_cancel,
                                                           .changed = on_changed,
                                                           .failed = on_supply_failed};
  struct worker *self = memory_allocate(sizeof *self);
  *self = (struct worker){.job = *job, .context = context, .handler = handler, .owner = owner};
  struct prefetch_options options = {.base = job->base,
                                     .log = job->log,
                                     .url = &job->options->redis,
                                     .keys = job->keys,
                                     .outbox = job->outbox,
                                     .job_id = job->options->job_id};
  self->prefetch = prefetch_new(&options, &prefetch_handler, self);
  return self;
}

void worker_free(struct worker *self) {
  if (self->run != NULL)
    run_free(self->run);
  prefetch_free(self->prefetch);
  free(self);
}

void worker_stop(struct worker *self, int64_t grace_ms, const char *reason) {
  self->stopping = true;
  prefetch_stop(self->prefetch);
  if (self->run == NULL)
    return;
  run_stop(self->run, grace_ms, reason);
  if (self->waits)
    run_resume(self->run);
}

bool worker_is_running(const struct worker *self) {
  return self->run != NULL;
}

bool worker_reaped(struct worker *self, pid_t pid, int status) {
  return self->run != NULL && run_reaped(self->run, pid, status);
}
