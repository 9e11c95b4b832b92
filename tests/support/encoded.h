#pragma once

#include <stddef.h>

/* Returns the bytes as base64, to be freed. An implementation independent of the program's. */
char *encoded(const void *bytes, size_t length);
