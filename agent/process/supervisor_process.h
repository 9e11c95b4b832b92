#ifndef AGENT_PROCESS_SUPERVISOR_PROCESS_H
#define AGENT_PROCESS_SUPERVISOR_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/process/supervisor.h"
#include "agent/process/supervisor_page.h"

/*
 * The process of a supervisor, as the agent sees it. It is a fork of the agent that executes no
 * other program: a process that its user cannot read stays unreadable across fork(2), but would be
 * readable for a moment after execve(2). fork(2) also does not wait for the child as vfork(2) does,
 * which matters because a step may stop it at its first instruction.
 */
struct supervisor_process {
  pid_t pid;     /* 0: it was reaped */
  int socket;    /* -1: the supervisor was dismissed */
  int other_end; /* the supervisor's, to take back a message that it did not receive; or -1 */
  struct supervisor_page *page;
};

/* Makes the process. Returns 0, or -1 with errno. */
int supervisor_process_make(struct supervisor_process *self,
                            const struct supervisor_options *options);

/* Prepares the page for a task. `waits`: with the gate closed. */
void supervisor_process_reset(struct supervisor_process *self, bool waits);

/* Whether it is stopped, or blocked in the kernel, or its state is unknown; not if it only waits
   for a processor. */
bool supervisor_process_is_held(const struct supervisor_process *self);

/* Closes the socket, after which the supervisor exits. */
void supervisor_process_dismiss(struct supervisor_process *self);

/* Frees the memory. The process goes on as long as it has something to do. */
void supervisor_process_release(struct supervisor_process *self);

/* Returns the number of supervisors of this job whose agent is dead; they are ending their
   processes. Sends SIGCONT to each, because a step may have stopped it. Looks at 16,384 processes
   and for 50 ms at most. Misses a supervisor whose title was cut (base/process_title.h). */
size_t supervisor_process_count_orphaned(const char *job);

#endif
