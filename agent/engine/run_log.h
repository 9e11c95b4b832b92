#ifndef AGENT_ENGINE_RUN_LOG_H
#define AGENT_ENGINE_RUN_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/engine/run.h"
#include "base/error.h"
#include "base/log.h"

/* Logs the end of a step: one line, and one more for each kind of process that it left behind.
   `quiet`: at debug level. The door logs for itself then, and a command may hold secrets. */
void run_log_done(const struct log *log, const struct step *step, const struct run_end *end,
                  bool quiet);

/* Logs that a payload was refused, and its beginning; never a value of its `env`. */
void run_log_refused(const struct log *log, const char *step_id, const struct error *error,
                     const char *payload, size_t length);

#endif
