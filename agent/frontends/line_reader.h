#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/json.h"

/*
 * Splits a stream of bytes into lines, for frontends that read a message per line. A line ends with
 * `\n` or `\r\n`, or with the stream. Lines of white space are skipped, and so is a byte order mark
 * at the start of the stream. Pure.
 *
 *   struct line_reader reader = {.limit = payload_limit()};
 *   line_reader_add(&reader, bytes, length)           as they arrive
 *   while (line_reader_next(&reader, &line))          each line once
 *     ...
 *   line_reader_end(&reader)                          end-of-file; then line_reader_next again
 *   line_reader_release(&reader)
 *
 * Each byte is searched once, and moved less than once on average. The reader holds the bytes of
 * lines that were not returned yet, and frees the memory of a large line at the next call. It holds
 * only the outline of a line that is too long.
 */
struct line_reader {
  size_t limit; /* of a line, in bytes without its ending */
  /* The other members are private: */
  struct buffer buffer;
  size_t taken;    /* bytes of the buffer that were returned */
  size_t searched; /* bytes of it that were returned, or have no line ending */
  enum { STREAM_START, IN_LINES, SKIPPING_LINE } state; /* SKIPPING_LINE: it is too long */
  struct json_outline outline;                          /* of that line */
  bool ended;
};

/* A line without its ending. Valid until the next call. */
struct input_line {
  const char *text; /* if it is too long, its outline, which may be empty */
  size_t length;
  bool too_long; /* reported once, at the end of the line, because its id may be there */
};

/* The members of a request that are part of the outline: its id and its dialect. */
extern const char *const line_reader_members[];

void line_reader_add(struct line_reader *self, const char *bytes, size_t length);
void line_reader_end(struct line_reader *self);

/* Returns false if there is no whole line now. */
bool line_reader_next(struct line_reader *self, struct input_line *line);

void line_reader_release(struct line_reader *self);

/* Sets the error for a line that is too long. */
void line_reader_error(const struct line_reader *self, struct error *error);
