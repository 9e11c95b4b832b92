#ifndef AGENT_FILES_GREP_FILE_SEARCH_H
#define AGENT_FILES_GREP_FILE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/grep/line_matcher.h"
#include "agent/files/grep/match_list.h"
#include "agent/files/grep/search.h"

/*
 * The part of a search (agent/files/grep/search.h) that does no I/O: adds what matches in the text
 * of each file to the answer. Pure.
 *
 *   file_search_init(&search, what, pattern, &content);
 *   while (!search.result.is_cut)
 *     … file_search_run(&search, path, path_length, text, length, false, &error), for each file
 *   file_search_finish(&search, &result);
 */
struct file_search {
  const struct search *search;
  struct line_matcher *pattern; /* the caller's */
  struct match_list list;
  /* So far. When it is cut, no further file is searched. What could not be read is counted by the
     caller. */
  struct search_result result;
};

void file_search_init(struct file_search *self, const struct search *what,
                      struct line_matcher *pattern, struct buffer *content);

/* The text is followed by MEMSCAN_SLACK readable bytes; `is_text`: it is searched though it has a
   NUL. -1 with an error when a line cannot be matched in bounded time and may not be skipped. */
int file_search_run(struct file_search *self, const char *path, size_t path_length,
                    const char *text, size_t length, bool is_text, struct error *error);

/* Ends the array; always called, after an error too. */
void file_search_finish(struct file_search *self, struct search_result *result);

#endif
