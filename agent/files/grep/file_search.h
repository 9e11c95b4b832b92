#ifndef AGENT_FILES_GREP_FILE_SEARCH_H
#define AGENT_FILES_GREP_FILE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/grep/line_matcher.h"
#include "agent/files/grep/match_json.h"
#include "agent/files/grep/search.h"

/*
 * The part of a search (agent/files/search.h) that needs no files: what of their texts goes into
 * the answer. Pure.
 *
 *   file_search_init(&search, asked, pattern, &content);
 *   while (!search.result.is_cut)
 *     … file_search_run(&search, path, path_length, text, length, &error), for each file
 *   file_search_finish(&search, &result);
 */
struct file_search {
  const struct search *asked;
  struct line_matcher *pattern; /* the caller's */
  struct match_json list;
  /* So far. When it is cut, there is no more to be found; `missed` is for who finds the files. */
  struct search_result result;
};

void file_search_init(struct file_search *self, const struct search *asked,
                      struct line_matcher *pattern, struct buffer *content);

/* Behind the text there must be MEMSCAN_SLACK bytes that may be read. -1 with an error when it
   cannot be told whether a line matches that may not be passed over. */
int file_search_run(struct file_search *self, const char *path, size_t path_length,
                    const char *text, size_t length, struct error *error);

/* Always; ends the array. */
void file_search_finish(struct file_search *self, struct search_result *result);

#endif
