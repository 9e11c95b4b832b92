#ifndef AGENT_PROCESS_KEEPER_H
#define AGENT_PROCESS_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * A small child of the agent that makes one command at a time, and keeps all processes that come of
 * it: it is a child subreaper, so whoever has the command among his ancestors is below the keeper,
 * nobody else is, and the kernel keeps that book. This is the keeper's side; keepers.h is the agent's.
 *
 * It ends its tree when the agent orders it, and at once when the agent is dead, of which the kernel
 * tells it by SIGCONT: that wakes a keeper that a step has stopped, too. No other signal but SIGKILL does
 * anything to it. It is not dumpable, and the first that the out-of-memory killer takes, with all that
 * it makes.
 *
 * Work is done in the keeper itself: a function of this program, whose crash, hang or leak is the
 * step's own. The agent ends it with SIGKILL. A keeper whose work has taken much memory exits.
 */

/* Returns the exit code of the work. It writes to descriptors 1 and 2, and may leave descriptors open
   and its directory changed. */
typedef int keeper_work(char *packed, size_t length);

/* The descriptors that it begins with, beside 0 to 2: its socket and the page (keeper_message.h). */
#define KEEPER_SOCKET 3
#define KEEPER_PAGE 4

/* What it is executed with: KEEPER_ARGUMENT, the job as keepers.h has it, the agent's pid. */
#define KEEPER_ARGUMENT "--keeper"

/* For main(): whether this program was executed as a keeper, by these arguments and descriptors. */
bool keeper_is_meant(int argc, char *const *argv);

/* Never returns. `agent` is its parent, unless that is dead. */
_Noreturn void keeper_main(pid_t agent, keeper_work *work);

/* Closes every descriptor above this one. */
void keeper_close_above(int last);

#endif
