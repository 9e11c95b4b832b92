#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/log.h"
#include "agent/options.h"
#include "agent/self.h"

/* What the program exits with. */
#define AGENT_EXIT_SHUTDOWN 0
#define AGENT_EXIT_IDLE 2
#define AGENT_EXIT_ERROR 3
#define AGENT_EXIT_USAGE 64
#define AGENT_EXIT_SIGNAL 128 /* plus the signal's number */

/*
 * The agent's life, from the first connection attempt to its end: takes a step, runs it, reports,
 * takes the next. Returns the exit code, which was logged with its reason.
 */
int agent_run(const struct options *options, const struct self *self, const struct log *log);

#endif
