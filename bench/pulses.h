#pragma once

#include <limits.h>
#include <stddef.h>

#include "bench/rig.h"

/*
 * Agents whose steps print lines at a steady rate, in turns (bench/programs/pulse.c). Each line is
 * the time at which it was written, by latency_now_ms.
 *
 *   pulses_init(&pulses, 8);
 *   pulses_push(&pulses, 13, 112000);
 *   pulses_read(&pulses, 13, ages);      optional
 *   pulses_wait(&pulses);
 *   pulses_release(&pulses);
 */
#define PULSES_MAX 100

struct pulses {
  struct rig rig;
  size_t count;
  struct agent_process *agents[PULSES_MAX];
  char last_ids[PULSES_MAX][32]; /* of the entry of each stream that was read last */
  char command[PATH_MAX];
  unsigned long steps;
};

/* Starts a server, and this many agents that wait for steps. */
void pulses_init(struct pulses *self, size_t count);
void pulses_release(struct pulses *self);

/* Pushes a step for each agent: this many lines, one in each period, each at another time. */
void pulses_push(struct pulses *self, long lines, long period_us);

/* Reads all of these lines by XREAD BLOCK, as they come. `ages` gets how old each of them was, in
   milliseconds: `lines` of each agent. */
void pulses_read(struct pulses *self, long lines, double *ages);

/* Waits for all results, and removes them and the events. */
void pulses_wait(struct pulses *self);
