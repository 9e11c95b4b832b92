#ifndef WIRE_JSON_MEMBER_H
#define WIRE_JSON_MEMBER_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/json_text.h"

/*
 * The text of one member's value as it stands in an object's JSON, so that it can be given back
 * byte for byte: an id of more digits than a double has, or of escapes, is echoed as it came.
 */
struct json_member {
  const char *text; /* inside the object's; white space around it is not part of it */
  size_t length;
};

/*
 * Finds the member of the outermost object that has this name, which may be written with escapes.
 * Of several it is the first, as for cJSON. Returns false when there is none, or the text is not an
 * object. Linear, without recursion. The text must have been parsed: in what is no JSON it finds
 * something or nothing, within the text.
 */
bool json_member_find(const char *json, size_t length, const char *name, struct json_member *out);

/* The next element of the array that the text is, which must have been parsed; false when there is
   none any more. */
bool json_element_next(struct json_text *array, struct json_member *out);

#endif
