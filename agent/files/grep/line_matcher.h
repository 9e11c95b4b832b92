#ifndef AGENT_FILES_GREP_LINE_MATCHER_H
#define AGENT_FILES_GREP_LINE_MATCHER_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/grep/memscan.h"
#include "agent/files/grep/regex.h"
#include "base/error.h"

/*
 * Finds the lines of a text that a regular expression matches. Pure.
 *
 *   struct line_matcher *pattern = line_matcher_new("\\bclass\\s+\\w+", &error);
 *   if (pattern == NULL)
 *     … error.text is the compiler's message, with the offset
 *   line_matcher_begin(pattern, text, length, false);   -- which must stay
 *   for (size_t at = 0; line_matcher_next(pattern, at, &line, &error) > 0; at = line.next)
 *     … text + line.start, line.end - line.start
 *   line_matcher_free(pattern);
 *
 * Lines end with "\n", which is not part of them, nor is a "\r" before it. After a last "\n" there
 * is no further line. The expression (agent/files/grep/regex.h) is matched against each line by
 * itself: no match is longer than a line, ^ and $ are its ends, so are \A and \z, and lookaround
 * sees nothing of other lines. A text with a NUL is binary and has no lines, unless it is said to
 * be text all the same: a NUL is then a character.
 */
struct matched_line {
  size_t start, end;
  size_t next; /* where the next one starts, or the end of the text */
  struct regex_span
      match; /* the first one, from `start`; of a line that line_matcher_next has found */
};

struct line_matcher;

/* NULL, with an error, for an expression that regex_new rejects, and with LINE_MATCHER_LINE_BREAK
   for one that no line can match because it needs a line break. */
#define LINE_MATCHER_LINE_BREAK                                                                    \
  "pattern: it contains a line break and can never match, because each line is matched by "        \
  "itself; "                                                                                       \
  "search for one of the lines and show lines of context"
struct line_matcher *line_matcher_new(const char *source, struct error *error);

/* The text stays the caller's and is followed by MEMSCAN_SLACK readable bytes. `is_text`: with a
   NUL, too. */
void line_matcher_begin(struct line_matcher *self, const char *text, size_t length, bool is_text);

/* Finds the first line that matches, from offset `from` on, at which a line starts. 1; 0 when there
   is none; -1 with an error when a line, `*line`, cannot be matched in bounded time. */
int line_matcher_next(struct line_matcher *self, size_t from, struct matched_line *line,
                      struct error *error);

/* May be NULL. */
void line_matcher_free(struct line_matcher *self);

/* Sets `*line` to the line that starts at `start`, which is less than `length`. The text is
   followed by MEMSCAN_SLACK readable bytes. */
void matched_line_from(struct matched_line *line, const char *text, size_t length, size_t start);

#endif
