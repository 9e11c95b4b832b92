#ifndef WIRE_JSON_GUARD_H
#define WIRE_JSON_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Stands before cJSON where the text may be hostile. cJSON decides whether the text is JSON; the
 * guard refuses what cJSON would let through or could not bear: bytes that are not UTF-8, raw
 * control characters, numbers and \u escapes that only look like ones, deep nesting, and a number
 * of values whose nodes would take more memory than a step may. One pass in linear time, no
 * recursion, no memory.
 *
 *   if (json_guard_scan(&guard, text, length, "stepId", &error) == 0)
 *     text = guard.has_nul ? json_guard_mark_nul(text, length, &length) : text;
 *     -- and then cJSON_ParseWithLengthOpts
 */

/* How deep brackets may nest; the default of System.Text.Json, which servers write steps with. */
#define JSON_GUARD_DEPTH_MAX 64

/* How many values there may be, containers included. Linux refuses to exec with more than 6 MiB of
   arguments and environment (three quarters of _STK_LIM), and the smallest string takes 9 bytes of
   it, so that nothing that can run comes near. cJSON takes some 80 bytes for a value. */
#define JSON_GUARD_VALUES_MAX 1000000

struct json_guard {
  bool has_nul;         /* a string has an escaped NUL */
  const char *member;   /* the member's text, with its quotes, inside the text; or NULL */
  size_t member_length; /* with the quotes */
};

/*
 * Scans all of the text, also behind an error, and finds the first member of the outermost object
 * that has this name (written without escapes) and a string for a value that has no error in it:
 * best effort, good for text that is broken before or behind it. Returns 0, or -1 with the first
 * error; `self` is valid either way.
 */
int json_guard_scan(struct json_guard *self, const char *text, size_t length, const char *member,
                    struct error *error);

/*
 * cJSON's strings end at the first NUL. This copy of the text, which is no longer than the text and
 * released with free(), has JSON_GUARD_NUL, raw, in place of each escaped NUL: an overlong form
 * that is never UTF-8, so that in a string out of text that was scanned it is a NUL and nothing
 * else. A reader refuses the string, or puts the NUL back and keeps the length.
 */
#define JSON_GUARD_NUL "\xC0\x80"

char *json_guard_mark_nul(const char *text, size_t length, size_t *copy_length);

/* Puts the NULs back into such a string, in place; its length, without the NUL behind it. */
size_t json_guard_unmark_nul(char *text);

/* The offset in the text that this offset in its copy stands for. */
size_t json_guard_text_offset(const char *copy, size_t offset);

#endif
