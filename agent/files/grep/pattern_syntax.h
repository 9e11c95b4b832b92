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
 */
struct pattern_syntax {
  struct buffer text; /* the rewritten pattern, ends with a NUL; to be released */
};

void pattern_syntax_read(struct pattern_syntax *self, const char *source);

/* The offset in the source of the part that is at the offset in the rewritten text. */
size_t pattern_syntax_offset(const char *source, size_t offset);

#endif
