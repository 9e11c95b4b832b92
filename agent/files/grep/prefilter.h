#ifndef AGENT_FILES_GREP_PREFILTER_H
#define AGENT_FILES_GREP_PREFILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/grep/memscan.h"

/*
 * What can be said of a regular expression without running it. Pure. It is read as PCRE2 would read
 * it, without options but those that it sets itself; whatever is not surely understood (recursion,
 * verbs, conditions, back references, comments, …) ends the reading, and nothing is said.
 *
 * `literals`: a line that the pattern matches has one of these in it. None: nothing is known.
 *
 * `is_local`: nothing that stands around a line, be it other lines, hinders a match within it. When
 * it matches the line by itself, then it also matches somewhere in a text that the line is part of,
 * there or before; not the other way around. Nor is it slow there: no part of it would run over any
 * number of lines.
 */
struct prefilter {
  struct byte_literal literals[MEMSCAN_LITERALS_MAX];
  size_t literal_count;
  bool is_local;
};

void prefilter_read(struct prefilter *self, const char *pattern);

#endif
