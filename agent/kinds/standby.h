#ifndef AGENT_KINDS_STANDBY_H
#define AGENT_KINDS_STANDBY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/process/process.h"
#include "wire/step.h"

/*
 * A child that is made before there is a step for it: this program, executed anew, which waits for
 * one step on its standard input. It is for kinds that only read: such a step is as short as the
 * fork for it, and a fork makes the agent pay again, with a page fault for each page that it writes
 * to afterwards.
 *
 *   standby_init
 *     standby_make           from time to time; nothing happens while there is one
 *     standby_take           the child executes this step: it is a process like any other
 *     standby_reaped         for every child that was reaped
 *   standby_release          ends the child
 *
 * It only saves time: where there is none, or it died, standby_take returns NULL, and the step is
 * executed by a fork. So it is where the child is killed before it has written anything: that may
 * have happened before it had the step.
 */
struct standby {
  const struct process_context *context;
  const char *agent_tag;
  const char *program; /* NULL: there is never a child */
  char *const *environment;
  struct process *child;
  pid_t dropped; /* a child that was not needed, and is not reaped yet; 0: none */
  unsigned long made;
};

/* `program`: the path of this program, shorter than 64 bytes, NULL where it is not to be executed.
   `environment`: what the child gets HOME and XDG_CONFIG_HOME of, which say where git's own files are;
   may be NULL. All must outlive it. */
void standby_init(struct standby *self, const struct process_context *context,
                  const char *agent_tag, const char *program, char *const *environment);
/* From then on there is none. May be called again. */
void standby_release(struct standby *self);

void standby_make(struct standby *self);

/* As process_start, for a step that was parsed from this payload. NULL also where the payload is
   longer than PROCESS_INPUT_MAX. */
struct process *standby_take(struct standby *self, const struct step *step, const char *payload,
                             size_t length, const struct process_handler *handler, void *owner);

/* True when it was the child that waits, or the last one that was not needed. To be asked first: an
   orphan of a step's tree is something else. */
bool standby_reaped(struct standby *self, pid_t pid, int status);

/* The child's side. `main` calls it where the program's only argument is this one. Returns the exit
   code. */
#define STANDBY_ARGUMENT "--standby"
int standby_main(void);

#endif
