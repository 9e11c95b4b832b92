#ifndef AGENT_DOORS_REDIS_IN_RECENT_STEPS_H
#define AGENT_DOORS_REDIS_IN_RECENT_STEPS_H

#include <stddef.h>
#include <stdint.h>

/*
 * The steps that were started last, for the case that Redis goes back to a time before they were
 * answered, or even taken, and hands them out once more. Ids may be used twice otherwise: they
 * count from when Redis has gone back until all that it had was handed out, each once. Pure.
 *
 *   recent_steps_add(&history, id)       with each step that is started
 *   recent_steps_roll_back(&history)     Redis has gone back
 *   recent_steps_hold(&history, id)      for each step whose answer is still to come or to be
 * delivered recent_steps_judge(&history, id)     of each step that is taken
 *   recent_steps_settle(&history)        nothing is left that could come once more
 */
#define RECENT_STEPS_MAX 1024

struct recent_steps {
  uint64_t entries[RECENT_STEPS_MAX]; /* a ring; hash of the id, and a state */
  size_t next;
};

enum recent_steps_verdict {
  RECENT_STEPS_NEW,
  RECENT_STEPS_HELD,    /* it is known: its answer comes, or has come since */
  RECENT_STEPS_ANSWERED /* it was started, and its answer is gone */
};

void recent_steps_add(struct recent_steps *self, const char *step_id);

/* How often it was started, as far as is remembered. */
size_t recent_steps_times(const struct recent_steps *self, const char *step_id);

void recent_steps_roll_back(struct recent_steps *self);
void recent_steps_hold(struct recent_steps *self, const char *step_id);
void recent_steps_settle(struct recent_steps *self);
enum recent_steps_verdict recent_steps_judge(struct recent_steps *self, const char *step_id);

#endif
