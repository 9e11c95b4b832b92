#pragma once

#include <stddef.h>

/* Encodes any bytes as the content of a JSON string, without its quotes. Escapes what JSON must
   escape, copies well-formed UTF-8, and writes one U+FFFD for each maximal subpart of an ill-formed
   sequence. Get the length first, then write exactly that many bytes into the buffer. */
size_t json_string_length(const char *text, size_t length);

/* Writes json_string_length(text, length) bytes without a NUL and returns their end. */
char *json_string_write(char *out, const char *text, size_t length);

/* Returns how many bytes at the start of the text are ASCII that needs no escape. */
size_t json_string_plain(const char *text, size_t length);
