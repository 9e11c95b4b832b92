#ifndef AGENT_STARTUP_H
#define AGENT_STARTUP_H

#include <stdbool.h>

#include "agent/process/spawn.h"
#include "base/error.h"

/*
 * What the program does to its own process before anything else, so that steps can rely on it:
 * descriptors 0 to 2 are open, inherited others close on exec, signals are blocked (they are read
 * from a descriptor) with default dispositions, orphans of steps become children of this process
 * where the kernel lets them, and no other process of the same user may read its memory.
 */
struct startup {
  struct spawn_defaults spawn;
  int signal_fd;      /* SIGCHLD; SIGTERM, SIGINT, SIGQUIT, SIGHUP to stop; SIGUSR1 for a dump */
  bool keeps_orphans; /* or they go to init, and what has left its step is not found there */
};

/* The descriptors are the caller's to close, with startup_release. */
int startup_init(struct startup *self, struct error *error);
void startup_release(struct startup *self);

/* Puts python/bin beside this program, where that is a directory, in front of PATH. */
void startup_offer_tools(void);

/* Takes REDIS_URL out of the environment, and every password of a Redis URL out of the memory that
   /proc/<pid>/cmdline and environ show. Call it when both were read. */
void startup_hide_credentials(int argc, char **argv);

#endif
