#ifndef AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_H
#define AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "agent/frontends/redis/intake/consumer.h"
#include "agent/frontends/redis/intake/intake_core.h"
#include "agent/frontends/redis/keys.h"
#include "base/log.h"

/*
 * Takes steps from `in`, one ahead of the running step, and passes them to the frontend in order.
 * It answers the steps that never run: those that were cancelled while they waited, the one that an
 * earlier agent had started, and those whose result Redis has lost. This module is the I/O around
 * intake_core, which decides and which explains the hard part.
 */
struct intake {
  struct intake_core core; /* the frontend calls intake_core_next_step and others on it */
  struct consumer *consumer;
  /* The other members are private. */
  struct event_base *base;
  struct event *wakeup; /* at intake_core_wakeup_ms */
  struct outbox *outbox;
  const struct keys *keys;
  enum intake_query query;   /* the query under way */
  size_t commands, answered; /* the number of its commands, and of their replies */
  size_t inflight;           /* the length of `inflight`, from INTAKE_QUERY_LENGTHS */
  struct intake_startup startup;
};

/* All arguments must outlive intake. */
struct intake *intake_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const struct keys *keys,
                          struct outbox *outbox, const struct intake_handler *handler, void *owner);
void intake_free(struct intake *self);

/* Decides and does what is due; see intake_core_advance. */
void intake_advance(struct intake *self);

/* See intake_core_lose_data. */
bool intake_lose_data(struct intake *self);

/* Takes and starts no more steps. Waiting steps stay in their lists. The core's state becomes
   INTAKE_STOPPED: at once, or after a loss of data when it is certain that `inflight` has no step
   that a later agent would run again, for which it needs Redis. */
void intake_stop(struct intake *self);

/* Logs its state. */
void intake_dump(const struct intake *self);

#endif
