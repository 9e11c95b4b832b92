#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Checks, cuts and converts UTF-8 and UTF-16. Everything that reads output, files or JSON uses it.
 * The hard part is text that is not well-formed, or that ends within a character. Pure.
 */

/* U+FEFF, the byte order mark with which some programs begin a file. */
#define UTF8_MARK "\xEF\xBB\xBF"
#define UTF8_MARK_LENGTH (sizeof UTF8_MARK - 1)

/* Whether the text begins with UTF8_MARK. */
bool utf8_is_marked(const char *text, size_t length);

/* U+FFFD, which a decoder writes for bytes that are not UTF-8. */
#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* Returns the length of the well-formed sequence at the start of the text, 1 to 4, or 0 if there is
   none within `length` bytes. RFC 3629: no overlong form, no surrogate, nothing above U+10FFFF. */
size_t utf8_sequence(const char *text, size_t length);

/* Returns the character of a well-formed sequence of this length. */
unsigned utf8_decode(const char *sequence, size_t length);

/* Returns how many bytes one replacement stands for, 1 to 3, if utf8_sequence returns 0 and
   `length` is not 0. That is Unicode's maximal subpart: the longest start of a well-formed
   sequence, or else one byte. */
size_t utf8_broken(const char *text, size_t length);

/* Returns how many bytes at the start of the text are well-formed. */
size_t utf8_valid_prefix(const char *text, size_t length);

/* Returns where to cut the text so that no sequence is split: `length`, or one to three bytes less
   if the text ends with an incomplete sequence. It does not cut at bytes that are not UTF-8, so the
   result is positive for every length above 3. */
size_t utf8_cut(const char *text, size_t length);

/* Returns how many bytes at the start, at most three, continue a sequence that began before it. */
size_t utf8_rest(const char *text, size_t length);

/* The most bytes that `length` bytes of UTF-16 become as UTF-8. */
#define UTF16_DECODED_MAX(length) (((length) + 1) / 2 * 3)

/* Whether the text begins with a byte order mark of UTF-16. The mark of little-endian UTF-32 begins
   the same way. */
bool utf16_is_marked(const char *text, size_t length);

/* Whether that mark is the one of big-endian UTF-16. */
bool utf16_is_big_endian(const char *text, size_t length);

/* Converts UTF-16 to UTF-8 in place, in an array of UTF16_DECODED_MAX(length) bytes, and returns
   the new length. An unpaired surrogate and a single byte at the end become U+FFFD; a byte order
   mark becomes that of UTF-8. */
size_t utf16_decode(char *text, size_t length, bool is_big_endian);

/* Returns how many UTF-16 units a decoder makes of UTF-8: two of a sequence of four bytes, one of
   every other sequence and of each part that utf8_broken names. */
size_t utf16_units(const char *text, size_t length);
