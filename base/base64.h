#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Base64 (RFC 4648, section 4): the alphabet with "+" and "/", padded. Pure.
 *
 * The decoder accepts what PROTOCOL.md allows and nothing else. It ignores spaces, tabs, carriage
 * returns and line feeds anywhere; without them, the length must be a multiple of four and nothing
 * may follow the padding. It drops the bits of the last character that form no whole byte.
 */

/* Returns the length of the encoding of this number of bytes. */
size_t base64_length(size_t bytes);

/* Writes base64_length(length) characters without a NUL and returns their end. */
char *base64_encode(char *out, const char *bytes, size_t length);

struct base64_reader {
  const char *at, *end; /* the rest of the text */
  bool is_padded;       /* nothing but blanks may follow */
};

struct base64_reader base64_reader(const char *text, size_t length);

/* Decodes at most `size` bytes, which must be at least 3. Returns their number, 0 at the end of the
   text, or -1 as soon as the text turns out not to be base64. */
ssize_t base64_read(struct base64_reader *self, char *out, size_t size);
