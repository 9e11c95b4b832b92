#ifndef AGENT_PROCESS_PROCESS_TREE_H
#define AGENT_PROCESS_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Which processes belong to a step, and how to signal all of them. A process group is not enough:
 * a child may leave it (setsid) or lose its parent (daemons). The agent is a child subreaper, so
 * that every orphan stays its descendant, and each step's environment carries a tag. A process
 * belongs to a step when
 *   - its environment holds the step's tag, or
 *   - it has no tag of this agent, and its nearest ancestor with a known answer belongs; where
 *     there is none up to the agent's own child, that child was started after the step was.
 *
 * The last rule is for a process that cleared its environment and lost its parent. It is wrong
 * about one that an earlier step left in the background and that does the same while a later step
 * runs; and a step that puts an earlier step's tag on an orphan hides it.
 */
#define PROCESS_TREE_TAG "SANDBOX_STEP_TAG"

struct process_tree {
  const char *tag; /* value of PROCESS_TREE_TAG, "<agent>-<step>"; NULL: every descendant of the
                      agent belongs */
  pid_t leader;    /* the command itself, also leader of its process group; 0 when tag is NULL */
  uint64_t since_ticks; /* from process_tree_now, taken before the command was started */
};

/* Whether /proc can be read, and is this pid namespace's: in any other one the numbers mean other
   processes. Without it only the leader's process group is known, and, to the first process of a
   container, all processes. */
bool process_tree_is_known(void);

/* The clock of process start times: ticks since boot. */
uint64_t process_tree_now(void);

/*
 * Sends the signal (0: none) once to every living member; a zombie is not living. Returns their
 * number; without /proc 1 or 0.
 */
size_t process_tree_signal(const struct process_tree *self, int signal);

/*
 * Kills the agent's newest child, as long as it belongs, over and over for this time. For a process
 * that outruns the scan: it forks, exits, and goes on in its child, each time in a new session.
 */
void process_tree_chase(const struct process_tree *self, int milliseconds);

/*
 * Names a process other than this one that has the pipe of this descriptor open, like
 * "pid 42 (sleep)". Returns the number of such processes; `name` is of the first, or "".
 */
size_t process_tree_pipe_holder(int fd, char *name, size_t size);

#endif
