#ifndef TESTS_SUPPORT_ENCODED_H
#define TESTS_SUPPORT_ENCODED_H

#include <stddef.h>

/* The bytes as base64, to be freed. Not the program's own code: it is what that is tested with. */
char *encoded(const void *bytes, size_t length);

#endif
