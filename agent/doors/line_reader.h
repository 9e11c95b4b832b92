#ifndef AGENT_DOORS_LINE_READER_H
#define AGENT_DOORS_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Cuts a stream of bytes into lines, for doors that read one message a line. A line ends with `\n`
 * or `\r\n`, or with the stream. Lines of white space only are skipped, and so is a byte order mark
 * at the start of the stream. Pure.
 *
 *   struct line_reader reader = {.limit = payload_limit()};
 *   line_reader_add(&reader, bytes, length)           as they arrive
 *   while (line_reader_next(&reader, &line))          each line once; stop and go on at any time
 *     ...
 *   line_reader_end(&reader)                          end-of-file; then line_reader_next again
 *   line_reader_release(&reader)
 *
 * Linear: each byte is searched once, and moved less than once on average. It holds the bytes that
 * are not given yet; the memory of a large line is given back with the next call after it.
 */
struct line_reader {
  size_t limit;         /* of a line, in bytes without its ending */
  struct buffer buffer; /* the rest is line_reader's own */
  size_t given;         /* bytes of the buffer that are over */
  size_t searched;      /* bytes of it that are over, or have no line ending */
  bool begun;           /* beyond the byte order mark */
  bool skipping;        /* what is left of a line that was too long */
  bool ended;
};

/* One line, without its ending. Valid until the next call. */
struct input_line {
  const char *text; /* NULL when it is too long */
  size_t length;
  bool too_long; /* more than the limit; once for the line, and as soon as that is known */
};

void line_reader_add(struct line_reader *self, const char *bytes, size_t length);
void line_reader_end(struct line_reader *self);

/* False: there is none at present. */
bool line_reader_next(struct line_reader *self, struct input_line *line);

void line_reader_release(struct line_reader *self);

/* Sets the error of a line that is too long. */
void line_reader_error(const struct line_reader *self, struct error *error);

#endif
