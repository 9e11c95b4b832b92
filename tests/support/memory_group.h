#pragma once

#include <limits.h>
#include <stddef.h>

/* A control group of version 1 or 2 with a memory limit, as of a container. Needs root; fails the
   test if something cannot be done. */
struct memory_group {
  char path[PATH_MAX];
};

void memory_group_init(struct memory_group *self, size_t limit_bytes);

/* After its processes have ended. */
void memory_group_release(struct memory_group *self);

/* For agent_setup: moves this process into the group. */
void memory_group_enter(const void *group);
