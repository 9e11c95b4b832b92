#ifndef AGENT_FRONTENDS_REDIS_INTAKE_CONSUMER_H
#define AGENT_FRONTENDS_REDIS_INTAKE_CONSUMER_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "agent/frontends/redis/keys.h"
#include "base/error.h"
#include "base/log.h"

/*
 * Takes steps: moves them from the tail of the list `in` to the head of `inflight`, one for each
 * consumer_take, over a connection of its own, since the command that waits for a step blocks it.
 *
 * Each consumer_take is answered by one of the first three callbacks, unless the last one comes.
 */
/* How long Redis waits for a step: it bounds the time in which a lost connection is noticed. */
#define CONSUMER_BLOCK_SECONDS 10

struct consumer;

struct consumer_handler {
  /* One was moved: `claimed`, valid during the call, truncated when longer than payload_limit(). */
  void (*step)(void *owner, const struct claimed *claimed);
  /* None came within CONSUMER_BLOCK_SECONDS. */
  void (*nothing)(void *owner);
  /* The connection was lost, and is there again: a step may have been moved without having arrived
     here, or Redis may have lost one that has. */
  void (*needs_resync)(void *owner);
  /* For good: the owner takes no more. */
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive the consumer. */
struct consumer *consumer_new(struct event_base *base, const struct log *log,
                              const struct redis_url *url, const struct keys *keys,
                              const struct consumer_handler *handler, void *owner);
void consumer_free(struct consumer *self);

/* Connects without asking for a step. A failure is not reported: consumer_take connects anew. */
void consumer_prepare(struct consumer *self);

/* How often its connection was made again. */
uint64_t consumer_reconnections(const struct consumer *self);

/* Connects if need be, and waits for one step. Idempotent until one of the callbacks. */
void consumer_take(struct consumer *self);

/* None of the callbacks has come since consumer_take: a step may be on its way. */
bool consumer_is_waiting(const struct consumer *self);

/* Closes the connection. */
void consumer_stop(struct consumer *self);

#endif
