#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Searches a file, or the files below a directory (search_scope.h), for lines that match a pattern
 * (line_matcher.h). The answer is the JSON array of PROTOCOL.md, grep, or lines for a model:
 *
 *   src/a.c:12:int main     a match; for a line of context src/a.c-12-int main
 *   src/a.c                 SEARCH_FILES
 *   src/a.c:3               SEARCH_COUNTS
 *
 * The text of a line in JSON is its first SEARCH_LINE_SHOWN characters. In lines, it is the part of
 * this length that contains the first match; a NUL ends the text, and one in front of the match
 * begins it.
 *
 * If a line cannot be matched in bounded time (line_matcher.h), the search fails. If the line has
 * more than SEARCH_LINE_MAX bytes, the file rather than the pattern is to blame, and up to
 * SEARCH_SKIPPED_MAX such lines are skipped and counted.
 *
 * A root that is a file of more than SEARCH_FILE_MAX bytes is mapped, or copied if it is UTF-16 or
 * a file of /proc, which has no size, up to SEARCH_COPY_MAX bytes. If a mapped file becomes
 * shorter, the process ends with exit code 1 and a line on standard error, so search in a child.
 */
#define SEARCH_FILE_MAX 1000000
#define SEARCH_COPY_MAX ((size_t)64 * 1024 * 1024)
#define SEARCH_LINE_MAX 10000
#define SEARCH_SKIPPED_MAX 20
#define SEARCH_LINE_SHOWN 240
#define SEARCH_ANSWER_MAX ((size_t)16 * 1024 * 1024) /* the longest value of Redis has 512 MiB */

enum search_output { SEARCH_CONTENT, SEARCH_FILES, SEARCH_COUNTS };

struct search {
  const char *path, *pattern;
  const char *glob;       /* with a leading "!" or not; NULL for all */
  const char *repository; /* a full path; NULL if it is not known */
  bool respects_ignores;
  const char *home, *config; /* HOME and XDG_CONFIG_HOME, for git's global ignore file; or NULL */
  unsigned head_limit;
  unsigned context_before, context_after; /* lines, for SEARCH_CONTENT */
  bool prefix_paths;
  unsigned output; /* enum search_output */
  bool as_lines;   /* instead of JSON */
};

/* Something that was not searched. */
struct search_gap {
  size_t count;
  struct error first; /* the path of the first one, as in the answer unless it is a full path */
};

struct search_result {
  size_t matches; /* in the answer, counted like the head limit */
  bool is_cut;
  struct search_gap skipped; /* lines; the first one as `path:number` */
  size_t unread_directories, unread_files;
  struct error first_unread; /* the full path of the first one */
  size_t hidden_directories, hidden_files;
  size_t files;                     /* that the glob chooses and nothing hides */
  struct search_gap excluded;       /* directories below which the glob may match */
  struct search_gap large;          /* files of more than SEARCH_FILE_MAX bytes */
  struct search_gap binary;         /* files; complete only if nothing was found */
  struct search_gap returns;        /* likewise: files that match with the "\r" of an ending */
  struct search_gap links;          /* symbolic links, which are not followed */
  struct search_gap unused_ignores; /* ignore files that could not be used; a full path */
};

/* Adds to the content. Returns -1 for a pattern or a glob that does not compile, for a root that
   cannot be read, and if a line makes the search fail; the content is then incomplete. Returns 0
   even if nothing was found because something was not searched; see the result. */
int search_run(const struct search *self, struct buffer *content, struct search_result *result,
               struct error *error);
