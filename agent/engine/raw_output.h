#ifndef AGENT_ENGINE_RAW_OUTPUT_H
#define AGENT_ENGINE_RAW_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/run_end.h"

/*
 * Keeps of a command's output what a run_end shows: the beginning of each stream, apart and as it
 * came, but without NUL; and its last line, for progress. Its memory is bounded whatever the command
 * prints.
 *
 *   space = raw_output_space(raw)
 *   n = read(fd, space, RAW_OUTPUT_READ)
 *   raw_output_filled(raw, is_stderr, n)
 */
struct raw_output;

#define RAW_OUTPUT_READ ((size_t)64 * 1024)

/* `limit`: the bytes that are kept of each stream. Aborts when out of memory. */
struct raw_output *raw_output_new(size_t limit);
void raw_output_free(struct raw_output *self);

char *raw_output_space(struct raw_output *self);
void raw_output_filled(struct raw_output *self, bool is_stderr, size_t length);

/* Valid until more is filled in. */
struct run_stream raw_output_stream(const struct raw_output *self, bool is_stderr);

/* See run_output_total and run_last_line. */
uint64_t raw_output_total(const struct raw_output *self);
size_t raw_output_last_line(const struct raw_output *self, char *out, size_t size);

#endif
