#ifndef AGENT_HISTORY_H
#define AGENT_HISTORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * The steps that were started last, for the case that Redis goes back to a time before they were
 * answered, or even taken, and hands them out once more. Ids may be used twice otherwise: they
 * count from when Redis has gone back until all that it had was handed out, each once. Pure.
 *
 *   history_add(&history, id)       with each step that is started
 *   history_roll_back(&history)     Redis has gone back
 *   history_hold(&history, id)      for each step whose answer is still to come or to be delivered
 *   history_judge(&history, id)     of each step that is taken
 *   history_settle(&history)        nothing is left that could come once more
 */
#define HISTORY_MOST 1024

struct history {
  uint64_t entries[HISTORY_MOST]; /* a ring; hash of the id, and a state */
  size_t next;
};

enum history_verdict {
  HISTORY_NEW,
  HISTORY_HELD,    /* it is known: its answer comes, or has come since */
  HISTORY_ANSWERED /* it was started, and its answer is gone */
};

void history_add(struct history *self, const char *step_id);

/* How often it was started, as far as is remembered. */
size_t history_times(const struct history *self, const char *step_id);

void history_roll_back(struct history *self);
void history_hold(struct history *self, const char *step_id);
void history_settle(struct history *self);
enum history_verdict history_judge(struct history *self, const char *step_id);

#endif
