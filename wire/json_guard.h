#ifndef WIRE_JSON_GUARD_H
#define WIRE_JSON_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Scans hostile text before cJSON parses it. cJSON decides whether the text is JSON; the guard
 * rejects what cJSON would accept wrongly or at too high a cost: bytes that are not UTF-8, raw
 * control characters, malformed numbers and \u escapes, deep nesting, and so many values that their
 * nodes would take more memory than a step may. One pass in linear time, without recursion or
 * allocation.
 *
 *   if (json_guard_scan(&guard, text, length, "stepId", &error) == 0)
 *     text = guard.has_nul ? json_guard_mark_nul(text, length, &length) : text;
 *     -- and then cJSON_ParseWithLengthOpts
 */

/* The deepest nesting of brackets; the default of System.Text.Json, which writes the servers'
 * steps.
 */
#define JSON_GUARD_DEPTH_MAX 64

/* The most values, containers included. cJSON takes some 80 bytes for each, 16 MB for all. Linux
   gives arguments and environment 2 MiB where the stack has its usual limit: so many leave 10 bytes
   to each, of which its pointer takes 8. */
#define JSON_GUARD_VALUES_MAX 200000

struct json_guard {
  bool has_nul;         /* a string has an escaped NUL */
  size_t values;        /* how many there are */
  const char *member;   /* the member's text, with its quotes, inside the text; or NULL */
  size_t member_length; /* with the quotes */
};

/*
 * Scans all of the text, also after an error, and finds the first member of the outermost object
 * that has this name (written without escapes) and a string without an error for a value. That
 * works as well as it can in text that is broken elsewhere. Returns 0, or -1 with the first error;
 * `self` is valid either way.
 */
int json_guard_scan(struct json_guard *self, const char *text, size_t length, const char *member,
                    struct error *error);

/*
 * cJSON's strings end at the first NUL. This returns a copy of the text, to be freed and no longer
 * than the text, that has JSON_GUARD_NUL, raw, in place of each escaped NUL: an overlong form that
 * is never UTF-8, so that in a string of text that passed the scan it stands for a NUL and nothing
 * else. A reader rejects the string, or puts the NUL back and keeps the length.
 */
#define JSON_GUARD_NUL "\xC0\x80"

char *json_guard_mark_nul(const char *text, size_t length, size_t *copy_length);

/* Puts the NULs back into such a string, in place; returns its length, without the last NUL. */
size_t json_guard_unmark_nul(char *text);

/* Converts an offset in the copy to the offset in the text. */
size_t json_guard_text_offset(const char *copy, size_t offset);

#endif
