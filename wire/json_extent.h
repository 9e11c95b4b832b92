#ifndef WIRE_JSON_EXTENT_H
#define WIRE_JSON_EXTENT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Finds where the first JSON value of a stream ends, as its bytes arrive: an object or an array
 * ends with its last bracket, anything else with its line. Does not say whether it is JSON:
 * brackets of either kind are counted alike. Linear: each byte is looked at once.
 *
 *   struct json_extent extent = {0};
 *   while (!json_extent_take(&extent, bytes, length, &taken))   as they arrive
 *     keep all of them
 *   keep the first `taken` of them
 */
struct json_extent {
  size_t depth;
  bool begun;
  bool scalar;
  bool in_string;
  bool escaped;
};

/* True when the value ends within these bytes, after `taken` of them. To be called no more then. */
bool json_extent_take(struct json_extent *self, const char *bytes, size_t length, size_t *taken);

#endif
