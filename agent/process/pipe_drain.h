#ifndef AGENT_PROCESS_PIPE_DRAIN_H
#define AGENT_PROCESS_PIPE_DRAIN_H

#include <event2/event.h>

#include "base/list.h"

/* Drains the pipes of finished commands that processes in the background still have open: reads and
   discards their output until the last writer is gone. A closed pipe would break a server that a
   command started for later steps. */

/* Takes over a non-blocking descriptor. The list is of drains; zeros at first. */
void pipe_drain_add(struct list *drains, struct event_base *base, int fd);

/* Closes all pipes. */
void pipe_drain_release(struct list *drains);

#endif
