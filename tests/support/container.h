#ifndef TESTS_SUPPORT_CONTAINER_H
#define TESTS_SUPPORT_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * What a container is to an agent: a pid namespace, in which it is process 1 or below an init, and
 * the rights of a pod that keeps to the Pod Security Standard "restricted". The test's network and
 * files are the container's, too. Needs root.
 */
struct container {
  bool init;       /* process 1 is a minimal init: reaps, passes on SIGTERM, ends with the agent */
  bool outer_proc; /* /proc stays that of the test's pid namespace */
  bool restricted; /* user 1000, no capabilities, no_new_privs */
};

#define CONTAINER_USER 1000

/* The next child of this process is process 1 of a new pid namespace; end: those after it are not.
   For the process that makes the agent. Returns what container_end takes. */
int container_begin(void);
void container_end(int outer);

/* In that child: returns in the process that is to become the agent. False, with errno. */
bool container_enter(const struct container *self);

/* The last before it executes the agent: gives up its rights. */
bool container_restrict(void);

/* The only child of process 1, as the test sees it; 0: it has none. */
pid_t container_child(pid_t first);

#endif
