#include "base/base64.h"

#include <stdbool.h>
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

/* Adds one character to the group; returns false if it is not allowed here. */
static bool add_character(struct base64_reader *self, uint8_t value) {
  if (value == BLANK)
    return true;
  if (value == PADDING && self->characters >= 2 && self->characters + self->padding < 4) {
    self->padding++;
    return true;
  }
  if (value >= BLANK || self->padding > 0)
    return false;
  self->bits = self->bits << 6 | value;
  self->characters++;
  return true;
}

static ssize_t read_rest(struct base64_reader *self, char *out) {
  unsigned characters = self->characters;
  if (characters == 0)
    return 0;
  if (characters + self->padding != 4)
    return -1;
  for (unsigned i = 0; i + 1 < characters; i++)
    out[i] = (char)(self->bits >> (6 * characters - 8 * (i + 1)));
  self->characters = 0; /* the padding stays, so that nothing may follow */
  return characters - 1;
}

ssize_t base64_read(struct base64_reader *self, char *out, size_t size) {
  uint8_t values[256];
  const char *limit = out + size;
  char *end = out;
  set_values(values);
  while (limit - end >= 3) {
    if (self->characters == 0)
      end = read_groups(self, values, end, limit);
    if (self->at == self->end || limit - end < 3)
      break;
    if (!add_character(self, values[(unsigned char)*self->at++]))
      return -1;
    if (self->characters == 4) {
      end = write_three(end, self->bits);
      self->characters = 0;
    }
  }
  if (self->at < self->end || limit - end < 3)
    return end - out;
  ssize_t rest = read_rest(self, end);
  return rest < 0 ? -1 : end - out + rest;
}
