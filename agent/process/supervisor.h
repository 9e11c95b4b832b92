#ifndef AGENT_PROCESS_SUPERVISOR_H
#define AGENT_PROCESS_SUPERVISOR_H

#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

struct supervisor_page;

/*
 * A child of the agent that makes one command at a time, and keeps all processes that come of it:
 * it is a child subreaper, so whoever has the command among his ancestors is below the supervisor,
 * nobody else is, and the kernel keeps that book. This is the supervisor's side; supervisors.h is
 * the agent's.
 *
 * It ends its tree when the agent orders it, and at once when the agent is dead, of which the
 * kernel tells it by SIGCONT: that wakes a supervisor that a step has stopped, too. No other signal
 * but SIGKILL does anything to it. It is not dumpable from its first instruction, because the
 * agent is not: nobody of the same user can open its memory, or the page that it shares with the
 * agent. The out-of-memory killer takes it first, with all that it makes.
 *
 * Work is done in the supervisor itself: a function of this program, whose crash, hang or leak is
 * the step's own. The agent ends it with SIGKILL. A supervisor whose work has taken much memory
 * exits.
 */

/* Returns the exit code of the work. It writes to descriptors 1 and 2, and may leave descriptors
   open and its directory changed. */
typedef int supervisor_work(char *packed, size_t length);

/* How ps(1) and /proc call it. */
#define SUPERVISOR_NAME "agent-supervise"

/* The supervisor's socket (supervisor_message.h), beside descriptors 0 to 2. */
#define SUPERVISOR_SOCKET 3

/* The settings of all commands. */
struct supervisor_commands {
  struct rlimit open_files;
  int nice; /* above the agent's */
};

/* A supervisor is a fork of the agent, so it gets all of this by memory. */
struct supervisor_setup {
  pid_t agent;
  struct supervisor_page *page; /* shared with the agent */
  struct supervisor_commands commands;
  long agent_pages; /* when the agent began; -1: not known */
  supervisor_work *work;
  void (*forget)(
      void *owner); /* overwrites the agent's secrets, before the first work; NULL: none */
  void *owner;
};

/* The resident pages of this process; -1: they are not known. */
long supervisor_own_pages(void);

/* A supervisor has a copy of what the agent had in memory when it was made. If that was so many
   pages more than when the agent began, the supervisor exits after its first task, because it would
   keep memory that the agent has freed meanwhile. */
#define SUPERVISOR_PAGES_MAX 4096

/* Never returns. The caller is the child of a fork(2); it has placed descriptors 0 to 2 and
   SUPERVISOR_SOCKET. */
_Noreturn void supervisor_main(const struct supervisor_setup *setup);

#endif
