#ifndef AGENT_PROCESS_ORPHANED_PIPES_H
#define AGENT_PROCESS_ORPHANED_PIPES_H

#include <event2/event.h>

/*
 * The pipes of steps that are over, held open by processes that they left in the background. Reads
 * and discards their output until the last writer is gone: a closed pipe would break a server that
 * a command started for later steps.
 */
struct orphaned_pipes;

struct orphaned_pipes *orphaned_pipes_new(struct event_base *base);

/* Closes all pipes. */
void orphaned_pipes_free(struct orphaned_pipes *self);

/* Takes over a non-blocking descriptor, and closes it at end-of-file. */
void orphaned_pipes_adopt(struct orphaned_pipes *self, int fd);

#endif
