#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "bench/bench.h"

/*
 * The figures of one measurement, and their medians and ratios. They are in memory that is shared
 * with the process that measures (samples_add in bench.h).
 */
enum { SAMPLES_ROWS = 8, SAMPLES_FIGURES = 64, SAMPLES_BESIDE = 8, SAMPLES_LABEL_SIZE = 48 };

struct figures {
  double values[SAMPLES_FIGURES];
  size_t count;
};

struct beside {
  char label[SAMPLES_LABEL_SIZE];
  struct figures figures;
};

struct row_samples {
  struct figures sides[SIDES];
  struct figures baseline; /* ours, of the build to compare with */
  struct beside beside[SAMPLES_BESIDE];
  size_t beside_count;
};

struct samples {
  struct row_samples rows[SAMPLES_ROWS];
  bool whole;       /* the measurement was completed */
  bool of_baseline; /* the baseline is being measured; only its side OURS is kept */
};

/* All zeros if there is no figure. */
struct spread {
  double median;
  double min;
  double max;
  size_t count;
};

struct spread figures_spread(const struct figures *self);

/* Of the ratios of ours to the ceiling, round by round. */
struct spread row_ratio(const struct row_samples *self);

/* Of the ratios of ours to the baseline, round by round. */
struct spread row_to_baseline(const struct row_samples *self);

/* Whether ours is worse than the baseline by more than the row allows. */
bool row_is_worse(const struct row_samples *self, const struct row *row);

enum verdict { VERDICT_OK, VERDICT_SHORT, VERDICT_UNKNOWN };

/* Of the row with this number. Unknown if the measurement was not completed. */
enum verdict row_verdict(const struct samples *self, size_t number, const struct row *row);
const char *verdict_name(enum verdict verdict);

struct samples *samples_new(void);
void samples_free(struct samples *self);
