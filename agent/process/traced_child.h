#ifndef AGENT_PROCESS_TRACED_CHILD_H
#define AGENT_PROCESS_TRACED_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * A command may ask to be traced by its parent (PTRACE_TRACEME), as programs do that guard against
 * debuggers; so may any of its threads, and an orphan that has become a child of this program. From
 * then on it stops at each signal that it gets, at ignored ones too, and waitid(2) reports these
 * stops whatever it is asked for. This program traces nobody: it lets the child go on, untraced.
 *
 *   waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT)
 *   if (traced_child_has_stopped(&info))
 *     if (traced_child_take(&child, info.si_pid))   it is not reported again
 *       traced_child_release(&child)                at once, or when others were looked at
 *
 * The child may ask again, and stop again.
 */
struct traced_child {
  pid_t pid; /* or a thread's id */
  int signal;
};

bool traced_child_has_stopped(const siginfo_t *info);

/* Takes the report. False when the child is not stopped any more: it may have ended meanwhile. */
bool traced_child_take(struct traced_child *self, pid_t pid);

/*
 * What it has stopped for happens as without a tracer: a handler runs, a default action is taken, a
 * SIGSTOP of another process stops it until a SIGCONT. Two signals are for a tracer alone and are
 * dropped: the SIGTRAP of an execve(2), and a SIGSTOP that the child has sent itself, or was born
 * with, to wait for its tracer.
 */
void traced_child_release(const struct traced_child *self);

#endif
