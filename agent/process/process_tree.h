#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/process_table.h"
#include "wire/step_report.h"

/*
 * Signals, counts and lists the descendants of this process. It is a child subreaper, so an
 * orphaned descendant becomes its child: no process leaves the tree before it ends. Supervisors use
 * it for their commands, the agent for orphans.
 *
 * Only live processes count. A walk visits at most PROCESS_TREE_MAX of them, and of each parent the
 * newest children first, because among processes that fork and exit the newest ones continue.
 */
struct process_tree {
  pid_t command; /* a child that leads a process group and is not reaped; 0: none */
  /* Children that do not belong to the tree, with their descendants; NULL: all belong. */
  bool (*is_excepted)(const void *context, pid_t child);
  void *context;
  int64_t turn_ms; /* how long a walk may take; 0: no limit */
  /* The state of the last walk; zeros at first. */
  bool is_cut; /* by `turn_ms` */
  long position;
  size_t found;
  bool saw_dead;
};

/*
 * Sends the signal (0: none) to each process, and returns how many were alive. A process is
 * signalled before its children are listed: it makes no more once SIGKILL is pending. SIGCONT
 * follows SIGTERM, because a stopped process cannot react.
 *
 * A walk that was cut returns at least 1; the next one continues there. A walk that has seen a dead
 * child also returns at least 1, because that child's own children may have come to the root after
 * the walk passed it. Processes that are made meanwhile may be missed. To end all, reap and repeat
 * until there is no child.
 *
 * If /proc is not of this pid namespace, only the command's process group is signalled.
 */
size_t process_tree_signal(struct process_tree *self, int signal);

struct process_tree_census {
  int64_t living;            /* processes; -1: unknown, because the time was over */
  int64_t rss_bytes;         /* of all together; shared memory counts for each */
  size_t listed;             /* processes in the list */
  struct pipe_holder holder; /* has one of the pipes open; pid 0: none was found */
};

/* Counts the processes, and lists at most `max` of them, the largest first. During the first half
   of `turn_ms`, looks for one that has one of these pipes open (inode numbers, 0: none); NULL: does
   not look. */
struct process_tree_census process_tree_list(const struct process_tree *self, const ino_t pipes[2],
                                             struct step_process *list, size_t max);

#define PROCESS_TREE_MAX 4096
