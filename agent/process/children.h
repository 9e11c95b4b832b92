#ifndef AGENT_PROCESS_CHILDREN_H
#define AGENT_PROCESS_CHILDREN_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

/*
 * The children of this process, also those that it did not start: it is a subreaper.
 *
 * A command may ask to be traced by its parent (PTRACE_TRACEME), as programs do that guard against
 * debuggers; so may any of its threads, and an orphan that has become a child of this program. From
 * then on it stops at each signal that it gets, at ignored ones too. This program traces nobody: it
 * lets the child go on, untraced, which may ask again, and stop again. What it has stopped for
 * happens as without a tracer: a handler runs, a default action is taken, a SIGSTOP of another
 * process stops it until a SIGCONT. Two signals are for a tracer alone and are dropped: the SIGTRAP
 * of an execve(2), and a SIGSTOP that the child has sent itself, or was born with, to wait for its
 * tracer.
 */
struct children_handler {
  /* Reaps it. The usage is also of those that it has reaped itself. */
  void (*ended)(void *owner, const siginfo_t *info, const struct rusage *usage);
  void (*stopped)(void *owner,
                  pid_t pid); /* by a signal; NULL: of these only who asked to be traced is seen */
};

struct child_stop {
  pid_t pid; /* or a thread's id */
  int signal;
};

/* Looks at those that have ended or stopped, at most `most`, for which there is `space`. Those that
   have stopped go on when all others were looked at: they may stop again at once, and come first.
   Returns how many there were; `most`: there may be more; -1: no child is left. */
int children_look(const struct children_handler *handler, void *owner, struct child_stop *space,
                  int most);

#endif
