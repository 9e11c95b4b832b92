#pragma once

#include <stddef.h>

/* JSON in C without backslashes: quoted("{'line':'it`s'}") is {"line":"it's"}. A ' becomes a ", and
   a ` becomes a '. The text is valid until 32 more were requested. */
const char *quoted(const char *text);

/* Formats a text that is valid as long. */
const char *formatted(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns one of the words, which are separated by one space; NULL after the last. Valid as
   long. */
const char *nth_word(const char *words, size_t n);

/* Like quoted, in place; the bytes may contain NUL. */
void quoted_in_place(char *text);
void quoted_bytes(char *bytes, size_t length);
