#ifndef AGENT_PROCESS_GUARD_H
#define AGENT_PROCESS_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/process/process_tree.h"
#include "base/error.h"

/*
 * A child that ends what this agent has started when the agent itself is killed and cannot: hosts
 * end a tool by SIGKILL, and what its commands left in the background would go on. It waits for the
 * end of a pipe that the agent alone holds, finds by their tags what is left, and kills it. It has
 * no other descriptor, and a session of its own, so that the end of the agent's group spares it.
 *
 *   struct guard guard = GUARD_NONE
 *   guard_start             from time to time; nothing happens while there is one
 *   guard_reaped            for each child that was reaped
 *   guard_release           at the end: it finds nothing, and exits
 *
 * As the first process of a container the agent needs none: the kernel ends all others with it.
 */
struct guard {
  pid_t pid; /* 0: there is none */
  int fd;    /* what it waits for, -1 for none */
};

#define GUARD_NONE                                                                                 \
  { .pid = 0, .fd = -1 }

/* `agent_tag`: what the tags of all steps begin with. Returns -1, with the reason, when it
   cannot be made. The caller adds its pid to the leaders and exempts it from its own scans. */
int guard_start(struct guard *self, const char *agent_tag, struct error *error);

/* True when it was the guard, which somebody has killed. */
bool guard_reaped(struct guard *self, pid_t pid);

void guard_release(struct guard *self);

#endif
