#include "base/secret_forms.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

/* How to make one form. */
struct style {
  void (*add)(const struct style *style, const char *value, size_t length, struct buffer *out);
  const char *special;     /* JSON: ASCII that is escaped; URL: ASCII that is not */
  bool upper;              /* capital hex digits */
  bool ascii;              /* JSON: everything but printable ASCII is escaped */
  bool slash;              /* JSON: "/" is "\/" */
  bool plus;               /* URL: a space is "+" */
  bool url;                /* base64: "-" and "_" */
  bool xml;                /* XML: & < > are replaced; else shell */
  unsigned shift;          /* base64: bytes in front of the value */
  const char *quot, *apos; /* XML and shell: their replacements; NULL if they are kept */
};

static void add_byte(struct buffer *out, char byte) {
  buffer_add(out, &byte, 1);
}

static void add_hex(struct buffer *out, uint32_t number, unsigned digits, bool upper) {
  const char *alphabet = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  while (digits-- > 0)
    add_byte(out, alphabet[number >> (4 * digits) & 0xF]);
}

static bool is_among(const char *characters, char byte) {
  return byte != '\0' && strchr(characters, byte) != NULL;
}

static void add_raw(const struct style *style, const char *value, size_t length,
                    struct buffer *out) {
  (void)style;
  buffer_add(out, value, length);
}

/* Adds \uXXXX, or two of them for a character above U+FFFF (RFC 8259, section 7). */
static void add_unicode(const struct style *style, uint32_t character, struct buffer *out) {
  if (character > 0xFFFF) {
    add_unicode(style, 0xD800 + ((character - 0x10000) >> 10), out);
    character = 0xDC00 + (character & 0x3FF);
  }
  buffer_add_string(out, "\\u");
  add_hex(out, character, 4, style->upper);
}

static void add_json_ascii(const struct style *style, char byte, struct buffer *out) {
  static const char escaped[] = "\"\\\b\t\n\f\r", letters[] = "\"\\btnfr";
  bool special = is_among(style->special, byte);
  if (!special && is_among(escaped, byte)) {
    add_byte(out, '\\');
    add_byte(out, letters[strchr(escaped, byte) - escaped]);
  } else if (special || (unsigned char)byte < 0x20 || (byte == 0x7F && style->ascii)) {
    add_unicode(style, (unsigned char)byte, out);
  } else {
    if (byte == '/' && style->slash)
      add_byte(out, '\\');
    add_byte(out, byte);
  }
}

static void add_json(const struct style *style, const char *value, size_t length,
                     struct buffer *out) {
  for (size_t at = 0; at < length;) {
    const char *text = value + at;
    size_t sequence = utf8_sequence(text, length - at);
    if (sequence == 1) {
      add_json_ascii(style, *text, out);
      at++;
      continue;
    }
    at += sequence > 0 ? sequence : utf8_broken(text, length - at);
    if (sequence == 0) {
      text = UTF8_REPLACEMENT;
      sequence = sizeof UTF8_REPLACEMENT - 1;
    }
    if (style->ascii)
      add_unicode(style, utf8_decode(text, sequence), out);
    else
      buffer_add(out, text, sequence);
  }
}

static void add_url(const struct style *style, const char *value, size_t length,
                    struct buffer *out) {
  for (size_t i = 0; i < length; i++) {
    char byte = value[i];
    if (isalnum((unsigned char)byte) || is_among(style->special, byte)) {
      add_byte(out, byte);
    } else if (byte == ' ' && style->plus) {
      add_byte(out, '+');
    } else {
      add_byte(out, '%');
      add_hex(out, (unsigned char)byte, 2, style->upper);
    }
  }
}

/* The first n * 8 / 6 characters of n bytes depend on no later byte. The first shift * 8 / 6,
   rounded up, have bits of the bytes in front of the value. */
static void add_base64(const struct style *style, const char *value, size_t length,
                       struct buffer *out) {
  struct buffer bytes = {0};
  buffer_add(&bytes, "\0\0", style->shift);
  buffer_add(&bytes, value, length);
  size_t begin = out->length, skipped = (style->shift * 8 + 5) / 6;
  size_t kept = bytes.length * 8 / 6 - skipped;
  buffer_add_base64(out, bytes.bytes, bytes.length);
  char *encoded = out->bytes + begin;
  memmove(encoded, encoded + skipped, kept);
  out->length = begin + kept;
  buffer_release(&bytes);
  for (size_t i = 0; i < kept && style->url; i++)
    if (encoded[i] == '+' || encoded[i] == '/')
      encoded[i] = encoded[i] == '+' ? '-' : '_';
}

/* Adds the value with a replacement for each quote that has one and, in XML, for & < >. */
static void add_quoted(const struct style *style, const char *value, size_t length,
                       struct buffer *out) {
  for (size_t i = 0; i < length; i++) {
    const char byte = value[i];
    const char *text = byte == '"' ? style->quot : byte == '\'' ? style->apos : NULL;
    if (style->xml)
      text = byte == '&' ? "&amp;" : byte == '<' ? "&lt;" : byte == '>' ? "&gt;" : text;
    if (text != NULL)
      buffer_add_string(out, text);
    else
      add_byte(out, byte);
  }
}

static void add_hex_bytes(const struct style *style, const char *value, size_t length,
                          struct buffer *out) {
  for (size_t i = 0; i < length; i++)
    add_hex(out, (unsigned char)value[i], 2, style->upper);
}

#define STYLE(NAME, FORMAT, ...) [SECRET_##NAME] = {.add = add_##FORMAT, .special = __VA_ARGS__},
static const struct style styles[] = {SECRET_FORM_ROWS(STYLE)};

void secret_form_add(enum secret_form form, const char *value, size_t length, struct buffer *out) {
  styles[form].add(&styles[form], value, length, out);
}
