#ifndef AGENT_FILES_GREP_LINE_MATCHER_H
#define AGENT_FILES_GREP_LINE_MATCHER_H

#include <stddef.h>

#include "agent/files/grep/memscan.h"
#include "agent/files/grep/regex.h"
#include "base/error.h"

/*
 * Which lines of a text does a regular expression match? Pure.
 *
 *   struct line_matcher *pattern = line_matcher_new("\\bclass\\s+\\w+", &error);
 *   if (pattern == NULL)
 *     … error.text is the compiler's message, with the offset
 *   line_matcher_begin(pattern, text, length);   -- which must stay
 *   for (size_t at = 0; (found = line_matcher_next(pattern, at, &line, &error)) > 0; at =
 * line.next) … text + line.start, line.end - line.start line_matcher_free(pattern);
 *
 * Lines end with "\n", which is not part of them, nor is a "\r" before it. Behind a last "\n" there
 * is no further line. The expression (agent/files/regex.h) is matched against each line by itself:
 * no match is longer than a line, ^ and $ are its ends, so are \A and \z, and lookaround sees
 * nothing of the lines beside it. A text with a NUL is binary and has no lines.
 */
struct matched_line {
  size_t start;
  size_t end;
  size_t next; /* where the next one starts, or the end of the text */
};

struct line_matcher;

/* Takes the expression, and NULL for what regex_new refuses. */
struct line_matcher *line_matcher_new(const char *source, struct error *error);

/* Must be followed by MEMSCAN_SLACK bytes that may be read. */
void line_matcher_begin(struct line_matcher *self, const char *text, size_t length);

/* The first line that matches of those from the start `from` of a line on. 1; 0 when there is none;
   -1 with an error, and `*line` the line for which it cannot be told. */
int line_matcher_next(struct line_matcher *self, size_t from, struct matched_line *line,
                      struct error *error);

/* May be NULL. */
void line_matcher_free(struct line_matcher *self);

/* The line of the text that starts here, which is not the text's end. The same must follow it. */
void matched_line_from(struct matched_line *line, const char *text, size_t length, size_t start);

#endif
