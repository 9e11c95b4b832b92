#pragma once

#include "agent/frontends/http/steps.h"
#include "agent/frontends/step_counts.h"
#include "base/buffer.h"

/* The figures about steps, for health and for the metrics. */

/* Appends the members, each with a comma before it. */
void figures_add_health(const struct steps *steps, struct buffer *json);

/* Appends OpenMetrics text. */
void figures_add_metrics(const struct steps *steps, const struct step_counts *counts,
                         struct buffer *text);
