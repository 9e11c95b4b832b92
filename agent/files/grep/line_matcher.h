#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/grep/memscan.h"
#include "base/error.h"

/*
 * Finds the lines of a text that a regular expression (pattern.h) matches. search.c calls it. The
 * hard part is an expression that takes forever, or that PCRE2 gets wrong. Pure.
 *
 * A line ends before its "\n" or "\r\n", and no line follows the last "\n". The expression is
 * matched against each line alone: no match is longer than a line, ^ and $, as well as \A and \z,
 * are its ends, and lookaround does not see other lines. A text with a NUL is binary and has no
 * lines, unless the caller says that it is text; a NUL is then a character.
 *
 * Characters are those of Unicode, also in \w, \d, \s, \b and caseless matching; \C is rejected;
 * group names may repeat. In a line that is not UTF-8, invalid bytes match nothing. Lines are
 * matched by machine code, or interpreted if the kernel does not allow that or if the machine code
 * of PCRE2 10.46 is wrong; results are the same. In lines that are not UTF-8, that machine code may
 * read outside the line and crash.
 *
 * Takes LINE_MATCHER_STACK bytes of stack for machine code, and at most LINE_MATCHER_HEAP_KIB KiB
 * for backtracking. PCRE2 gives up on a line after LINE_MATCHER_MILLISECONDS of processor time (a
 * few hundred more if one step runs over a megabyte), or after LINE_MATCHER_TRIES_MAX backtracks
 * from one offset.
 */
#define LINE_MATCHER_STACK ((size_t)1024 * 1024)
#define LINE_MATCHER_HEAP_KIB (64 * 1024)
#define LINE_MATCHER_TRIES_MAX 10000000
#define LINE_MATCHER_MILLISECONDS 500

struct matched_line {
  size_t start, end;
  size_t next;                   /* where the next line starts, or the end of the text */
  size_t match_start, match_end; /* relative to `start`, from line_matcher_next */
};

struct line_matcher;

/* Returns NULL with the compiler's message and the offset in the error, or with
   LINE_MATCHER_LINE_BREAK for an expression that no line can match because it needs a line
   break. */
#define LINE_MATCHER_LINE_BREAK                                                                    \
  "pattern: it contains a line break and can never match, because each line is matched by "        \
  "itself; "                                                                                       \
  "search for one of the lines and show lines of context"
struct line_matcher *line_matcher_new(const char *source, struct error *error);

/* Starts with another text, which belongs to the caller and is followed by MEMSCAN_SLACK readable
   bytes. With `is_text`, it is text even if it has a NUL. */
void line_matcher_begin(struct line_matcher *self, const char *text, size_t length, bool is_text);

/* Finds the first line that matches, from offset `from` on, where a line must start. Returns 1, 0
   if there is none, or -1 with an error if `*line` cannot be matched in bounded time. */
int line_matcher_next(struct line_matcher *self, size_t from, struct matched_line *line,
                      struct error *error);

/* Whether a line matches if it includes the "\r" of its "\r\n". line_matcher_next has found no
   other match in the text. */
bool line_matcher_misses_return(struct line_matcher *self);

/* Accepts NULL. */
void line_matcher_free(struct line_matcher *self);

/* Sets `*line` to the line that starts at `start`, which is less than `length`. */
void matched_line_from(struct matched_line *line, const char *text, size_t length, size_t start);
