#ifndef AGENT_STEP_LEFTOVERS_H
#define AGENT_STEP_LEFTOVERS_H

#include <event2/event.h>

/*
 * The pipes of steps that are over, held by processes which they left in the background. Their
 * output belongs to nobody any more, but it is read and thrown away until the last writer is gone:
 * a closed pipe would break a server that the command started for the steps to come.
 */
struct leftovers;

struct leftovers *leftovers_new(struct event_base *base);

/* Closes all pipes. */
void leftovers_free(struct leftovers *self);

/* Takes over a non-blocking descriptor, and closes it at its end. */
void leftovers_adopt(struct leftovers *self, int fd);

#endif
