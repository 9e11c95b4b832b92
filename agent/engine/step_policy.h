#pragma once

#include <stdbool.h>

#include "agent/confinement/confinement.h"
#include "agent/engine/execution_result.h"
#include "agent/kinds/kind.h"
#include "base/log.h"

/*
 * The sandbox policy of one execution: whether the step may run, what its `started` event and its
 * result say about it. The rules themselves are those of confinement.h.
 */
struct step_policy {
  struct confinement_plan plan;
  bool is_refused;
};

/* Plans how the step is confined. `error` is the reason if it is refused. The policy stays at its
   address, and points into the step. */
void step_policy_init(struct step_policy *self, const struct kind_context *context,
                      struct step *step, struct error *error);
void step_policy_release(struct step_policy *self);

/* Logs the parts of a policy that are not enforced, if there are any: of the step's own policy, and
   of any plan. */
void step_policy_log(const struct step_policy *self, const struct log *log,
                     const struct step *step);
void step_policy_log_missing(const struct confinement_plan *plan, const struct log *log,
                             const char *step_id);

/* Finds out what the policy has denied to a step that failed. */
void step_policy_find_denials(struct step_policy *self, const struct kind_context *context,
                              const struct step *step, const struct execution_result *end);

/* Return the report of the `started` event and of the result; NULL: it has none. */
const struct step_fence *step_policy_started(const struct step_policy *self);
const struct step_fence *step_policy_result(const struct step_policy *self);
