#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "bench/samples.h"

/* A measurement with its figures. */
struct outcome {
  const struct measurement *measurement;
  struct samples *samples;
};

/* For people: one line per row, then what the ceilings are and what stands beside. */
void table_print(FILE *out, const struct outcome *outcomes, size_t count);

/* For programs: everything, each round's figures too. Text that belongs to the caller. */
char *table_json(const struct outcome *outcomes, size_t count, double seconds);

#endif
