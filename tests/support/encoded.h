#pragma once

#include <stddef.h>

/* Returns the bytes as base64, to be freed. This implementation is independent of the program's, so
   that a test does not check the program against itself. */
char *encoded(const void *bytes, size_t length);
