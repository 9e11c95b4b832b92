#ifndef AGENT_DOORS_REDIS_IN_CONSUMER_H
#define AGENT_DOORS_REDIS_IN_CONSUMER_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/net/url.h"
#include "agent/doors/redis/out/records.h"
#include "base/error.h"
#include "base/log.h"

/*
 * The one way in: moves Steps from the tail of the list `in` to the head of `inflight`, one for
 * each consumer_take, over a connection of its own, since waiting for a step blocks it.
 *
 *   consumer_prepare   connects ahead of time, if it can
 *   consumer_take
 *     step()       it was moved, and is here
 *     nothing()    none came within CONSUMER_BLOCK_SECONDS
 *     doubtful()   the connection was lost, and is there again: one may have been moved without
 *                  its having arrived, or Redis may no longer know of one that has
 *   consumer_take …
 */
#define CONSUMER_BLOCK_SECONDS 10

struct consumer;

struct consumer_handler {
  /* Valid during the call. One longer than STEP_PAYLOAD_MAX was thrown away but for its beginning:
     then it is not whole. */
  void (*step)(void *owner, const struct claimed *claimed);
  void (*nothing)(void *owner);
  void (*needs_resync)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive the intake. `name` is for CLIENT LIST. */
struct consumer *consumer_new(struct event_base *base, const struct log *log,
                              const struct redis_url *url, const struct keys *keys,
                              const char *name, const struct consumer_handler *handler,
                              void *owner);
void consumer_free(struct consumer *self);

/* What goes wrong with it is not told: the first consumer_take begins anew. */
void consumer_prepare(struct consumer *self);

/* Connects if need be, and waits for one step. Again is the same. */
void consumer_take(struct consumer *self);

/* Takes no more. */
void consumer_stop(struct consumer *self);

#endif
