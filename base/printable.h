#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include "base/buffer.h"

/* Adds a name so that it never looks like another line, or another name: control characters (C1 and
   the separators U+2028 and U+2029 too) and bytes that are not UTF-8 become U+FFFD. */
void printable_add(struct buffer *out, const char *name, size_t length);

#endif
