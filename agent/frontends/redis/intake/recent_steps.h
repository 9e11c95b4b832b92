#ifndef AGENT_FRONTENDS_REDIS_INTAKE_RECENT_STEPS_H
#define AGENT_FRONTENDS_REDIS_INTAKE_RECENT_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The steps that were started last, for Redis may hand out a step twice: after it was restored to a
 * state in which the step had no answer yet. A server may use an id twice as well; so ids are
 * compared only from such a rollback on, and until Redis has handed out all that it had. A step
 * stays known after it was judged: the snapshot may hold several copies of it, and Redis may go
 * back to it again without that being seen. Pure.
 *
 *   recent_steps_add           each step that is started
 *   recent_steps_roll_back     Redis lost data
 *   recent_steps_hold          then, each step whose answer is still to come or to be delivered
 *   recent_steps_judge         each step that arrives
 *   recent_steps_settle        nothing is left that could be handed out a second time
 */
#define RECENT_STEPS_MAX 1024

struct recent_steps {
  uint64_t entries[RECENT_STEPS_MAX]; /* a ring; hash of the id, and a state */
  size_t next;
};

enum recent_steps_verdict {
  RECENT_STEPS_NEW,
  RECENT_STEPS_HELD,    /* a copy: the answer comes, or has come since */
  RECENT_STEPS_ANSWERED /* it was started, and its answer is gone; said once for each start */
};

void recent_steps_add(struct recent_steps *self, const char *step_id);

/* How often it was started, as far as is remembered. */
size_t recent_steps_times(const struct recent_steps *self, const char *step_id);

void recent_steps_roll_back(struct recent_steps *self);

/* `started`: it was added, and its newest start is meant; else it waits. */
void recent_steps_hold(struct recent_steps *self, const char *step_id, bool started);

/* Redis lost data, and nothing has settled since; whether recent_steps_judge would find this step
   one. */
bool recent_steps_may_have_copies(const struct recent_steps *self);
bool recent_steps_is_copy(const struct recent_steps *self, const char *step_id);

enum recent_steps_verdict recent_steps_judge(struct recent_steps *self, const char *step_id);
void recent_steps_settle(struct recent_steps *self);

#endif
