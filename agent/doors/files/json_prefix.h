#ifndef AGENT_DOORS_FILES_JSON_PREFIX_H
#define AGENT_DOORS_FILES_JSON_PREFIX_H

#include <stddef.h>

/*
 * Whether a text is a JSON object, or can become one with more bytes: what a reader of a file asks
 * that another program is still writing. One pass, without recursion or allocation. Numbers are not
 * checked: json_guard_scan does that when the text is whole. Pure.
 */
enum json_prefix {
  JSON_PREFIX_WHOLE, /* an object, and nothing but white space after it */
  JSON_PREFIX_SHORT, /* it ends too early; also a text that is empty */
  JSON_PREFIX_BROKEN /* no bytes more can make it one */
};

/* `*at`: the first byte that is wrong, or the length. */
enum json_prefix json_prefix_scan(const char *text, size_t length, size_t *at);

#endif
