#ifndef AGENT_REDIS_INTAKE_H
#define AGENT_REDIS_INTAKE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/log.h"
#include "agent/redis/url.h"
#include "wire/error.h"

/*
 * The one way in: takes Steps from the tail of the list, one for each intake_take, over a
 * connection of its own, since waiting for a step blocks it. Asks again by itself after a lost
 * connection.
 */
struct intake;

struct intake_handler {
  /* A payload, valid during the call. One longer than STEP_PAYLOAD_MAX was thrown away but for its
     beginning: then `whole` is false. */
  void (*step)(void *owner, const char *payload, size_t length, bool whole);
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive the intake. `key` is the list, `name` is for CLIENT LIST. */
struct intake *intake_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const char *key, const char *name,
                          const struct intake_handler *handler, void *owner);
void intake_free(struct intake *self);

/* Connects if need be, and waits for one step. */
void intake_take(struct intake *self);

/* Takes no more. */
void intake_stop(struct intake *self);

#endif
