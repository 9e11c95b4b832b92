#ifndef AGENT_REDIS_INTAKE_H
#define AGENT_REDIS_INTAKE_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/redis/records.h"
#include "agent/redis/url.h"
#include "base/error.h"
#include "base/log.h"
#include "wire/keys.h"

/*
 * The one way in: moves Steps from the tail of the list `in` to the head of `inflight`, one for
 * each intake_take, over a connection of its own, since waiting for a step blocks it.
 *
 *   intake_prepare   connects ahead of time, if it can
 *   intake_take
 *     step()       it was moved, and is here
 *     nothing()    none came within INTAKE_BLOCK_SECONDS
 *     doubtful()   the connection was lost, and is there again: one may have been moved without
 *                  its having arrived, or Redis may no longer know of one that has
 *   intake_take …
 */
#define INTAKE_BLOCK_SECONDS 10

struct intake;

struct intake_handler {
  /* Valid during the call. One longer than STEP_PAYLOAD_MAX was thrown away but for its beginning:
     then it is not whole. */
  void (*step)(void *owner, const struct taken *taken);
  void (*nothing)(void *owner);
  void (*doubtful)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive the intake. `name` is for CLIENT LIST. */
struct intake *intake_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const struct keys *keys, const char *name,
                          const struct intake_handler *handler, void *owner);
void intake_free(struct intake *self);

/* What goes wrong with it is not told: the first intake_take begins anew. */
void intake_prepare(struct intake *self);

/* Connects if need be, and waits for one step. Again is the same. */
void intake_take(struct intake *self);

/* Takes no more. */
void intake_stop(struct intake *self);

#endif
