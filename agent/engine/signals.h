#pragma once

#include <event2/event.h>

#include "base/log.h"

/*
 * Reads the program's signals from the descriptor of startup.h and passes them to the engine. The
 * hard part is to ignore a signal that a
 * step sent: SIGTERM to process 1 would end the job. The kernel and processes outside the pid
 * namespace may end the program, and so may processes that do not descend from it. A sender that
 * can be forged (sigqueue, F_SETSIG) counts as a step. If the sender is already gone, its signal
 * counts only if no step has processes. Everyone may ask for a dump, because SIGUSR1 ends nothing.
 */
struct signals;
struct engine;

struct signals *signals_new(struct engine *engine, struct event_base *base, int fd,
                            const struct log *log);
void signals_free(struct signals *self);
