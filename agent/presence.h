#ifndef AGENT_PRESENCE_H
#define AGENT_PRESENCE_H

#include <stdbool.h>

#include "agent/job.h"
#include "base/error.h"

/*
 * Joins the heartbeat and the outbox: the first beat goes with the claim, what a beat learns of the
 * claim goes to the outbox, and the outbox removes the key in the end, in a window, which arrives
 * only as long as the job is this agent's. Where the heartbeat has no connection the outbox brings
 * its beats, too. A key that Redis refuses to set it is not asked to remove either.
 *
 *   presence_command     what goes with the claim
 *   presence_start       the job is claimed
 *     is_running()       whether a step is in flight
 *     failed()           it does not beat any more, for an error that does not pass
 *   presence_end         everything is delivered
 *     over()             the key is gone, or Redis does not get to it in time
 *   presence_stop        the outbox has failed: whose the job is is not known
 */
struct presence;

struct presence_handler {
  bool (*is_running)(void *owner);
  void (*over)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

struct presence *presence_new(const struct job *job, const struct presence_handler *handler,
                              void *owner);
void presence_free(struct presence *self);

/* See heartbeat_command. */
char *presence_command(const struct presence *self);

void presence_start(struct presence *self);

/* over() follows, once. Again is the same. */
void presence_end(struct presence *self);

/* The end has begun: what the outbox holds is no more than that. */
bool presence_is_ending(const struct presence *self);

/* The outbox has delivered everything. */
void presence_delivered(struct presence *self);

/* Leaves the key alone. */
void presence_stop(struct presence *self);

#endif
