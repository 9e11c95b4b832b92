#ifndef AGENT_FILES_GREP_REGEX_H
#define AGENT_FILES_GREP_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Matches a regular expression of PCRE2, or of .NET and JavaScript as far as it can be rewritten.
 * It is compiled to machine code, or interpreted if the kernel does not allow that or if the
 * machine code of PCRE2 10.46 is wrong; results are the same. Pure.
 *
 * Characters are those of Unicode, also in \w, \d, \s, \b and caseless matching; ^ and $ match at
 * the ends of lines, which are separated by "\n"; \C is rejected; group names may repeat. Code for
 * ASCII only is faster. In text that is not UTF-8, invalid bytes match nothing; it is always
 * interpreted, because the machine code of PCRE2 10.46 may read outside such text and crash.
 *
 * Takes REGEX_STACK bytes of stack for machine code, and at most REGEX_HEAP_KIB KiB for
 * backtracking. PCRE2 gives up on a text after REGEX_MILLISECONDS of processor time (a few hundred
 * more if one step runs over a megabyte), or after REGEX_TRIES_MAX backtracks from one offset.
 */
#define REGEX_STACK ((size_t)1024 * 1024)
#define REGEX_HEAP_KIB (64 * 1024)
#define REGEX_TRIES_MAX 10000000
#define REGEX_MILLISECONDS 500

enum regex_text { REGEX_ASCII, REGEX_UTF8, REGEX_BROKEN, REGEX_TEXTS };

struct regex;

/* Returns NULL with the compiler's message and the offset in the error. */
struct regex *regex_new(const char *source, struct error *error);

/* Tell whether every match is known to contain "\n", and a lower bound for its characters. */
bool regex_needs_line_break(const struct regex *self);
size_t regex_min_length(const struct regex *self);

/* The offsets of a match. */
struct regex_span {
  size_t start, end;
};

/* Searches the text. Returns 1 with the first match, 0 if there is none, or -1 with the reason if
   PCRE2 gave up. regex_try gives up much earlier, and without a reason. */
int regex_match(struct regex *self, enum regex_text kind, const char *text, size_t length,
                struct regex_span *span, struct error *error);
int regex_try(struct regex *self, enum regex_text kind, const char *text, size_t length,
              struct regex_span *span);

/* Accepts NULL. */
void regex_free(struct regex *self);

#endif
