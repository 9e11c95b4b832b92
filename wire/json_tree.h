#ifndef WIRE_JSON_TREE_H
#define WIRE_JSON_TREE_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Text as a tree of cJSON: one value and nothing after it. cJSON decides whether hostile text is
 * JSON; before that json_text_check refuses what cJSON would accept wrongly or at too high a cost.
 * Names may be there twice: see step_field_names_unique.
 *
 * Returns the tree, for cJSON_Delete, or NULL with the error, which names no subject.
 */
cJSON *json_tree_parse(const char *text, size_t length, struct error *error);

/* The same; says how many values there are, containers included, when they are a tree. */
cJSON *json_tree_parse_counted(const char *text, size_t length, size_t *values,
                               struct error *error);

/* Text that this program wrote, and what comes after the value, whose end is `*end` if that is not
   NULL. NULL when it is none; without the memory for it the program ends. */
cJSON *json_tree_parse_own(const char *text, size_t length, const char **end);

/*
 * cJSON's strings end at the first NUL. In those of the tree this stands for each: an overlong form
 * that is never UTF-8, and so for a NUL and nothing else. A reader rejects the string, or puts the
 * NULs back and keeps the length.
 */
#define JSON_TREE_NUL "\xC0\x80"

/* Puts them back, in place; returns the length of the string, without the last NUL. */
size_t json_tree_unmark_nul(char *text);

#endif
