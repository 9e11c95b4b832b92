#ifndef TESTS_SUPPORT_QUOTED_H
#define TESTS_SUPPORT_QUOTED_H

#include <stddef.h>

/*
 * JSON in C without backslashes: quoted("{'line':'it`s'}") is {"line":"it's"}. A ' becomes a ", and
 * a ` becomes a '. Valid until 32 more were asked for.
 */
const char *quoted(const char *text);

/* printf into a text that is valid as long. */
const char *formatted(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One of the words that have one space between them; NULL behind the last. Valid as long. */
const char *nth_word(const char *words, size_t n);

/* As quoted, in place; of bytes that may hold a NUL. */
void quoted_in_place(char *text);
void quoted_bytes(char *bytes, size_t length);

#endif
