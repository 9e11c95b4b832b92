#include "base/secret_forms.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"

/* How to make one form. Members that do not belong to its format are 0 or NULL. */
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

/* --- JSON ------------------------------------------------------------------------------------ */

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

/* --- other formats --------------------------------------------------------------------------- */

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

static const struct style styles[SECRET_FORMS] = {
    [SECRET_RAW] = {.add = add_raw},
    [SECRET_JSON] = {.add = add_json, .special = ""},
    [SECRET_JSON_UPPER] = {.add = add_json, .special = "", .upper = true},
    [SECRET_JSON_ASCII] = {.add = add_json, .special = "", .ascii = true},
    [SECRET_JSON_ASCII_UPPER] = {.add = add_json, .special = "", .ascii = true, .upper = true},
    [SECRET_JSON_SLASH] = {.add = add_json, .special = "", .slash = true},
    [SECRET_JSON_SLASH_ASCII] = {.add = add_json, .special = "", .slash = true, .ascii = true},
    [SECRET_JSON_HTML] = {.add = add_json, .special = "<>&"},
    [SECRET_JSON_NET] = {.add = add_json, .special = "\"&'+<>`", .ascii = true, .upper = true},
    [SECRET_JSON_GSON] = {.add = add_json, .special = "<>&='"},
    [SECRET_URL] = {.add = add_url, .special = "-._~", .upper = true},
    [SECRET_URL_LOWER] = {.add = add_url, .special = "-._~"},
    [SECRET_URL_PLUS] = {.add = add_url, .special = "-._~", .upper = true, .plus = true},
    [SECRET_URL_PLUS_LOWER] = {.add = add_url, .special = "-._~", .plus = true},
    [SECRET_URL_COMPONENT] = {.add = add_url, .special = "-._~!*'()", .upper = true},
    [SECRET_URL_PATH] = {.add = add_url, .special = "-._~/", .upper = true},
    [SECRET_BASE64_0] = {.add = add_base64},
    [SECRET_BASE64_1] = {.add = add_base64, .shift = 1},
    [SECRET_BASE64_2] = {.add = add_base64, .shift = 2},
    [SECRET_BASE64URL_0] = {.add = add_base64, .url = true},
    [SECRET_BASE64URL_1] = {.add = add_base64, .url = true, .shift = 1},
    [SECRET_BASE64URL_2] = {.add = add_base64, .url = true, .shift = 2},
    [SECRET_XML] = {.add = add_quoted, .xml = true, .quot = "&quot;", .apos = "&apos;"},
    [SECRET_XML_TEXT] = {.add = add_quoted, .xml = true},
    [SECRET_HTML] = {.add = add_quoted, .xml = true, .quot = "&quot;", .apos = "&#39;"},
    [SECRET_HTML_HEX] = {.add = add_quoted, .xml = true, .quot = "&quot;", .apos = "&#x27;"},
    [SECRET_HTML_DEC] = {.add = add_quoted, .xml = true, .quot = "&#34;", .apos = "&#39;"},
    [SECRET_SHELL] = {.add = add_quoted, .apos = "'\\''"},
    [SECRET_SHELL_DOUBLE] = {.add = add_quoted, .apos = "'\"'\"'"},
    [SECRET_HEX] = {.add = add_hex_bytes},
    [SECRET_HEX_UPPER] = {.add = add_hex_bytes, .upper = true},
};

void secret_form_add(enum secret_form form, const char *value, size_t length, struct buffer *out) {
  styles[form].add(&styles[form], value, length, out);
}
