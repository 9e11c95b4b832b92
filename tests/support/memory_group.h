#pragma once

#include <limits.h>
#include <stddef.h>

/* A control group of version 1 or 2 with a memory limit, as of a container. If the kernel can, it
   also counts tasks, allows MEMORY_GROUP_TASKS_MAX of them, so that a fork bomb of a test does not
   stop the machine, and has its own share of the processor, so that the agent is not in the
   scheduler's autogroup of a busy test. Needs root; fails the test if something else cannot be
   done. */
enum { MEMORY_GROUP_TASKS_MAX = 2000 };
struct memory_group {
  char path[PATH_MAX];
  char tasks[PATH_MAX], cpu[PATH_MAX]; /* further groups of version 1; "" if there is none */
};

void memory_group_init(struct memory_group *self, size_t limit_bytes);

/* After its processes have ended. */
void memory_group_release(struct memory_group *self);

/* For agent_setup: moves this process into the group. */
void memory_group_enter(const void *group);
