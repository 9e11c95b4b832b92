#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The properties of a container: a pid namespace, in which the agent is process 1 or below an init,
   and the permissions of the Pod Security Standard "restricted". The network and the files are
   those of the test. Needs root. */
struct container {
  bool init;       /* process 1 is a minimal init: reaps, forwards SIGTERM, exits with the agent */
  bool outer_proc; /* /proc is that of the test's pid namespace */
  bool restricted; /* user 1000, no capabilities, no_new_privs */
};

#define CONTAINER_USER 1000

/* After container_begin the next child of this process is process 1 of a new pid namespace, until
   container_end, which takes the returned value. For the process that makes the agent. */
int container_begin(void);
void container_end(int outer);

/* In that child: returns in the process that becomes the agent, or returns false with errno. */
bool container_enter(const struct container *self);

/* The last call before the agent is executed: drops the permissions. */
bool container_restrict(void);

/* The only child of process 1, as a pid of the test; 0: none. */
pid_t container_child(pid_t first);
