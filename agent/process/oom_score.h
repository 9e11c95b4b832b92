#ifndef AGENT_PROCESS_OOM_SCORE_H
#define AGENT_PROCESS_OOM_SCORE_H

#include <sys/types.h>

/*
 * Makes the kernel's out-of-memory killer choose a step's processes before the agent
 * (oom_score_adj 1000): of many small ones none is worse than the agent otherwise. Any process may
 * raise its score, and that of others of its user; a step may lower it again to what the agent has.
 */

/* Of a child that has executed its command, and of what it has started by then. Not before: the
   kernel gives the score to all that share the child's memory, which is the agent's until then. The
   child must not have been reaped. One that the agent may not write to stays as it is: a setuid
   program. */
void oom_score_raise(pid_t child);

/* Of this process, which must share its memory with no other, and be dumpable or root's. */
void oom_score_raise_own(void);

#endif
