#ifndef WIRE_JSON_EXTENT_H
#define WIRE_JSON_EXTENT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Finds where the first JSON value of a stream ends, as its bytes arrive: an object or an array
 * ends with its last bracket, a string with its last quote, null, true and false with their last
 * letter, a number with its line. What can begin no value ends at once: there is nothing to wait
 * for. Does not say whether it is JSON: brackets of either kind are counted alike. A byte order mark
 * in front is part of the value. Linear: each byte is looked at once.
 *
 *   struct json_extent extent = {0};
 *   while (!json_extent_take(&extent, bytes, length, &taken))   as they arrive
 *     keep all of them
 *   keep the first `taken` of them
 */
struct json_extent {
  size_t depth;
  unsigned letters; /* that are left of null, true or false */
  bool begun;
  bool number;
  bool in_string;
  bool escaped;
};

/* True when the value ends within these bytes, after `taken` of them. To be called no more then. */
bool json_extent_take(struct json_extent *self, const char *bytes, size_t length, size_t *taken);

#endif
