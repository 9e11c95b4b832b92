#ifndef AGENT_FILES_MATCH_LIST_H
#define AGENT_FILES_MATCH_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * What a search has found, as a JSON array. Pure.
 *
 *   match_list_begin(&list, &text);
 *   match_list_file(&list, path, length);     -- the file of what follows
 *     match_list_line(&list, 12, line, length, true), match_list_path(&list) …
 *   match_list_end(&list);                    -- the text is the array
 *
 * An entry is
 *
 *   {"path":"src/a.c","line":12,"text":"int main","kind":"match"}     match_list_line
 *   {"path":"src/a.c"}                                                match_list_path
 *   {"path":"src/a.c","count":3}                                      match_list_count
 *
 * The text of a line is cut behind MATCH_LIST_CHARACTERS of it, and "…" stands for the rest. Bytes
 * that are no UTF-8 come as U+FFFD.
 */
#define MATCH_LIST_CHARACTERS 240

/* An array that is this long takes no more entries: they return false. It is longer than that by
   one entry at most. */
#define MATCH_LIST_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct match_list {
  struct buffer *out;
  struct buffer path; /* as JSON */
  bool is_empty;
};

void match_list_begin(struct match_list *self, struct buffer *out);
void match_list_file(struct match_list *self, const char *path, size_t length);
bool match_list_line(struct match_list *self, size_t number, const char *text, size_t length,
                     bool is_match);
bool match_list_path(struct match_list *self);
bool match_list_count(struct match_list *self, size_t count);
void match_list_end(struct match_list *self);

#endif
