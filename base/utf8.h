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

#endif
