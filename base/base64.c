#include "base/base64.h"

#include <stdbool.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* What a character stands for: up to 63 six bits; above, one of these. */
enum { BLANK = 64, PADDING = 65, NOTHING = 66 };

struct meanings {
  uint8_t of[256];
};

static void set_meanings(struct meanings *self) {
  memset(self->of, NOTHING, sizeof self->of);
  for (uint8_t i = 0; i < 64; i++)
    self->of[(unsigned char)alphabet[i]] = i;
  self->of[' '] = self->of['\t'] = self->of['\r'] = self->of['\n'] = BLANK;
  self->of['='] = PADDING;
}

size_t base64_length(size_t bytes) {
  return (bytes + 2) / 3 * 4;
}

static char *put_four(char *out, uint32_t bits) {
  out[0] = alphabet[bits >> 18];
  out[1] = alphabet[bits >> 12 & 63];
  out[2] = alphabet[bits >> 6 & 63];
  out[3] = alphabet[bits & 63];
  return out + 4;
}

char *base64_encode(char *out, const char *bytes, size_t length) {
  const unsigned char *from = (const unsigned char *)bytes;
  for (; length >= 3; length -= 3, from += 3)
    out = put_four(out, (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2]);
  if (length == 0)
    return out;
  out = put_four(out, (uint32_t)from[0] << 16 | (length == 2 ? (uint32_t)from[1] << 8 : 0));
  memset(out - 3 + length, '=', 3 - length);
  return out;
}

static char *put_three(char *out, uint32_t bits) {
  out[0] = (char)(bits >> 16);
  out[1] = (char)(bits >> 8);
  out[2] = (char)bits;
  return out + 3;
}

struct base64_reader base64_reader(const char *text, size_t length) {
  return (struct base64_reader){.at = text, .end = text + length};
}

/* Decodes whole groups of four, as far as nothing else is among them. Returns the end. */
static char *read_groups(struct base64_reader *self, const struct meanings *meanings, char *out,
                         const char *limit) {
  while (self->end - self->at >= 4 && limit - out >= 3) {
    const unsigned char *at = (const unsigned char *)self->at;
    uint32_t a = meanings->of[at[0]], b = meanings->of[at[1]];
    uint32_t c = meanings->of[at[2]], d = meanings->of[at[3]];
    if ((a | b | c | d) >= BLANK)
      return out;
    out = put_three(out, a << 18 | b << 12 | c << 6 | d);
    self->at += 4;
  }
  return out;
}

/* Takes one character; false when it must not be here. */
static bool take(struct base64_reader *self, uint8_t meaning) {
  if (meaning == BLANK)
    return true;
  if (meaning == PADDING && self->characters >= 2 && self->characters + self->padding < 4) {
    self->padding++;
    return true;
  }
  if (meaning >= BLANK || self->padding > 0)
    return false;
  self->bits = self->bits << 6 | meaning;
  self->characters++;
  return true;
}

/* At the end of the text. */
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
  struct meanings meanings;
  const char *limit = out + size;
  char *end = out;
  set_meanings(&meanings);
  while (limit - end >= 3) {
    if (self->characters == 0)
      end = read_groups(self, &meanings, end, limit);
    if (self->at == self->end || limit - end < 3)
      break;
    if (!take(self, meanings.of[(unsigned char)*self->at++]))
      return -1;
    if (self->characters == 4) {
      end = put_three(end, self->bits);
      self->characters = 0;
    }
  }
  if (self->at < self->end || limit - end < 3)
    return end - out;
  ssize_t rest = read_rest(self, end);
  return rest < 0 ? -1 : end - out + rest;
}
