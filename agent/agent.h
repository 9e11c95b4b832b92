#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/exit_code.h"
#include "agent/options.h"
#include "agent/startup.h"
#include "base/log.h"

/*
 * The agent's life, from the first connection attempt to its end: takes a step, runs it, reports,
 * takes the next. Returns the exit code (exit_code.h), which was logged with its reason.
 */
int agent_run(const struct options *options, const struct startup *self, const struct log *log);

#endif
