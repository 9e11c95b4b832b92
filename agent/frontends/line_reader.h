#ifndef AGENT_FRONTENDS_LINE_READER_H
#define AGENT_FRONTENDS_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/json.h"

/*
 * Cuts a stream of bytes into lines, for frontends that read one message a line. A line ends with
 * `\n` or `\r\n`, or with the stream. Lines of white space only are skipped, and so is a byte order
 * mark at the start of the stream. Pure.
 *
 *   struct line_reader reader = {.limit = payload_limit()};
 *   line_reader_add(&reader, bytes, length)           as they arrive
 *   while (line_reader_next(&reader, &line))          each line once; stop and go on at any time
 *     ...
 *   line_reader_end(&reader)                          end-of-file; then line_reader_next again
 *   line_reader_release(&reader)
 *
 * Linear: each byte is searched once, and moved less than once on average. It holds the bytes that
 * are not given yet; the memory of a large line is given back with the next call after it. Of a
 * line that is too long only the outline is held.
 */
struct line_reader {
  size_t limit;                /* of a line, in bytes without its ending */
  struct buffer buffer;        /* the rest is line_reader's own */
  size_t given;                /* bytes of the buffer that are over */
  size_t searched;             /* bytes of it that are over, or have no line ending */
  bool begun;                  /* beyond the byte order mark */
  bool skipping;               /* what is left of a line that is too long */
  struct json_outline outline; /* of that line */
  bool ended;
};

/* One line, without its ending. Valid until the next call. */
struct input_line {
  const char *text; /* of one that is too long its outline, which may be empty */
  size_t length;
  bool
      too_long; /* more than the limit; told once, at the end of the line: its id may stand there */
};

/* What the outline of a line has of a request: who sent it, and in which dialect. */
extern const char *const line_reader_members[];

void line_reader_add(struct line_reader *self, const char *bytes, size_t length);
void line_reader_end(struct line_reader *self);

/* False: there is none at present. */
bool line_reader_next(struct line_reader *self, struct input_line *line);

void line_reader_release(struct line_reader *self);

/* Sets the error of a line that is too long. */
void line_reader_error(const struct line_reader *self, struct error *error);

#endif
