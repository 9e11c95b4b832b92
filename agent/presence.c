#include "agent/presence.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/doors/redis/heartbeat.h"
#include "base/loop.h"
#include "base/memory.h"

/* How long Redis may take to remove a key that ends by itself. */
#define FAREWELL_MS 2000

enum state { THERE, ENDING, SAYING_FAREWELL, OVER };

struct presence {
  const struct presence_handler *handler;
  void *owner;
  struct outbox *outbox;
  struct heartbeat *heartbeat;
  struct event *over; /* when nobody waits any longer */
  enum state state;
  bool detoured; /* a beat has gone by the outbox */
  bool refused;  /* Redis does not take the heartbeat */
};

static bool is_running(void *owner) {
  const struct presence *self = owner;
  return self->handler->is_running(self->owner);
}

static bool on_committed(void *owner, const char *value, size_t length) {
  struct presence *self = owner;
  return outbox_is_ours(self->outbox, value, length);
}

/* Where Redis is away altogether the beat would only be late. */
static bool on_detour(void *owner, const char *value, const char *seconds) {
  struct presence *self = owner;
  if (outbox_is_gone(self->outbox) || !outbox_beat(self->outbox, value, seconds))
    return false;
  outbox_flush(self->outbox);
  bool arrived = self->detoured;
  self->detoured = true;
  return arrived;
}

/* Perhaps the outbox's connection is dead, too. */
static void on_silent(void *owner) {
  struct presence *self = owner;
  outbox_probe(self->outbox);
}

static void on_ended(void *owner) {
  struct presence *self = owner;
  self->state = SAYING_FAREWELL;
  outbox_farewell(self->outbox);
  outbox_flush(self->outbox);
}

static void on_failed(void *owner, const struct error *error) {
  struct presence *self = owner;
  self->refused = true;
  self->handler->failed(self->owner, error);
}

static void on_over(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct presence *self = context;
  self->state = OVER;
  self->handler->over(self->owner);
}

struct presence *presence_new(const struct job *job, const struct presence_handler *handler,
                              void *owner) {
  static const struct heartbeat_handler heartbeat_handler = {.step_in_flight = is_running,
                                                             .committed = on_committed,
                                                             .detour = on_detour,
                                                             .silent = on_silent,
                                                             .ended = on_ended,
                                                             .failed = on_failed};
  struct presence *self = memory_allocate(sizeof *self);
  *self = (struct presence){.handler = handler, .owner = owner, .outbox = job->outbox};
  char name[128];
  (void)snprintf(name, sizeof name, "sandbox:%.100s:heartbeat", job->options->job_id);
  self->heartbeat = heartbeat_new(job->base, job->log, &job->options->redis, job->keys, name,
                                  &heartbeat_handler, self);
  self->over = loop_timer_new(job->base, on_over, self);
  return self;
}

void presence_free(struct presence *self) {
  heartbeat_free(self->heartbeat);
  event_free(self->over);
  free(self);
}

char *presence_command(const struct presence *self) {
  return heartbeat_command(self->heartbeat);
}

void presence_start(struct presence *self) {
  heartbeat_start(self->heartbeat);
}

void presence_end(struct presence *self) {
  if (self->state != THERE)
    return;
  self->state = ENDING;
  if (self->refused) {
    loop_timer_start_now(self->over);
    return;
  }
  loop_timer_start(self->over, FAREWELL_MS);
  if (heartbeat_end(self->heartbeat))
    on_ended(self);
}

bool presence_is_ending(const struct presence *self) {
  return self->state != THERE;
}

void presence_delivered(struct presence *self) {
  if (self->state == SAYING_FAREWELL)
    loop_timer_start_now(self->over);
}

void presence_stop(struct presence *self) {
  heartbeat_stop(self->heartbeat);
}
