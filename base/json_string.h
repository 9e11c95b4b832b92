#ifndef BASE_JSON_STRING_H
#define BASE_JSON_STRING_H

#include <stddef.h>

/* Encodes any bytes as the inside of a JSON string (the caller writes the quotes): escapes what
   JSON must escape, copies well-formed UTF-8, and writes one U+FFFD for each maximal subpart of
   ill-formed bytes; NUL becomes \u0000. First get the length, then write exactly that many bytes,
   straight into the buffer that is sent. Both go eight bytes at a time where nothing changes. */
size_t json_string_length(const char *text, size_t length);

/* Writes json_string_length(text, length) bytes, no NUL after them; returns the end. */
char *json_string_write(char *out, const char *text, size_t length);

/* How many bytes at the start of text are ASCII that a JSON string holds unescaped. */
size_t json_string_plain(const char *text, size_t length);

#endif
