#ifndef AGENT_PROCESS_KILL_SEQUENCE_H
#define AGENT_PROCESS_KILL_SEQUENCE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/process/process_tree.h"

/*
 * Ends a process tree: SIGTERM to all of it, a grace, then SIGKILL again and again until a scan of
 * /proc finds nobody. It then calls `gone` once, from the event loop, with the number of survivors:
 * 0, unless SIGKILL itself does not help (a process stuck in the kernel), which is given up
 * KILL_SEQUENCE_GIVE_UP_MS after the grace.
 */
#define KILL_SEQUENCE_GIVE_UP_MS 2000

struct kill_sequence {
  struct event *timer;
  const struct process_tree *tree;
  void (*gone)(void *owner, size_t survivors);
  void *owner;
  int64_t kill_at_ms; /* monotonic */
  int64_t seen_ms;    /* when a scan found somebody last */
  size_t orphans;     /* reaped since the last scan */
  pid_t session;      /* of the child that ended last, 0: none; remembered, since many may end */
  bool may_hold;      /* process_tree_may_hold of it */
  int quiet_scans;
  bool running;
};

/* The tree must outlive the sequence; it is read from kill_sequence_start on. */
void kill_sequence_init(struct kill_sequence *self, struct event_base *base,
                        const struct process_tree *tree,
                        void (*gone)(void *owner, size_t survivors), void *owner);
void kill_sequence_release(struct kill_sequence *self);

/*
 * Starts it; a grace_ms of 0 leaves out SIGTERM. While it runs, a further call can only make the
 * grace end earlier.
 */
void kill_sequence_start(struct kill_sequence *self, int64_t grace_ms);

/* To be called for each child that is dead, before it is reaped and kill_sequence_orphan_reaped is
   called for it: its session is still known. */
void kill_sequence_child_ended(struct kill_sequence *self, pid_t pid);

/* To be called for each child that was reaped and is no command. While there are such that may have
   been of the tree, a scan that finds nobody proves nothing. */
void kill_sequence_orphan_reaped(struct kill_sequence *self);

#endif
