#ifndef AGENT_FILES_GREP_REGEX_H
#define AGENT_FILES_GREP_REGEX_H

#include <stddef.h>

#include "base/error.h"

/*
 * A regular expression of PCRE2, compiled to machine code where the kernel allows it and
 * interpreted elsewhere, with the same answers. Knows no files.
 *
 * Characters are those of Unicode, in \w, \d, \s, \b and without regard to case too; ^ and $ are
 * the ends of lines, which are parted by "\n"; \C is refused; groups may have the same name.
 *
 * Text that is known to be ASCII is matched by code that knows nothing else, which is faster and
 * gives the same answers. In text that is no UTF-8, the broken bytes match nothing, and what stands
 * between them is matched as always.
 *
 * Memory: the compiled expression, REGEX_STACK bytes for machine code, and REGEX_HEAP_KIB for
 * backtracking at most.
 *
 * Time: PCRE2 gives a text up when it has taken REGEX_MILLISECONDS of the processor's time, a few
 * hundred more where it runs over a megabyte again and again, or goes back REGEX_TRIES_MAX times
 * from one place.
 */
#define REGEX_STACK ((size_t)1024 * 1024)
#define REGEX_HEAP_KIB (64 * 1024)
#define REGEX_TRIES_MAX 10000000
#define REGEX_MILLISECONDS 500

enum regex_text { REGEX_ASCII, REGEX_UTF8, REGEX_BROKEN, REGEX_TEXTS };

struct regex;

/* NULL, with the compiler's message and the offset in the error. */
struct regex *regex_new(const char *source, struct error *error);

/* No match is shorter than so many characters. */
size_t regex_shortest(const struct regex *self);

/* 1 when it matches anywhere, with `*start` where; 0 when it does not; -1 when it gave up. */
int regex_match(struct regex *self, enum regex_text kind, const char *text, size_t length,
                size_t *start);

/* The same, and gives up much earlier. */
int regex_try(struct regex *self, enum regex_text kind, const char *text, size_t length,
              size_t *start);

/* Says why it gave up last. Returns -1. */
int regex_refusal(const struct regex *self, struct error *error);

/* May be NULL. */
void regex_free(struct regex *self);

#endif
