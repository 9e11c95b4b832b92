#pragma once

#include <sys/resource.h>
#include <sys/types.h>

/*
 * Handles the children of this process, including those that it did not start: it is a subreaper.
 *
 * The hard part is a command that asks to be traced by its parent (PTRACE_TRACEME), as programs do
 * to keep debuggers away. A thread of it, or an orphan that became a child of this program, may do
 * the same. From then on the child stops at each signal, also at ignored ones. This program traces
 * nothing: it lets the child continue untraced, and does so again if the child asks again. The
 * signal that stopped it takes effect as without a tracer: a handler runs, a default action is
 * taken, a SIGSTOP of another process stops it until a SIGCONT. Two signals are meant for a tracer
 * only and are dropped: the SIGTRAP of an execve(2), and a SIGSTOP that the child sent to itself or
 * was born with, to wait for its tracer.
 */
struct children_handler {
  /* The child has ended, with a status as of waitpid(2), and is reaped afterwards. The usage
     includes the children that it has reaped itself. */
  void (*ended)(void *owner, pid_t pid, int status, const struct rusage *usage);
  /* The child was stopped by a signal. NULL: only stops of traced children are handled. */
  void (*stopped)(void *owner, pid_t pid);
};

#define CHILDREN_AT_ONCE 1024

/* Handles at most CHILDREN_AT_ONCE children that have ended or stopped. Returns how many there
   were, so there may be more if that is CHILDREN_AT_ONCE; -1: no child is left. */
int children_handle(const struct children_handler *handler, void *owner);
