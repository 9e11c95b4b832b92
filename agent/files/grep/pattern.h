#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/grep/memscan.h"
#include "base/buffer.h"

/*
 * Reads a regular expression for PCRE2: rewrites what other engines accept and PCRE2 rejects, and
 * finds out what each match contains. Pure.
 *
 *   \u00e9, \ud83d\ude00   become \x{00e9}, \x{1f600}
 *   [\w-.], [[:alpha:]-.]  become [\w\-.], [[:alpha:]\-.]: behind a class, a hyphen is literal
 *
 * A pattern is unusual if PCRE2's optimizations and machine code are known or likely to get it
 * wrong: if it has verbs, recursion, conditions, a reference to a group from within a capturing
 * group, or the option x.
 */
struct pattern {
  const char *source;       /* the caller's */
  struct buffer text;       /* the rewritten source, with a NUL */
  struct literals literals; /* every match contains one of these, unless there are none */
  bool needs_break;         /* every match contains "\n"; false if that is not certain */
  bool is_unusual;
};

/* Reads any text, which need not be a valid expression. */
void pattern_read(struct pattern *self, const char *source);

/* Returns the offset in the source that an offset in the rewritten text stands for. */
size_t pattern_source_offset(const struct pattern *self, size_t offset);

void pattern_release(struct pattern *self);
