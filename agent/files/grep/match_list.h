#ifndef AGENT_FILES_GREP_MATCH_LIST_H
#define AGENT_FILES_GREP_MATCH_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * Writes what a search has found as a JSON array, or as lines for a model. Pure.
 *
 *   match_list_begin(&list, &text, as_lines);
 *   match_list_file(&list, path, length);     -- the file of the entries that follow
 *     match_list_line(&list, 12, line, length, true), match_list_path(&list) …
 *   match_list_end(&list);                    -- the text is the array, or the lines
 *
 * An entry is
 *
 *   {"path":"src/a.c","line":12,"text":"int main","kind":"match"}     match_list_line
 *   {"path":"src/a.c"}                                                match_list_path
 *   {"path":"src/a.c","count":3}                                      match_list_count
 *
 * and as a line, without a newline at the end of the last one,
 *
 *   src/a.c:12:int main                                               of context src/a.c-12-int main
 *   src/a.c
 *   src/a.c:3
 *
 * The text of a line is cut after MATCH_LIST_CHARACTERS characters, and "…" replaces the rest.
 * Bytes that are not UTF-8 become U+FFFD, in JSON and in the paths of lines, where control characters
 * do, too.
 */
#define MATCH_LIST_CHARACTERS 240

/* When the text is this long, entries are no longer added and the functions return false. It is
   longer by one entry at most. Chosen to stay far below the longest value of Redis, 512 MiB. */
#define MATCH_LIST_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct match_list {
  struct buffer *out;
  struct buffer path; /* of the current file, as it is written */
  bool as_lines, is_empty;
};

void match_list_begin(struct match_list *self, struct buffer *out, bool as_lines);
void match_list_file(struct match_list *self, const char *path, size_t length);
bool match_list_line(struct match_list *self, size_t number, const char *text, size_t length,
                     bool is_match);
bool match_list_path(struct match_list *self);
bool match_list_count(struct match_list *self, size_t count);
void match_list_end(struct match_list *self);

#endif
