#ifndef AGENT_PROCESS_PROCESS_TREE_H
#define AGENT_PROCESS_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/process_table.h"
#include "wire/step_report.h"

/*
 * The processes below this process, which is a child subreaper: its children, their children, and
 * so on. Who has lost his parent is a child of the subreaper, so that nobody leaves the tree but by
 * his end, whatever his session, his environment or his name.
 *
 * Only live processes count. A walk looks at PROCESS_TREE_MAX of them at most, the newest children
 * of a parent first: among processes that fork and exit, the newest are those that go on.
 */
struct process_tree {
  pid_t command; /* a child that leads a process group and is not reaped; 0: there is none */
  /* Children that do not belong, with all that is below them; NULL: all belong. */
  bool (*is_excepted)(void *context, pid_t child);
  void *context;
  int64_t turn_ms; /* how long a walk may take; 0: no limit */
  /* Of the last walk; zeros at first. */
  bool is_cut; /* by `turn_ms` */
  long position;
  size_t found;
  bool saw_dead;
};

/*
 * Sends the signal (0: none) to each of them. The children are signalled as soon as they are
 * listed, and a process before its own children are listed: once SIGKILL is pending, a process
 * makes no other one. SIGTERM is followed by SIGCONT: a stopped process cannot obey. Returns how
 * many were alive. A walk that was cut by `turn_ms` returns at least 1; the next walk goes on from
 * there. So does a walk that has seen a dead child: the children of that one may have come to the
 * root after the walk had passed them.
 *
 * Processes that come meanwhile may be missed. To end all, reap and repeat it until there is no
 * child.
 *
 * If /proc is not this pid namespace's, only the command's process group is signalled.
 */
size_t process_tree_signal(struct process_tree *self, int signal);

struct process_tree_census {
  size_t living;
  int64_t rss_bytes; /* of all together; memory that they share counts for each */
  size_t listed;
  bool is_cut; /* the figures are too low, because the time was over */
};

/* Counts the processes, and lists the largest of them first, at most `max`. */
struct process_tree_census process_tree_list(const struct process_tree *self,
                                             struct step_process *list, size_t max);

/* Finds a process that has one of these pipes open (inode numbers; 0: none). */
struct pipe_holder process_tree_holder(const struct process_tree *self, const ino_t pipes[2]);

#define PROCESS_TREE_MAX 4096

#endif
