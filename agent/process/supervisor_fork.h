#pragma once

#include <stddef.h>

#include "agent/process/supervisor.h"

/*
 * Makes the process of a supervisor. It is a fork of the agent that executes no other program: a
 * process that its user cannot read stays unreadable across fork(2), but would be readable for a
 * moment after execve(2). fork(2) also does not wait for the child as vfork(2) does, which matters
 * because a step may stop it at its first instruction.
 *
 * Returns its pid, or -1 with errno. `socket` becomes its SUPERVISOR_SOCKET.
 */
pid_t supervisor_fork(const struct supervisor_options *options, struct supervisor_page *page,
                      int socket);

/* Returns the number of supervisors of this job whose agent is dead; they are ending their
   processes. Sends SIGCONT to each, because a step may have stopped it. Looks for 50 ms at most.
   Misses a supervisor whose title was cut (base/process_title.h). */
size_t supervisor_fork_count_orphaned(const char *job);
