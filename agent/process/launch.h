#ifndef AGENT_PROCESS_LAUNCH_H
#define AGENT_PROCESS_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/process/exec_probe.h"
#include "agent/process/spawn.h"

/*
 * The child's side of spawn.c: from clone(2) until the command is executed. It runs on the agent's
 * memory, on the agent's thread pointer, while the agent goes on. So it may touch nothing but its
 * stack and its own struct launch, and call nothing of the C library, not even what only sets
 * errno: everything is prepared for it, and what it does are raw system calls.
 */

enum launch_stage { LAUNCH_SETUP, LAUNCH_DIRECTORY, LAUNCH_EXEC };

struct launch_failure {
  enum launch_stage stage;
  int error;
  bool in_directory; /* it had come to the request's directory */
  size_t candidate;  /* LAUNCH_EXEC: the one that is there and cannot be run, else the first */
  struct exec_probe probe; /* LAUNCH_EXEC: of that one */
};

/* A futex, which the agent opens once. Until then signals that are blocked stay pending; SIGKILL
   ends the child. */
enum launch_gate { LAUNCH_GATE_CLOSED, LAUNCH_GATE_OPEN };

struct launch {
  struct spawn_defaults defaults;
  struct spawn_request request;
  char **candidates; /* NULL-terminated: the paths to try, in order */
  pid_t agent;
  int report_fd; /* a failure is written there, too, where memory may not be shared; else -1 */
  int gate;      /* enum launch_gate */
  int in_use;    /* not 0: the child runs on this memory */
  bool shared;   /* set by the child: it does */
  bool failed;   /* set by the child, which exits with 127 then */
  struct launch_failure failure; /* all zeros before */
};

/* For clone(2), with a struct launch: executes the command or exits. */
int launch_main(void *context);

/*
 * What every child begins with: a session, the agent's death as its own, the limit, the three
 * descriptors. Returns 0, or the errno.
 */
int launch_set_up(const struct spawn_defaults *defaults, const struct spawn_request *request,
                  pid_t agent);

/* Whether an errno of chdir(2) means that there is no such directory. */
bool launch_is_missing(int error);

#endif
