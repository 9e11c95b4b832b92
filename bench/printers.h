#ifndef BENCH_PRINTERS_H
#define BENCH_PRINTERS_H

#include <stddef.h>

#include "bench/rig.h"
#include "tests/support/agent_process.h"

/*
 * Agents at one Redis, with a job each, which print when they are told to.
 *
 *   printers_init(&printers, &rig, 1);
 *   double seconds = printers_print(&printers, 1, 1000000);
 *   printers_release(&printers);
 */
enum { PRINTERS_MAX = 100 };

struct printers {
  const struct rig *rig;
  char program[PATH_MAX]; /* bench/programs/lines */
  unsigned long steps;    /* ordered so far */
  size_t count;
  double ordered_ms; /* since 1970, as the server counts */
  struct agent_process *agents[PRINTERS_MAX];
};

/* Starts so many agents, and waits until all of them wait for a step. */
void printers_init(struct printers *self, const struct rig *rig, size_t count);
void printers_release(struct printers *self);

/*
 * Orders a step of so many lines from each of the first `agents` agents, all in one write. Returns
 * the seconds until the last result is taken: then each event of theirs is in its stream. Fails
 * when the server was given fewer events, or more: it is asked before and behind that time.
 */
double printers_print(struct printers *self, size_t agents, long lines);

/* The seconds from that order until the last line was in its stream, by the time that the server
   gave to it, in whole milliseconds. Of those agents; each has printed a line. */
double printers_last_line(const struct printers *self, size_t agents);

/* A key of the agent with this number, say its "events": as long for all of them. */
#define PRINTERS_KEY_SIZE 64
void printers_key(char out[PRINTERS_KEY_SIZE], size_t agent, const char *name);

#endif
