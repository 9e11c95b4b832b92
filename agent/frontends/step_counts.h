#pragma once

#include <stdint.h>

#include "wire/step_report.h"

/* Counts the answers to steps by their outcome, for the heartbeat and for metrics. All zeros at
   first. */
struct step_counts {
  uint64_t ok, failed, timed_out, cancelled;
};

static inline void step_counts_add(struct step_counts *self, const struct step_result *result) {
  const enum step_cause cause = result->end.cause;
  if (cause == STEP_CAUSE_TIMEOUT)
    self->timed_out++;
  else if (cause == STEP_CAUSE_CANCELLED)
    self->cancelled++;
  else if (cause == STEP_CAUSE_EXITED && result->exit_code == 0)
    self->ok++;
  else
    self->failed++;
}
