#ifndef AGENT_FILES_GREP_SEARCH_H
#define AGENT_FILES_GREP_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Searches the files below a root for lines that a pattern matches
 * (agent/files/grep/line_matcher.h).
 *
 *   struct search search = {.path = "src", .pattern = "\\bTODO\\b", .head_limit = 1000};
 *   if (search_run(&search, &content, &result, &error) == 0)
 *     … content is a JSON array, or lines for a model
 *
 * An entry is
 *
 *   {"path":"src/a.c","line":12,"text":"int main","kind":"match"}     of SEARCH_CONTENT
 *   {"path":"src/a.c"}                                                of SEARCH_FILES
 *   {"path":"src/a.c","count":3}                                      of SEARCH_COUNTS
 *
 * and as a line, without a newline at the end of the last one,
 *
 *   src/a.c:12:int main                                               of context src/a.c-12-int main
 *   src/a.c
 *   src/a.c:3
 *
 * The text of a line is cut after SEARCH_LINE_SHOWN characters, and "…" replaces the rest. In the
 * second form, the text of a match is the part of this length that the first match is in, and "…"
 * also replaces what is in front of it; a NUL ends the text, and one in front of the match counts
 * as its start. Bytes that are not UTF-8 become U+FFFD, in JSON and in the paths of lines, where
 * control characters do, too.
 *
 * Below the root it leaves out
 *
 *   - directories named in walk_default_excludes, and the reference directory
 *     (agent/files/tree/walk.h);
 *   - what the glob does not choose. A glob without "!" chooses the files that it matches, by the path
 *     from the root or by that from the repository, whatever else hides them. A glob with "!" in front
 *     leaves out what its rest matches, by the path from the repository;
 *   - where `respects_ignores` is set, what ignore files hide, and hidden names
 *     (agent/files/ignore/ignore.h): that is counted;
 *   - binary files (a NUL anywhere), files of more than SEARCH_FILE_MAX bytes, and everything that is no
 *     regular file. No symbolic link is followed;
 *   - what cannot be read, which is counted, or has vanished.
 *
 * A directory that a glob without "!" names (globs_reach of agent/files/glob/glob.h) is searched
 * although it is always left out, hidden or ignored. The rule that would have left it out does not
 * apply below it.
 *
 * A root that is a file is searched in any case: whatever its name, its size and its bytes; a NUL
 * is a character. The root may be a symbolic link. One that does not exist, or is neither a regular
 * file nor a directory, is rejected. A file that begins with a byte order mark of UTF-16 is
 * searched as UTF-8 (base/utf8.h).
 *
 * A line that cannot be matched in bounded time (agent/files/grep/regex.h) makes the search fail,
 * unless it has more than SEARCH_LINE_MAX bytes: then the file is to blame rather than the pattern,
 * and up to SEARCH_SKIPPED_MAX such lines are skipped and counted.
 *
 * Files come in the order of a sorted walk: by the bytes of their names, the content of a directory
 * in its place. Paths are relative to the root; a root that is a file is named by its base name.
 * With `prefix_paths` paths begin with the root as it is given, unless that is ".", and a root that
 * is a file is named as it is given. A byte order mark is not part of the first line.
 *
 * The head limit counts matching lines; for SEARCH_FILES and SEARCH_COUNTS files, so that a count
 * is always complete. The answer ends in front of the first match beyond the limit, or where it is
 * SEARCH_ANSWER_MAX long, which it exceeds by one entry at most, and `is_cut` is set. A line of
 * context comes once, in order; a line that matches is a match, not context.
 *
 * Memory: a file of SEARCH_FILE_MAX bytes, half as much again for UTF-16, the answer, a walk
 * (agent/files/tree/walk.h), the ignore files, and a regular expression (agent/files/grep/regex.h).
 * A root that is a larger file is mapped, and takes no memory that the kernel could not take back;
 * where it has to be copied (UTF-16, and files of /proc, which have no size), it has
 * SEARCH_COPY_MAX bytes at most. When it becomes shorter meanwhile, the process ends with exit code
 * 1 and a line on standard error: searches are made in children.
 */
#define SEARCH_FILE_MAX 1000000
#define SEARCH_COPY_MAX ((size_t)64 * 1024 * 1024)
#define SEARCH_LINE_MAX 10000
#define SEARCH_SKIPPED_MAX 20
#define SEARCH_LINE_SHOWN 240
#define SEARCH_ANSWER_MAX                                                                          \
  ((size_t)16 * 1024 * 1024) /* far below the longest value of Redis, 512 MiB */

enum search_output { SEARCH_CONTENT, SEARCH_FILES, SEARCH_COUNTS };

struct search {
  const char *path, *pattern;
  const char *glob;       /* agent/files/glob/glob.h, with "!" in front or not; NULL: all */
  const char *repository; /* a full path; NULL: it is not known */
  bool respects_ignores;
  const char *home; /* HOME and XDG_CONFIG_HOME, for git's global ignore file; may be NULL */
  const char *config;
  size_t head_limit;
  size_t context_before; /* lines, for SEARCH_CONTENT */
  size_t context_after;
  bool prefix_paths;
  enum search_output output;
  bool as_lines; /* and no JSON */
};

/* What was not searched. */
struct search_gap {
  size_t count;
  struct error first; /* the path of the first one, as the answer has paths */
};

struct search_result {
  size_t matches; /* in the answer, counted as the head limit is */
  bool is_cut;
  size_t skipped; /* lines */
  char first[96]; /* the first skipped line, as `path:number`; a long path is cut */
  size_t unread_directories, unread_files;
  struct error first_unread; /* the full path of the first of these */
  size_t hidden_directories; /* that ignore files or their names have hidden */
  size_t hidden_files;
  size_t files; /* that were to be searched: the glob chooses them, nothing hides them */
  struct search_gap
      excluded; /* directories that are always left out, below which the glob may match */
  struct search_gap large;   /* files of more than SEARCH_FILE_MAX bytes */
  struct search_gap binary;  /* files; complete only as long as nothing was found */
  size_t unused_ignores;     /* ignore files that could not be used */
  struct error first_unused; /* the full path of the first of these */
};

/* Adds to the content. -1 for a pattern or a glob that does not compile, for a root that is
   rejected or cannot be read, and where a line makes the search fail; the content is then
   incomplete. 0 also where nothing was found because something was not searched: the caller tells
   the two apart. */
int search_run(const struct search *self, struct buffer *content, struct search_result *result,
               struct error *error);

#endif
