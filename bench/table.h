#pragma once

#include <stddef.h>
#include <stdio.h>

#include "bench/samples.h"

/* Prints the figures of all measurements as a table for people, or as JSON for a comparison. main.c
   calls it at the end. */

/* A measurement with its figures. */
struct outcome {
  const struct measurement *measurement;
  struct samples *samples;
};

/* Prints one line per row, then what the ceilings are and the figures without a target. */
void table_print(FILE *out, const struct outcome *outcomes, size_t count);

/* Returns everything, including the figures of each round. The caller frees the text. */
char *table_json(const struct outcome *outcomes, size_t count, double seconds);
