#ifndef BASE_UTF16_H
#define BASE_UTF16_H

#include <stdbool.h>
#include <stddef.h>

/* Room for `length` bytes of UTF-16 as UTF-8. */
#define UTF16_DECODED_MAX(length) (((length) + 1) / 2 * 3)

/* Whether the text begins with a byte order mark of UTF-16; `*is_big_endian` is set when it does.
   That of UTF-32 in little endian order begins so, too. */
bool utf16_is_marked(const char *text, size_t length, bool *is_big_endian);

/* Replaces UTF-16 by UTF-8, in place: the array has room for UTF16_DECODED_MAX(length) bytes. A
   surrogate without the other half becomes U+FFFD, and so does a byte that is left at the end; a
   byte order mark becomes that of UTF-8. Returns the length. */
size_t utf16_decode(char *text, size_t length, bool is_big_endian);

/* How many units of UTF-16 a decoder makes of UTF-8: two of a sequence of four bytes, one of every
   other sequence, and one, U+FFFD, of each part that utf8_broken names. So there are at most as
   many as there are bytes. The counts of two texts add up where no sequence lies in both. */
size_t utf16_units(const char *text, size_t length);

#endif
