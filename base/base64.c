#include "base/base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The value of a character: six bits, or one of these. */
enum { BLANK = 64, PADDING = 65, INVALID = 66 };

static void set_values(uint8_t values[256]) {
  memset(values, INVALID, 256);
  for (uint8_t i = 0; i < 64; i++)
    values[(unsigned char)alphabet[i]] = i;
  values[' '] = values['\t'] = values['\r'] = values['\n'] = BLANK;
  values['='] = PADDING;
}

size_t base64_length(size_t bytes) {
  return (bytes + 2) / 3 * 4;
}

static char *write_four(char *out, uint32_t bits) {
  out[0] = alphabet[bits >> 18];
  out[1] = alphabet[bits >> 12 & 63];
  out[2] = alphabet[bits >> 6 & 63];
  out[3] = alphabet[bits & 63];
  return out + 4;
}

char *base64_encode(char *out, const char *bytes, size_t length) {
  const unsigned char *from = (const unsigned char *)bytes;
  for (; length >= 3; length -= 3, from += 3)
    out = write_four(out, (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2]);
  if (length == 0)
    return out;
  out = write_four(out, (uint32_t)from[0] << 16 | (length == 2 ? (uint32_t)from[1] << 8 : 0));
  memset(out - 3 + length, '=', 3 - length);
  return out;
}

static char *write_three(char *out, uint32_t bits) {
  out[0] = (char)(bits >> 16);
  out[1] = (char)(bits >> 8);
  out[2] = (char)bits;
  return out + 3;
}

struct base64_reader base64_reader(const char *text, size_t length) {
  return (struct base64_reader){.at = text, .end = text + length};
}

/* Decodes groups of four characters up to the first that has anything else in it. Returns the end
   of the output. */
static char *read_groups(struct base64_reader *self, const uint8_t values[256], char *out,
                         const char *limit) {
  while (self->end - self->at >= 4 && limit - out >= 3) {
    const unsigned char *at = (const unsigned char *)self->at;
    uint32_t a = values[at[0]], b = values[at[1]], c = values[at[2]], d = values[at[3]];
    if ((a | b | c | d) >= BLANK)
      return out;
    out = write_three(out, a << 18 | b << 12 | c << 6 | d);
    self->at += 4;
  }
  return out;
}

/* Decodes the next group, in which there may be blanks. Returns the number of its bytes, 0 at the
   end of the text, or -1. */
static ssize_t read_group(struct base64_reader *self, const uint8_t values[256], char *out) {
  uint32_t bits = 0;
  unsigned characters = 0, padding = 0;
  for (; characters < 4 && self->at < self->end; self->at++) {
    const uint8_t value = values[(unsigned char)*self->at];
    if (value == BLANK)
      continue;
    if (value == PADDING ? characters < 2 : value == INVALID || padding > 0)
      return -1;
    padding += value == PADDING;
    bits = bits << 6 | (value == PADDING ? 0 : value);
    characters++;
  }
  if (characters == 0)
    return 0;
  if (characters < 4 || self->is_padded)
    return -1;
  self->is_padded = padding > 0;
  (void)write_three(out, bits);
  return 3 - (ssize_t)padding;
}

ssize_t base64_read(struct base64_reader *self, char *out, size_t size) {
  uint8_t values[256];
  const char *limit = out + size;
  char *end = out;
  ssize_t length = 1;
  set_values(values);
  while (limit - end >= 3 && length > 0) {
    if (!self->is_padded)
      end = read_groups(self, values, end, limit);
    length = limit - end >= 3 ? read_group(self, values, end) : 0;
    end += length > 0 ? length : 0;
  }
  return length < 0 ? -1 : end - out;
}
