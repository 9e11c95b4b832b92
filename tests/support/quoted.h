#ifndef TESTS_SUPPORT_QUOTED_H
#define TESTS_SUPPORT_QUOTED_H

#include <stddef.h>

/*
 * JSON in C without backslashes: quoted("{'line':'it`s'}") is {"line":"it's"}. A ' becomes a ", and
 * a ` becomes a '. Valid until 32 more were asked for.
 */
const char *quoted(const char *text);

/* The same in place; of bytes that may hold a NUL. */
void quoted_in_place(char *text);
void quoted_bytes(char *bytes, size_t length);

#endif
