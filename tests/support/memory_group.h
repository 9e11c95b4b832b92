#ifndef TESTS_SUPPORT_MEMORY_GROUP_H
#define TESTS_SUPPORT_MEMORY_GROUP_H

#include <limits.h>
#include <stddef.h>

/* A control group of the kernel's, of version 1 or 2, with a limit of memory, as a container has
   one. To be made by root; what cannot be done fails the test. */
struct memory_group {
  char path[PATH_MAX];
};

void memory_group_init(struct memory_group *self, size_t limit_bytes);

/* When its processes have ended. */
void memory_group_release(struct memory_group *self);

/* For agent_setup: this process enters it. */
void memory_group_enter(const void *group);

#endif
