#ifndef BASE_JSON_STRING_H
#define BASE_JSON_STRING_H

#include <stddef.h>

/*
 * The inside of a JSON string (the quotes are the caller's), from any bytes: what JSON must escape
 * is escaped, well-formed UTF-8 is copied, each ill-formed byte run becomes one U+FFFD per maximal
 * subpart, NUL becomes \u0000. First ask for the length, then write exactly so many bytes: text
 * is encoded straight into the buffer that is sent. Both take the fast path (word at a time, then
 * memcpy) where nothing needs to change.
 */
size_t json_string_length(const char *text, size_t length);

/* Writes json_string_length(text, length) bytes, no NUL after them; returns the end. */
char *json_string_write(char *out, const char *text, size_t length);

/* How many bytes at the start of text are ASCII that stands in a JSON string as it is. */
size_t json_string_plain(const char *text, size_t length);

#endif
