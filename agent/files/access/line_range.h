#ifndef AGENT_FILES_ACCESS_LINE_RANGE_H
#define AGENT_FILES_ACCESS_LINE_RANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Cuts a range of lines out of a text file, for readFile. Pure.
 *
 * Without a wish the text is given as it is, byte for byte. Otherwise it is split at each `\n`: what
 * follows the last one is a line, empty or not, and an empty file has one line. The chosen lines are
 * joined by `\n`, so that none follows the last one. A `\r` is text.
 */
struct line_range {
  unsigned start_line; /* from 1; 0: the first */
  unsigned line_count; /* 0: all that follow */
  bool numbered;       /* each line begins with its number and a tab */
};

/* Whether the content is text: all of it is UTF-8; NUL is. Returns 0, or -1 with the error. */
int line_range_check(const char *content, size_t length, struct error *error);

/* Adds the lines to `to`; fewer where the file ends earlier. Numbers are right-aligned to the width
   of the file's last one, so that ranges of one file line up. A UTF-8 byte order mark is omitted.
   The whole content is rejected when it is not text. `to` grows by at most 8 bytes a line more than
   the content; after an error it is unchanged. */
int line_range_cut(const struct line_range *self, const char *content, size_t length,
                   struct buffer *to, struct error *error);

#endif
