#ifndef AGENT_FRONTENDS_REDIS_INTAKE_CONSUMER_H
#define AGENT_FRONTENDS_REDIS_INTAKE_CONSUMER_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "agent/frontends/redis/keys.h"
#include "base/error.h"
#include "base/log.h"

/*
 * The connection that takes steps: it moves one from the tail of the list `in` to the head of
 * `inflight`, or reads a page of `in`, one at a time. It has a connection of its own, since the
 * command that waits for a step blocks it.
 *
 * Each consumer_take is answered by one of step(), nothing() and reconnected(), each
 * consumer_search by page(), denied() or reconnected(); unless failed() comes.
 */
/* How long Redis waits for a step: it bounds the time in which a lost connection is noticed. */
#define CONSUMER_BLOCK_SECONDS 10

struct consumer;

struct consumer_handler {
  /* A step was moved: valid during the call, truncated when longer than payload_limit(). */
  void (*step)(void *owner, const struct payload *payload);
  /* None came within CONSUMER_BLOCK_SECONDS. */
  void (*nothing)(void *owner);
  /* The length of `in`, and the page: an array; NULL: it is too large. */
  void (*page)(void *owner, size_t length, const redisReply *steps);
  /* Redis refuses LRANGE. */
  void (*denied)(void *owner);
  /* The connection was lost, and is there again: a step may have been moved without having arrived
     here, or Redis may have lost one that has. */
  void (*reconnected)(void *owner);
  /* For good: the owner takes no more. */
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive the consumer. */
struct consumer *consumer_new(struct event_base *base, const struct log *log,
                              const struct redis_url *url, const struct keys *keys,
                              const struct consumer_handler *handler, void *owner);
void consumer_free(struct consumer *self);

/* Connects without asking for a step. A failure is not reported: consumer_take connects again. */
void consumer_prepare(struct consumer *self);

/* How often its connection was made again. */
uint64_t consumer_reconnections(const struct consumer *self);

/* Connects if need be, and waits for one step. */
void consumer_take(struct consumer *self);

/* Reads `count` steps of `in`, behind the `skip` oldest ones. */
void consumer_search(struct consumer *self, size_t skip, size_t count);

/* Closes the connection. */
void consumer_stop(struct consumer *self);

#endif
