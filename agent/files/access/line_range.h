#ifndef AGENT_FILES_ACCESS_LINE_RANGE_H
#define AGENT_FILES_ACCESS_LINE_RANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Some lines of a text file, as readFile answers with. Pure.
 *
 * A line ends with its `\n`, which belongs to it; a `\r` before it is text. Bytes after the last
 * `\n` are a line too; where there are none, the file has no further line, and an empty file has
 * none at all: the numbers are those of editors, compilers and grep. Slices that follow each other
 * therefore make up the file, byte for byte, and nothing is added at its end.
 */
struct line_range {
  unsigned start_line; /* from 1; 0: the first */
  unsigned line_count; /* 0: all that follow */
  bool numbered;       /* its number and a tab before each line */
};

/*
 * Adds the lines to `to`; fewer where the file ends before, none when it ends before the first.
 * Numbers are right-aligned to the width of the file's last one, so that slices of one file line
 * up. A UTF-8 byte order mark is left out. Refuses all of the content when any of it is not UTF-8;
 * NUL is UTF-8. `to` has at most 8 bytes a line more than the content, and is not written to after
 * an error.
 */
int line_range_cut(const struct line_range *self, const char *content, size_t length,
                   struct buffer *to, struct error *error);

/* Whether it begins with a UTF-8 byte order mark, which is LINE_RANGE_MARK_LENGTH bytes long. */
bool line_range_is_marked(const char *content, size_t length);

#define LINE_RANGE_MARK "\xEF\xBB\xBF"
#define LINE_RANGE_MARK_LENGTH 3

#endif
