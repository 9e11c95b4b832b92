#ifndef AGENT_FILES_GREP_MATCH_JSON_H
#define AGENT_FILES_GREP_MATCH_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * Writes what a search has found as a JSON array. Pure.
 *
 *   match_json_begin(&list, &text);
 *   match_json_file(&list, path, length);     -- the file of the entries that follow
 *     match_json_line(&list, 12, line, length, true), match_json_path(&list) …
 *   match_json_end(&list);                    -- the text is the array
 *
 * An entry is
 *
 *   {"path":"src/a.c","line":12,"text":"int main","kind":"match"}     match_json_line
 *   {"path":"src/a.c"}                                                match_json_path
 *   {"path":"src/a.c","count":3}                                      match_json_count
 *
 * The text of a line is cut after MATCH_JSON_CHARACTERS characters, and "…" replaces the rest.
 * Bytes that are not UTF-8 become U+FFFD.
 */
#define MATCH_JSON_CHARACTERS 240

/* When the array is this long, entries are no longer added and the functions return false. It is
   longer by one entry at most. Chosen to stay far below the longest value of Redis, 512 MiB. */
#define MATCH_JSON_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct match_json {
  struct buffer *out;
  struct buffer path; /* of the current file, as JSON */
  bool is_empty;
};

void match_json_begin(struct match_json *self, struct buffer *out);
void match_json_file(struct match_json *self, const char *path, size_t length);
bool match_json_line(struct match_json *self, size_t number, const char *text, size_t length,
                     bool is_match);
bool match_json_path(struct match_json *self);
bool match_json_count(struct match_json *self, size_t count);
void match_json_end(struct match_json *self);

#endif
