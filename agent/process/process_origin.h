#ifndef AGENT_PROCESS_PROCESS_ORIGIN_H
#define AGENT_PROCESS_PROCESS_ORIGIN_H

#include <sys/types.h>

/*
 * Where a process comes from, by its ancestors. Of one that has ended and was reaped nothing is
 * known. Without /proc, the agent's parent, process 1 and those of its session are others.
 */
enum process_origin { PROCESS_OF_STEP, PROCESS_OTHER, PROCESS_GONE };
enum process_origin process_origin_of(pid_t pid);

#endif
