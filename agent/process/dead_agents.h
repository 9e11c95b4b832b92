#ifndef AGENT_PROCESS_DEAD_AGENTS_H
#define AGENT_PROCESS_DEAD_AGENTS_H

#include <stddef.h>
#include <sys/types.h>

/* The number of supervisors of this job whose agent is dead. Such supervisors are ending their
   trees. Sends SIGCONT to each, because somebody may have stopped it. Looks at
   DEAD_AGENTS_PROCESSES_MAX processes at most, for DEAD_AGENTS_MS at most. Does not find a
   supervisor whose title was cut (base/process_title.h). */
size_t dead_agents_count_supervisors(const char *job);

#define DEAD_AGENTS_PROCESSES_MAX 16384
#define DEAD_AGENTS_MS 50

#endif
