#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "agent/frontends/redis/connection/reply_parser.h"
#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "agent/frontends/redis/keys.h"
#include "base/error.h"
#include "base/log.h"

/*
 * The connection that takes steps. It moves the oldest step of `in` to `inflight` (BLMOVE), or
 * reads a page of `in` (LRANGE), one request at a time. Intake owns it. It is a separate
 * connection, because BLMOVE blocks it.
 *
 * Each consumer_take is answered by step(), nothing() or reconnected(), and each consumer_search by
 * page(), denied() or reconnected(), unless failed() is called.
 */
/* How long BLMOVE waits for a step. A lost connection is noticed within this time. */
#define CONSUMER_BLOCK_SECONDS 10

struct consumer;

struct consumer_handler {
  /* A step was moved. The payload is valid during the call, and truncated if it is longer than
     payload_limit(). */
  void (*step)(void *owner, const struct payload *payload);
  /* No step arrived within CONSUMER_BLOCK_SECONDS. */
  void (*nothing)(void *owner);
  /* The length of `in`, and the page as an array of strings, the newest step first. NULL: the page
     is too large. */
  void (*page)(void *owner, size_t length, const struct reply *steps);
  /* Redis does not permit LRANGE. */
  void (*denied)(void *owner);
  /* The connection was lost and is ready again. BLMOVE may have moved a step that did not arrive,
     or Redis may have lost a step that did. */
  void (*reconnected)(void *owner);
  /* A permanent error: the connection has stopped. */
  void (*failed)(void *owner, const struct error *error);
};

/* All arguments must outlive the consumer. */
struct consumer *consumer_new(struct event_base *base, const struct log *log,
                              const struct redis_url *url, const struct keys *keys,
                              const struct consumer_handler *handler, void *owner);
void consumer_free(struct consumer *self);

/* Connects ahead of the first request. */
void consumer_prepare(struct consumer *self);

/* Returns how many times the connection was ready again after a loss. */
uint64_t consumer_reconnections(const struct consumer *self);

/* Connects if necessary, and waits for one step. */
void consumer_take(struct consumer *self);

/* Reads the `count` steps of `in` after the `skip` oldest ones. */
void consumer_search(struct consumer *self, size_t skip, size_t count);

/* Closes the connection. */
void consumer_stop(struct consumer *self);
