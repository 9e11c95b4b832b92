#ifndef AGENT_ENGINE_OUTCOME_H
#define AGENT_ENGINE_OUTCOME_H

#include "agent/engine/capture.h"
#include "agent/process/process.h"
#include "base/error.h"
#include "wire/step.h"
#include "wire/step_result.h"

/*
 * What a step's result says of how it ended: the contract's table of results, all but
 * `event_count`. `outcome` is NULL when it had no process. `reason` says why it was not started or
 * was stopped; it is overwritten where the outcome itself is the reason. The texts of the result
 * are those of the step, the transcript and the reason, which must outlive it.
 */
void outcome_result(struct step_result *result, const struct step *step,
                    const struct process_outcome *outcome, const struct capture *capture,
                    struct error *reason);

#endif
