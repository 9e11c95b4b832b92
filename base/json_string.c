#include "base/json_string.h"

#include <string.h>

#include "base/swar.h"
#include "base/utf8.h"

#define REPLACEMENT_LENGTH (sizeof UTF8_REPLACEMENT - 1)

static uint64_t not_plain(uint64_t word) {
  return swar_below(word, 0x20) | swar_equal(word, '"') | swar_equal(word, '\\') | swar_high(word);
}

size_t json_string_plain(const char *text, size_t length) {
  size_t at = 0;
  for (; length - at >= SWAR_SIZE; at += SWAR_SIZE) {
    uint64_t hits = not_plain(swar_load(text + at));
    if (hits != 0)
      return at + swar_first(hits);
  }
  if (at > 0 && at < length) {
    /* Check the rest as one word, which begins with bytes that are known to be plain. */
    uint64_t hits = not_plain(swar_load(text + length - SWAR_SIZE));
    return hits == 0 ? length : length - SWAR_SIZE + swar_first(hits);
  }
  while (at < length && (unsigned char)text[at] >= 0x20 && (unsigned char)text[at] < 0x80 &&
         text[at] != '"' && text[at] != '\\')
    at++;
  return at;
}

/* Returns the letter of a byte's two-byte escape, or 0 if it has to be \u00XX. */
static char escape_letter(char byte) {
  static const char letters[] = {['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\t'] = 't',
                                 ['\n'] = 'n', ['\f'] = 'f',  ['\r'] = 'r'};
  return letters[(unsigned char)byte];
}

/* Returns how many bytes at the start are copied: up to the end, to a byte that needs an escape, or
   to an ill-formed sequence. */
static size_t copied_run(const char *text, size_t length) {
  size_t at = 0;
  for (;;) {
    at += json_string_plain(text + at, length - at);
    if (at == length || (unsigned char)text[at] < 0x80)
      return at;
    /* Sequences come in groups, so go on by words only after the last one. */
    do {
      size_t n = utf8_sequence(text + at, length - at);
      if (n == 0)
        return at;
      at += n;
    } while (at < length && (unsigned char)text[at] >= 0x80);
  }
}

size_t json_string_length(const char *text, size_t length) {
  size_t total = 0;
  for (size_t at = 0; at < length;) {
    size_t run = copied_run(text + at, length - at);
    total += run;
    at += run;
    if (at == length)
      break;
    if ((unsigned char)text[at] >= 0x80) {
      total += REPLACEMENT_LENGTH;
      at += utf8_broken(text + at, length - at);
    } else {
      total += escape_letter(text[at]) != 0 ? 2 : 6;
      at++;
    }
  }
  return total;
}

static char *write_escape(char *out, char byte) {
  static const char digits[] = "0123456789abcdef";
  *out++ = '\\';
  char letter = escape_letter(byte);
  if (letter != 0) {
    *out++ = letter;
    return out;
  }
  *out++ = 'u';
  *out++ = '0';
  *out++ = '0';
  *out++ = digits[(unsigned char)byte >> 4];
  *out++ = digits[(unsigned char)byte & 0xF];
  return out;
}

char *json_string_write(char *out, const char *text, size_t length) {
  for (size_t at = 0; at < length;) {
    size_t run = copied_run(text + at, length - at);
    out = swar_copy(out, text + at, run);
    at += run;
    if (at == length)
      break;
    if ((unsigned char)text[at] >= 0x80) {
      memcpy(out, UTF8_REPLACEMENT, REPLACEMENT_LENGTH);
      out += REPLACEMENT_LENGTH;
      at += utf8_broken(text + at, length - at);
    } else {
      out = write_escape(out, text[at++]);
    }
  }
  return out;
}
