#pragma once

#include <stdint.h>

#include "base/buffer.h"

/* Formats numbers for people and as JSON. Every table and status line uses it. Memory and time have
   at most a few characters, so that columns stay narrow. */
struct figure {
  char text[32];
};

/* Returns "12s", "4m12s", "11m", "3h05m" or "6d23h"; "0s" for a negative number. */
struct figure figure_duration(int64_t seconds);

/* Returns the same, with a decimal below a minute: "12.4s". */
struct figure figure_elapsed(double seconds);

/* Returns "1.2/2.0G", "18M/2.0G", or "18M". Negative bytes are unknown ("-"); a negative limit
   stands for none. */
struct figure figure_memory(double bytes, double limit);

/* Returns "1,204". */
struct figure figure_count(int64_t count);

/* Adds ,"name":12.5 with at most three decimals, or null for a negative number. The comma is left
   out after the { that opens an object. */
void figure_add_json(struct buffer *json, const char *name, double number);

/* Adds ,"name":"text", or null for NULL. */
void figure_add_json_text(struct buffer *json, const char *name, const char *text);
