#ifndef AGENT_ENGINE_IDLE_H
#define AGENT_ENGINE_IDLE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/options.h"
#include "base/log.h"

/*
 * How long the agent waits without a step: until the idle limit, and as long as the run that it
 * works for is alive, where it was told which one that is.
 *
 *   idle_begin      nothing is to be done
 *     is_stuck()    at the limit: whoever waits on waits for nothing, so nobody is asked
 *     over()        the limit is reached, and the run is not known to be alive
 *   idle_end        a step came, also while the question is open
 */
struct idle;

struct idle_handler {
  bool (*is_stuck)(void *owner);
  void (*over)(void *owner);
};

/* One cycle of waiting without a step; --idle-cycles of them are the idle limit. Only a build for
   tests that wait for it (`agent-short-idle` in the Makefile) has another. */
#ifndef IDLE_CYCLE_SECONDS
#define IDLE_CYCLE_SECONDS 60
#endif
int64_t idle_limit_ms(const struct options *options);

/* Everything must outlive it. */
struct idle *idle_new(struct event_base *base, const struct log *log, const struct options *options,
                      const struct idle_handler *handler, void *owner);
void idle_free(struct idle *self);

/* The time goes on where it runs already. */
void idle_begin(struct idle *self);
void idle_end(struct idle *self);

#endif
