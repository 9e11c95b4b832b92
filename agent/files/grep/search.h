#ifndef AGENT_FILES_GREP_SEARCH_H
#define AGENT_FILES_GREP_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Searches the files below a root for lines that a pattern matches (agent/files/pattern.h).
 *
 *   struct search search = {.path = "src", .pattern = "\\bTODO\\b", .head_limit = 1000};
 *   if (search_run(&search, &content, &result, &error) == 0)
 *     … content is a JSON array (agent/files/match_list.h)
 *
 * Passed over are directories of agent/files/default_excludes.h, binary files (a NUL anywhere),
 * files of more than SEARCH_FILE_MAX bytes, everything that is no regular file, and below the root
 * what cannot be read or has vanished. Hidden files are searched. Below the root no symbolic link
 * is followed; the root may be one. A root that does not exist has no matches; one that is no
 * regular file and no directory is refused.
 *
 * A line for which it cannot be told in bounded time whether it matches (agent/files/regex.h) makes
 * the search fail, unless it has more than SEARCH_LINE_MAX bytes: such lines say more of the file
 * than of the pattern, and up to SEARCH_PASSED_MAX of them are passed over and counted.
 *
 * Files come in the order of a sorted walk: by the bytes of their names, directory by directory,
 * what is in a directory in its place. Paths are relative to the root; a root that is a file is
 * named by its base name. A UTF-8 byte order mark is not part of the first line.
 *
 * The head limit counts matching lines; for SEARCH_FILES and SEARCH_COUNTS, files, so that a count
 * that is given is always the whole one. Where there would be more, or the array would be longer
 * than MATCH_JSON_BYTES_MAX, the answer is what stands in front of the first match too many, and
 * `is_cut` says so. Lines of context come once, in order, and one that matches is a match.
 *
 * Memory: one file, the answer, what a walk takes (agent/files/walk.h) and what a regular
 * expression takes (agent/files/regex.h).
 */
#define SEARCH_FILE_MAX 1000000
#define SEARCH_LINE_MAX 10000
#define SEARCH_PASSED_MAX 20

enum search_output { SEARCH_CONTENT, SEARCH_FILES, SEARCH_COUNTS };

struct search {
  const char *path;
  const char *pattern;
  const char *glob; /* of the files below that are searched (agent/files/glob.h); NULL: all */
  size_t head_limit;
  size_t context_before; /* lines, for SEARCH_CONTENT */
  size_t context_after;
  enum search_output output;
};

struct search_result {
  size_t matches; /* that are in the answer, as the head limit counts them */
  bool is_cut;
  size_t passed_over;     /* lines */
  char first[96];         /* of them, as `path:number`; a long path is cut */
  size_t missed;          /* directories that could not be looked into */
  const char *unsearched; /* what a root is that is a file and passed over; NULL: none is */
};

/* Adds to the content. -1 for a pattern or a glob that does not compile, for a root that is
   refused or may not be read, and where a search fails for a line; the content is then of no use.
 */
int search_run(const struct search *self, struct buffer *content, struct search_result *result,
               struct error *error);

#endif
