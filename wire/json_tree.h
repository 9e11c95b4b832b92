#ifndef WIRE_JSON_TREE_H
#define WIRE_JSON_TREE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "wire/json_text.h"

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

/* cJSON's strings end at the first NUL. In those of the tree this stands for each: an overlong form
   that is never UTF-8, and so for a NUL and nothing else. A reader rejects the string, or puts the
   NULs back and keeps the length. */
#define JSON_TREE_NUL "\xC0\x80"

/* Puts them back, in place; returns the length of the string, without the last NUL. */
size_t json_tree_unmark_nul(char *text);

/* The text of one member's value as it stands in an object's JSON, so that it can be given back
   byte for byte: an id of more digits than a double has, or of escapes, is echoed as it came. */
struct json_member {
  const char *text; /* inside the object's; white space around it is not part of it */
  size_t length;
};

/* Finds the member of the outermost object that has this name, which may be written with escapes.
   Of several it is the first, as for cJSON. Returns false when there is none, or the text is not an
   object. Linear, without recursion. The text must have been parsed: in what is no JSON it finds
   something or nothing, within the text. */
bool json_member_find(const char *json, size_t length, const char *name, struct json_member *out);

/* The next element of the array that the text is, which must have been parsed; false when there is
   none any more. */
bool json_element_next(struct json_text *array, struct json_member *out);

#endif
