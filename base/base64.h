#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Base64 (RFC 4648, section 4): "+" and "/", with padding. Pure.
 *
 * Decoding takes what senders of this protocol may send, and nothing else: blanks, tabs, carriage
 * returns and line feeds anywhere do not count; without them the length is a multiple of four, and
 * nothing follows the padding. Bits of the last character that stand for no whole byte are dropped.
 *
 *   struct base64_reader reader = base64_reader(text, length);
 *   while ((n = base64_read(&reader, bytes, sizeof bytes)) > 0)
 *     …                                                          -1: it is not base64
 */

/* The length of what base64_encode writes. */
size_t base64_length(size_t bytes);

/* Writes base64_length(length) characters, no NUL after them; returns the end. */
char *base64_encode(char *out, const char *bytes, size_t length);

struct base64_reader {
  const char *at, *end; /* what is left of the text */
  uint32_t bits;        /* of the group that has begun */
  unsigned characters, padding;
};

struct base64_reader base64_reader(const char *text, size_t length);

/* Decodes up to `size` bytes, at least 3. Returns how many, 0 at the end of the text, or -1 as soon
   as it is not base64. */
ssize_t base64_read(struct base64_reader *self, char *out, size_t size);

#endif
