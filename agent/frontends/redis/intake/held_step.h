#ifndef AGENT_FRONTENDS_REDIS_INTAKE_HELD_STEP_H
#define AGENT_FRONTENDS_REDIS_INTAKE_HELD_STEP_H

#include <stdbool.h>

#include "agent/frontends/redis/delivery/outbox.h"
#include "base/error.h"
#include "wire/step.h"

/* A step of the list `inflight` or `in` that is in memory. */
enum held_step_place {
  HELD_STEP_TAKEN,    /* it lies in `inflight` */
  HELD_STEP_RETURNED, /* the same, where it was put back after Redis had lost data */
  HELD_STEP_LOST      /* it lies nowhere: Redis has lost it, and it cannot be put back */
};

struct held_step {
  struct payload payload; /* owned */
  struct step step;       /* moved out when it runs */
  char *step_id;          /* not NULL */
  struct error error;     /* why it is refused */
  bool is_refused;
  bool is_announced; /* Redis has that it was started, or gets it */
  enum held_step_place place;
};

/* Parses it, and copies the payload. */
struct held_step *held_step_new(const struct payload *payload);
void held_step_free(struct held_step *self); /* NULL: nothing happens */

/* Whether the payload is its own; of truncated ones it is only known that they are. */
bool held_step_is(const struct held_step *self, const struct payload *payload);

/* A step that runs when its turn comes, and not a control message or a step that is refused. */
bool held_step_is_work(const struct held_step *self);

#endif
