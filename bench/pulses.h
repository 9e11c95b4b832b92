#ifndef BENCH_PULSES_H
#define BENCH_PULSES_H

#include <limits.h>
#include <stddef.h>

#include "bench/latency.h"
#include "bench/rig.h"

/*
 * Agents whose steps print lines at a steady pace, taking turns: bench/programs/pulse.c. Each line
 * is the time at which it was written, by the clock that this program has, too.
 *
 *   pulses_init(&pulses, 8);
 *   pulses_push(&pulses, 13, 112000);
 *   pulses_read(&pulses, 13, &ages);      or not
 *   pulses_wait(&pulses);
 *   pulses_release(&pulses);
 */
#define PULSES_MAX 100

struct pulses {
  struct rig rig;
  size_t count;
  struct agent_process *agents[PULSES_MAX];
  char last_ids[PULSES_MAX][32]; /* of the stream's entries that were read */
  char command[PATH_MAX];
  unsigned long steps;
};

/* A server, and so many agents that wait for steps. */
void pulses_init(struct pulses *self, size_t count);
void pulses_release(struct pulses *self);

/* A step for each agent: so many lines, one in each period, none at the same time as another's. */
void pulses_push(struct pulses *self, long lines, long period_us);

/* Reads all of these lines as they come, by XREAD BLOCK; adds how old each of them was then. */
void pulses_read(struct pulses *self, long lines, struct latencies *ages);

/* Waits for the result of each, which is then gone, as the events are. */
void pulses_wait(struct pulses *self);

#endif
