#include "base/utf8.h"

#include <string.h>

#include "base/check.h"
#include "base/swar.h"

bool utf8_is_marked(const char *text, size_t length) {
  return length >= UTF8_MARK_LENGTH && memcmp(text, UTF8_MARK, UTF8_MARK_LENGTH) == 0;
}

/* The table of RFC 3629 by the first byte: returns the length of its sequences, 0 if it begins
   none, and sets the range of the second byte, which excludes overlong forms, surrogates and
   characters above U+10FFFF. */
static size_t lead(unsigned char first, unsigned char *low, unsigned char *high) {
  *low = 0x80;
  *high = 0xBF;
  if (first < 0x80)
    return 1;
  if (first < 0xC2)
    return 0;
  if (first < 0xE0)
    return 2;
  if (first < 0xF0) {
    if (first == 0xE0)
      *low = 0xA0;
    if (first == 0xED)
      *high = 0x9F;
    return 3;
  }
  if (first > 0xF4)
    return 0;
  if (first == 0xF0)
    *low = 0x90;
  if (first == 0xF4)
    *high = 0x8F;
  return 4;
}

/* Returns how many bytes at the start of a text that is not empty belong to a sequence, whose
   length it writes to `*needed`; both are 0 if no sequence begins there. */
static size_t begun(const char *text, size_t length, size_t *needed) {
  unsigned char low, high;
  *needed = lead((unsigned char)text[0], &low, &high);
  if (*needed == 0)
    return 0;
  size_t n = 1;
  while (n < *needed && n < length && (unsigned char)text[n] >= low &&
         (unsigned char)text[n] <= high) {
    low = 0x80;
    high = 0xBF;
    n++;
  }
  return n;
}

size_t utf8_sequence(const char *text, size_t length) {
  if (length == 0)
    return 0;
  size_t needed;
  size_t n = begun(text, length, &needed);
  return n == needed ? n : 0;
}

unsigned utf8_decode(const char *sequence, size_t length) {
  const unsigned char first = (unsigned char)sequence[0];
  unsigned character = length == 1 ? first : first & (0x7FU >> length);
  for (size_t i = 1; i < length; i++)
    character = character << 6 | ((unsigned char)sequence[i] & 0x3F);
  return character;
}

size_t utf8_broken(const char *text, size_t length) {
  CHECK(length > 0);
  size_t needed;
  size_t n = begun(text, length, &needed);
  return n > 0 ? n : 1;
}

size_t utf8_valid_prefix(const char *text, size_t length) {
  size_t at = 0;
  while (at < length) {
    if (length - at >= SWAR_SIZE && swar_high(swar_load(text + at)) == 0) {
      at += SWAR_SIZE;
      continue;
    }
    size_t n = utf8_sequence(text + at, length - at);
    if (n == 0)
      break;
    at += n;
  }
  return at;
}

static bool continues(char byte) {
  return ((unsigned char)byte & 0xC0) == 0x80;
}

size_t utf8_rest(const char *text, size_t length) {
  size_t rest = 0;
  while (rest < 3 && rest < length && continues(text[rest]))
    rest++;
  return rest;
}

size_t utf8_cut(const char *text, size_t length) {
  for (size_t back = 1; back <= 3 && back <= length; back++) {
    const char *last = text + length - back;
    if (continues(*last))
      continue;
    size_t needed;
    bool open = begun(last, back, &needed) == back && needed > back;
    return open ? length - back : length;
  }
  return length;
}

bool utf16_is_big_endian(const char *text, size_t length) {
  return length >= 2 && memcmp(text, "\xFE\xFF", 2) == 0;
}

bool utf16_is_marked(const char *text, size_t length) {
  return utf16_is_big_endian(text, length) || (length >= 2 && memcmp(text, "\xFF\xFE", 2) == 0);
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

/* First moves the text to the end of its array. A unit becomes at most three bytes, so that writing
   never passes reading. */
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
      unit = is_pair ? 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00) : 0xFFFD;
      at += is_pair ? 2 : 0;
    }
    to += encode(unit, to);
  }
  if (at < end)
    to += encode(0xFFFD, to);
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
