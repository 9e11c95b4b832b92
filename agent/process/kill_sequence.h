#ifndef AGENT_PROCESS_KILL_SEQUENCE_H
#define AGENT_PROCESS_KILL_SEQUENCE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/process/process_tree.h"

/*
 * Ends a process tree: SIGTERM to all of it, a grace, then SIGKILL again and again until a scan of
 * /proc finds nobody. `gone` is called once, from the event loop, with the number of processes that
 * are still there: 0, unless SIGKILL itself does not help (a process stuck in the kernel), which is
 * given up after KILL_SEQUENCE_GIVE_UP_MS.
 */
#define KILL_SEQUENCE_GIVE_UP_MS 2000

struct kill_sequence {
  struct event *timer;
  const struct process_tree *tree;
  void (*gone)(void *owner, size_t survivors);
  void *owner;
  int64_t kill_at_ms; /* monotonic */
  size_t orphans;     /* reaped since the last scan */
  int quiet_scans;
  bool running;
};

/* Prepares; the tree must outlive the sequence and may be filled in until the start. */
void kill_sequence_init(struct kill_sequence *self, struct event_base *base,
                        const struct process_tree *tree,
                        void (*gone)(void *owner, size_t survivors), void *owner);
void kill_sequence_release(struct kill_sequence *self);

/*
 * Starts; grace_ms 0 leaves out SIGTERM. While it is running, a further call can only make the
 * grace end earlier.
 */
void kill_sequence_start(struct kill_sequence *self, int64_t grace_ms);

/* A child was reaped that nobody knew. While that goes on, a scan that finds nobody proves nothing.
 */
void kill_sequence_orphan_reaped(struct kill_sequence *self);

#endif
