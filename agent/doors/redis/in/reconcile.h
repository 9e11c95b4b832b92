#ifndef AGENT_DOORS_REDIS_IN_RECONCILE_H
#define AGENT_DOORS_REDIS_IN_RECONCILE_H

#include <stdbool.h>

#include "agent/doors/redis/in/prefetch.h"
#include "agent/doors/redis/in/recent_steps.h"
#include "agent/doors/redis/out/outbox.h"
#include "base/log.h"

/*
 * Redis has gone back to a time before, or is empty: what is known here it knows again, and a step
 * that it hands out once more runs at most once and is answered once.
 *
 *   reconcile_forgotten     what it had acknowledged is lost
 *   reconcile_missing       nothing but that steps were taken is lost
 *   reconcile_settles       of each step that is taken
 *     lost()               it has run, and its result is nowhere: the owner answers it
 */
struct reconcile {
  const struct log *log;
  struct outbox *outbox;
  struct prefetch *prefetch;
  struct recent_steps *recent_steps; /* has every step that was begun */
  void (*lost)(void *owner, const struct claimed_step *queued);
  void *owner;
  const char *running; /* inside the first two */
};

/* `running` is the id of the step that prefetch_next gave last and that was begun; NULL: there is
   none. */
void reconcile_forgotten(struct reconcile *self, const char *running);
void reconcile_missing(struct reconcile *self, const char *running);

/* True when the step came once more; then there is nothing left to be done for it. */
bool reconcile_settles(struct reconcile *self, const struct claimed_step *queued);

#endif
