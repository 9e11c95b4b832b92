#ifndef AGENT_FILES_TEXT_SLICE_H
#define AGENT_FILES_TEXT_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/error.h"

/*
 * Some lines of a text file, as readFile answers with. Pure.
 *
 *   text_slice_cut(&slice, content, length, start_line, line_count, &error)
 *   … slice.text, or text_slice_number(&slice, &length) …
 *
 * A line ends with its `\n`, which belongs to it; a `\r` before it is text. Bytes after the last
 * `\n` are a line too; where there are none, the file has no further line, and an empty file has
 * none at all: the numbers are those of editors, compilers and grep. Slices that follow each other
 * therefore make up the file, byte for byte, and nothing is added at its end.
 */
struct text_slice {
  const char *text; /* within the content, which must stay */
  size_t length;
  size_t first_line; /* number of its first line, from 1 */
  size_t last_line;  /* of the file, 0 when it is empty */
};

/*
 * Cuts `line_count` lines from line `start_line` on, fewer where the file ends before; none, at
 * its end, when it starts behind the last line. Values below 1 stand for no wish, the first line
 * and all that follow: senders in languages without an absent number send 0, and no use was found
 * for no lines. A UTF-8 byte order mark is left out. Refuses all of the content when any of it is
 * not UTF-8; NUL is UTF-8.
 */
int text_slice_cut(struct text_slice *self, const char *content, size_t length, int64_t start_line,
                   int64_t line_count, struct error *error);

/* The slice with its number and a tab before each line. Numbers are right-aligned to the width of
   the file's last one, so that slices of one file line up. The caller frees what is returned. */
char *text_slice_number(const struct text_slice *self, size_t *length);

/* Whether it begins with a UTF-8 byte order mark, which is TEXT_SLICE_MARK_LENGTH bytes long. */
bool text_slice_is_marked(const char *content, size_t length);

#define TEXT_SLICE_MARK "\xEF\xBB\xBF"
#define TEXT_SLICE_MARK_LENGTH 3

#endif
