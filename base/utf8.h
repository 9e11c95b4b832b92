#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* U+FEFF, encoded: the byte order mark, with which some programs begin a file. */
#define UTF8_MARK "\xEF\xBB\xBF"
#define UTF8_MARK_LENGTH (sizeof UTF8_MARK - 1)

/* Whether the text begins with UTF8_MARK. */
bool utf8_is_marked(const char *text, size_t length);

/* U+FFFD, encoded: what a decoder writes for bytes that are not UTF-8. */
#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* Length of the well-formed sequence (RFC 3629: no overlong form, no surrogate, nothing above
   U+10FFFF) at the start of text: 1 to 4, or 0 where there is none within `length` bytes. */
size_t utf8_sequence(const char *text, size_t length);

/* Where utf8_sequence returns 0 and `length` is not 0: how many bytes one replacement stands for, 1
   to 3. That is Unicode's maximal subpart, the longest start of a well-formed sequence, or else one
   byte. */
size_t utf8_broken(const char *text, size_t length);

/* How many bytes at the start of text are well-formed; `length` when all are. */
size_t utf8_valid_prefix(const char *text, size_t length);

/* The longest n <= length for which text[0..n) does not end inside a sequence: `length` itself,
   unless its last one to three bytes begin a sequence that is not complete. It does not cut at
   bytes that are not UTF-8, so that n > 0 for every length > 3. */
size_t utf8_cut(const char *text, size_t length);

/* How many bytes at the start of text are the rest of a sequence that began before it: up to three
   that continue one. */
size_t utf8_rest(const char *text, size_t length);

/* --- UTF-16 --- */

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
