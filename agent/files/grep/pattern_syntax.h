#ifndef AGENT_FILES_GREP_PATTERN_SYNTAX_H
#define AGENT_FILES_GREP_PATTERN_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * Reads a regular expression as far as its parts can be told apart: escapes, quotes (\Q..\E),
 * classes, groups and comments. Pure.
 *
 * What other engines take and PCRE2 rejects is rewritten; everything else is copied:
 *
 *   \u00e9, \ud83d\ude00   \x{00e9}, \x{1f600}
 *   [\w-.], [[:alpha:]-.]  [\w\-.], [[:alpha:]\-.]: after a class, a hyphen begins no range
 *
 * [\w-[.]] is copied, and rejected: in .NET it subtracts.
 *
 * A pattern is unusual when it has what PCRE2's optimizations and machine code are known or likely to
 * get wrong: verbs, recursion, conditions, or a reference to a group from within a group that
 * captures. With the option x, whose comments are not told apart, any reference makes it unusual.
 */
struct pattern_syntax {
  struct buffer text; /* the rewritten pattern, ends with a NUL; to be released */
  bool is_unusual;
};

void pattern_syntax_read(struct pattern_syntax *self, const char *source);

/* The offset in the source of the part that is at the offset in the rewritten text. */
size_t pattern_syntax_offset(const char *source, size_t offset);

#endif
