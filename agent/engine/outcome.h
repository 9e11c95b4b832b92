#ifndef AGENT_ENGINE_OUTCOME_H
#define AGENT_ENGINE_OUTCOME_H

#include "agent/engine/capture.h"
#include "agent/process/process.h"
#include "base/error.h"
#include "wire/step.h"
#include "wire/step_result.h"

/*
 * Fills in the result of a step from how its process ended: the table of results in
 * wire/PROTOCOL.md, all fields but `event_count`. `outcome` is NULL when the step had no process.
 * `reason` holds why it was not started or was stopped; it is overwritten where the outcome itself
 * is the reason. The texts of the result are borrowed from the step, the capture and the reason,
 * which must outlive it.
 */
void outcome_result(struct step_result *result, const struct step *step,
                    const struct process_outcome *outcome, const struct capture *capture,
                    struct error *reason);

#endif
