#ifndef CLIENT_SCREEN_FIGURE_H
#define CLIENT_SCREEN_FIGURE_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "base/buffer.h"

/* Numbers as people read them, and as JSON has them. */
struct figure {
  char text[32];
};

/* 12s, 4m12s, 11m, 3h05m, 6d23h; below zero: 0s */
struct figure figure_duration(int64_t seconds);

/* "1.2/2.0G", "18M/2.0G"; without a limit "18M". Below zero: not known, "-" for the bytes. */
struct figure figure_memory(double bytes, double limit);

/* 1,204 */
struct figure figure_count(int64_t count);

/* A number of an object; -1: it has none of that name. */
double figure_of(const cJSON *object, const char *name);

/* ,"name":12.5 with at most three decimals; null where it is below zero. */
void figure_add_json(struct buffer *json, const char *name, double number);

/* ,"name":"text"; null for NULL. The comma is left out behind what opens an object. */
void figure_add_json_text(struct buffer *json, const char *name, const char *text);

#endif
