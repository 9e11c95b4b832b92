#include "agent/engine/idle.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/doors/redis/run_guard.h"
#include "base/loop.h"
#include "base/memory.h"

struct idle {
  struct event_base *base;
  const struct log *log;
  const struct options *options;
  const struct idle_handler *handler;
  void *owner;
  struct event *limit;
  struct run_guard *query; /* NULL: none is open */
};

int64_t idle_limit_ms(const struct options *options) {
  return (int64_t)options->idle_cycles * IDLE_CYCLE_SECONDS * 1000;
}

static void on_answer(void *owner, enum run_guard_answer output, const char *why) {
  struct idle *self = owner;
  const char *run = self->options->run_id;
  self->query = NULL;
  if (output == RUN_GUARD_ALIVE) {
    log_line(self->log, LOG_INFO, NULL, "run %.200s is alive: waiting on", run);
    idle_begin(self);
    return;
  }
  if (output == RUN_GUARD_OVER)
    log_line(self->log, LOG_INFO, NULL, "run %.200s is not in %s", run, RUN_GUARD_KEY);
  else
    log_line(self->log, LOG_WARN, NULL, "whether run %.200s is in %s is not known: %s", run,
             RUN_GUARD_KEY, why);
  self->handler->over(self->owner);
}

static void on_limit(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct idle *self = context;
  log_line(self->log, LOG_INFO, NULL, "no step for %lld s",
           (long long)(idle_limit_ms(self->options) / 1000));
  if (self->options->run_id == NULL || self->handler->is_stuck(self->owner)) {
    self->handler->over(self->owner);
    return;
  }
  char name[128];
  (void)snprintf(name, sizeof name, "sandbox:%.100s:guard", self->options->job_id);
  self->query = run_guard_ask(self->base, self->log, &self->options->redis, name,
                              self->options->run_id, on_answer, self);
}

struct idle *idle_new(struct event_base *base, const struct log *log, const struct options *options,
                      const struct idle_handler *handler, void *owner) {
  struct idle *self = memory_allocate(sizeof *self);
  *self = (struct idle){
      .base = base, .log = log, .options = options, .handler = handler, .owner = owner};
  self->limit = loop_timer_new(base, on_limit, self);
  return self;
}

void idle_free(struct idle *self) {
  idle_end(self);
  event_free(self->limit);
  free(self);
}

void idle_begin(struct idle *self) {
  if (self->query == NULL && !evtimer_pending(self->limit, NULL))
    loop_timer_start(self->limit, idle_limit_ms(self->options));
}

void idle_end(struct idle *self) {
  (void)evtimer_del(self->limit);
  if (self->query != NULL)
    run_guard_cancel(self->query);
  self->query = NULL;
}
