#ifndef AGENT_PROCESS_PIPE_DRAIN_H
#define AGENT_PROCESS_PIPE_DRAIN_H

#include <event2/event.h>

/* Pipes of processes that are over, which somebody in the background holds: what comes is read and
   discarded until the last writer is gone. A closed pipe would break a server that a command
   started for later steps. All zeros: none. */
struct pipe_drains {
  struct pipe_drain *first;
};

/* Takes over a descriptor that does not block. */
void pipe_drains_add(struct pipe_drains *self, struct event_base *base, int fd);

void pipe_drains_release(struct pipe_drains *self);

#endif
