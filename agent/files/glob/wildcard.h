#ifndef AGENT_FILES_GLOB_WILDCARD_H
#define AGENT_FILES_GLOB_WILDCARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Matches a path against a glob without braces, as it is written: agent/files/glob/glob.h says what
 * it means. Its brackets and escapes are whole (glob_text_check). Pure.
 *
 * The glob is read anew for each path. That costs less than to compile it: most names differ from it
 * in their first byte.
 *
 * Time is at most in proportion to the length of the glob times that of the path.
 */

/* 0, or -1 with an error for a range in brackets that runs backwards (z-a). */
int wildcard_check(const char *glob, size_t length, struct error *error);

/* The whole path, whose components are not empty. */
bool wildcard_matches(const char *glob, size_t glob_length, const char *path, size_t length);

/* The same for a glob and a path of one component each. */
bool wildcard_matches_name(const char *glob, size_t glob_length, const char *name, size_t length);

/* The last byte of every path that the glob matches, or -1 where they differ. The glob is not empty.
 */
int wildcard_last_byte(const char *glob, size_t length);

#endif
