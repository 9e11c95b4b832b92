#ifndef AGENT_STEP_KINDS_RUN_H
#define AGENT_STEP_KINDS_RUN_H

#include "agent/step/step_run.h"

/*
 * Starts the command of a `run` step: its arguments as they are, its environment over the agent's
 * own, its working directory. As process_start otherwise.
 */
struct process *run_start(const struct step_run_context *context, const struct step *step,
                          const char *tag, const struct process_handler *handler, void *owner,
                          struct error *error);

#endif
