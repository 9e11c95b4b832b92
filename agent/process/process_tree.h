#ifndef AGENT_PROCESS_PROCESS_TREE_H
#define AGENT_PROCESS_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "wire/step_report.h"

/*
 * The processes below one that is a child subreaper: its children, their children, and so on. Who has
 * lost his parent is a child of the subreaper, so that nobody leaves the tree but by his end, whatever
 * his session, his environment or his name.
 */
struct process_tree {
  pid_t root;    /* this process */
  pid_t command; /* a child that leads a process group and is not reaped; 0: there is none */
  /* Children of the root that do not belong, with all that is below them; NULL: all belong. */
  bool (*is_excepted)(void *context, pid_t child);
  void *context;
};

/*
 * Sends the signal (0: none) to each of them, to a process before its children are listed: those that
 * it makes from then on are not made once SIGKILL is pending. SIGTERM is followed by SIGCONT: a stopped
 * process cannot obey. Looks at PROCESS_TREE_MAX processes at the most. Returns how many there were,
 * dead ones that are not reaped included. Processes that come meanwhile may be missed: who wants all
 * dead repeats it until the root has no child.
 *
 * Where /proc is not this pid namespace's, the command's process group is signalled alone.
 */
size_t process_tree_signal(const struct process_tree *self, int signal);

struct process_tree_census {
  size_t living;
  int64_t rss_bytes; /* of all together; what they share counts for each */
  size_t listed;
};

/* Counts those that live, and lists the largest of them first, `max` at the most. */
struct process_tree_census process_tree_list(const struct process_tree *self,
                                             struct step_process *list, size_t max);

#define PROCESS_TREE_MAX 4096

#endif
