#ifndef AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_H
#define AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "agent/frontends/redis/intake/intake_core.h"
#include "agent/frontends/redis/keys.h"
#include "base/error.h"
#include "base/log.h"

/*
 * Takes steps from `in`, one ahead of the step that runs, and gives them out in order. Answers by
 * itself what never runs: a step that was cancelled while it waited, one that an earlier agent had
 * started, one whose result Redis has lost, one that Redis hands out a second time. This is the I/O
 * around intake_core, which decides.
 */
struct intake;

struct intake_handler {
  /* Something was recorded: intake_advance has something to do. */
  void (*changed)(void *owner);
  /* See struct intake_actions. */
  void (*arrived)(void *owner);
  void (*cancel)(void *owner, const char *step_id);
  bool (*interrupted)(void *owner);
  void (*answered)(void *owner, const struct step_result *result);
  /* Nothing more can be taken. */
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive it. */
struct intake *intake_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const struct keys *keys,
                          struct outbox *outbox, const struct intake_handler *handler, void *owner);
void intake_free(struct intake *self);

/* The decisions: intake_core_give, _begin, _answer and the others are called on it. */
struct intake_core *intake_core_of(struct intake *self);

/* See consumer_prepare. */
void intake_prepare(struct intake *self);

/* Does what is due. */
void intake_advance(struct intake *self);

/* See intake_core_lose_data. */
bool intake_lose_data(struct intake *self);

/* Takes no more, gives out no more. What waits stays where it is in Redis. */
void intake_stop(struct intake *self);

/* After intake_stop: nothing is left in `inflight` that has run and that an agent after this one
   would run again, because Redis lost data. It takes as long as Redis is away. */
bool intake_is_stopped(const struct intake *self);

/* Logs the JSON of each result that is not delivered. */
void intake_log_undelivered(const struct intake *self, const struct log *log);

/* Logs its state. */
void intake_dump(const struct intake *self);

/* How often its connection was made again. */
uint64_t intake_reconnections(const struct intake *self);

#endif
