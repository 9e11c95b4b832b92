#ifndef BENCH_SENDERS_H
#define BENCH_SENDERS_H

#include <stddef.h>
#include <sys/types.h>

#include "bench/printers.h"
#include "bench/rig.h"

/*
 * Bare senders (bench/sender.h) that send at once: as many agents that print, without the agents.
 *
 *   senders_init(&senders, &rig, 10, 100000);
 *   double seconds = senders_run(&senders);
 *   senders_release(&senders);
 *
 * Each is a process of its own, which lives from init to release and not longer than this one. It
 * holds its encoded commands all the time, some 300 bytes for a line.
 */
struct senders {
  size_t count;
  pid_t pids[PRINTERS_MAX];
  int sockets[PRINTERS_MAX]; /* a byte to it: send; a byte from it: ready for that */
};

/*
 * Starts so many, with so many lines each, and waits until all have encoded theirs. They add to the
 * streams of the agents with their numbers (printers_key), which must be at `rig`; the first agent
 * has printed a line, whose event is the pattern.
 */
void senders_init(struct senders *self, const struct rig *rig, size_t count, size_t lines);
void senders_release(struct senders *self);

/* Lets all of them send. Returns the seconds until the last has its last answer; to connect is the
   first thing that they do in that time. */
double senders_run(struct senders *self);

#endif
