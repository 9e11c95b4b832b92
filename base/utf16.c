#include "base/utf16.h"

#include <string.h>

#include "base/swar.h"
#include "base/utf8.h"

#define REPLACEMENT 0xFFFD

bool utf16_is_marked(const char *text, size_t length, bool *is_big_endian) {
  *is_big_endian = length >= 2 && memcmp(text, "\xFE\xFF", 2) == 0;
  return *is_big_endian || (length >= 2 && memcmp(text, "\xFF\xFE", 2) == 0);
}

static size_t encode(unsigned character, char *to) {
  if (character < 0x80) {
    to[0] = (char)character;
    return 1;
  }
  size_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; i--, character >>= 6)
    to[i] = (char)(0x80 | (character & 0x3F));
  to[0] = (char)((0xF0U << (4 - length)) | character);
  return length;
}

static unsigned unit_at(const char *text, bool is_big_endian) {
  unsigned first = (unsigned char)text[0];
  unsigned second = (unsigned char)text[1];
  return is_big_endian ? first << 8 | second : second << 8 | first;
}

/* The text is moved to the end of its room first: a unit becomes three bytes at most, so that what
   is written never reaches what is not read yet. */
size_t utf16_decode(char *text, size_t length, bool is_big_endian) {
  const char *end = text + UTF16_DECODED_MAX(length);
  const char *at = memmove(text + UTF16_DECODED_MAX(length) - length, text, length);
  char *to = text;
  while (end - at >= 2) {
    unsigned unit = unit_at(at, is_big_endian);
    at += 2;
    if (unit >= 0xD800 && unit < 0xE000) {
      unsigned low = unit < 0xDC00 && end - at >= 2 ? unit_at(at, is_big_endian) : 0;
      bool is_pair = low >= 0xDC00 && low < 0xE000;
      unit = is_pair ? 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00) : REPLACEMENT;
      at += is_pair ? 2 : 0;
    }
    to += encode(unit, to);
  }
  if (at < end)
    to += encode(REPLACEMENT, to);
  return (size_t)(to - text);
}

size_t utf16_units(const char *text, size_t length) {
  size_t units = 0;
  for (size_t at = 0; at < length;) {
    if (length - at >= SWAR_SIZE && swar_high(swar_load(text + at)) == 0) {
      units += SWAR_SIZE;
      at += SWAR_SIZE;
      continue;
    }
    size_t n = utf8_sequence(text + at, length - at);
    units += n == 4 ? 2 : 1;
    at += n > 0 ? n : utf8_broken(text + at, length - at);
  }
  return units;
}
