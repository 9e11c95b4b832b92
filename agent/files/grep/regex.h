#ifndef AGENT_FILES_GREP_REGEX_H
#define AGENT_FILES_GREP_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Matches a regular expression of PCRE2, or of .NET and JavaScript as far as it can be rewritten.
 * It is compiled to machine code where the kernel allows it, and interpreted elsewhere and where
 * the machine code of PCRE2 10.46 is wrong; results are the same. Pure.
 *
 * Characters are those of Unicode, in \w, \d, \s, \b and caseless matching too; ^ and $ match at
 * the ends of lines, which are separated by "\n"; \C is rejected; group names may repeat.
 *
 * Text that is known to be ASCII is matched by code for ASCII only, which is faster and gives the
 * same results. In text that is not UTF-8, invalid bytes match nothing, and the text between them
 * is matched as usual; it is always interpreted, since the machine code of PCRE2 10.46 may step out
 * of such text and crash.
 *
 * Memory: the compiled expression, REGEX_STACK bytes of stack for machine code, and at most
 * REGEX_HEAP_KIB KiB for backtracking.
 *
 * Time: PCRE2 gives up on a text after REGEX_MILLISECONDS of processor time (a few hundred more
 * where one step runs over a megabyte), or after REGEX_TRIES_MAX backtracks from one start offset.
 */
#define REGEX_STACK ((size_t)1024 * 1024)
#define REGEX_HEAP_KIB (64 * 1024)
#define REGEX_TRIES_MAX 10000000
#define REGEX_MILLISECONDS 500

enum regex_text { REGEX_ASCII, REGEX_UTF8, REGEX_BROKEN, REGEX_TEXTS };

struct regex;

/* NULL, with the compiler's message and the offset in the error. */
struct regex *regex_new(const char *source, struct error *error);

/* Whether every match is known to contain "\n": no text without one matches. */
bool regex_needs_line_break(const struct regex *self);

/* A lower bound for the length of a match, in characters. */
size_t regex_min_length(const struct regex *self);

/* Offsets of the first match in a text. */
struct regex_span {
  size_t start, end;
};

/* Searches the text. 1 when it matches, with the span; 0 when it does not; -1 with the reason when
   PCRE2 gave up. */
int regex_match(struct regex *self, enum regex_text kind, const char *text, size_t length,
                struct regex_span *span, struct error *error);

/* Likewise, but gives up much earlier, and says no reason. */
int regex_try(struct regex *self, enum regex_text kind, const char *text, size_t length,
              struct regex_span *span);

/* May be NULL. */
void regex_free(struct regex *self);

#endif
