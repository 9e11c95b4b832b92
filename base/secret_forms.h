#pragma once

#include <stddef.h>

#include "base/buffer.h"

/*
 * The forms in which programs print a secret value: unchanged, or within another format. A form is
 * what stands between the quotes of that format, so that it is also found in a longer text. Many
 * forms of one value are equal, because letters and digits rarely change. Pure.
 *
 * JSON always escapes `"`, `\` and characters below U+0020, with a letter if there is one, and has
 * U+FFFD for bytes that are not UTF-8 (json_string.h). Programs differ in what else they escape and
 * in how they write \uXXXX.
 *
 * Base64 (RFC 4648, sections 4 and 5) is that of a longer text, in which the value begins at a
 * multiple of three bytes, or one or two bytes later. The padding and the characters that share
 * bits with the rest of the text are omitted.
 *
 * ROW(name, format, the members of its struct style in secret_forms.c)
 */
#define SECRET_FORM_ROWS(ROW)                                                                      \
  ROW(RAW, raw, NULL)                                                                              \
  ROW(JSON, json, "") /* JavaScript, most C and C++ libraries */                                   \
  ROW(JSON_UPPER, json, "", .upper = true)                                                         \
  ROW(JSON_ASCII, json, "", .ascii = true) /* Python */                                            \
  ROW(JSON_ASCII_UPPER, json, "", .ascii = true, .upper = true)                                    \
  ROW(JSON_SLASH, json, "", .slash = true)                                                         \
  ROW(JSON_SLASH_ASCII, json, "", .slash = true, .ascii = true) /* PHP */                          \
  ROW(JSON_HTML, json, "<>&")                                   /* Go */                           \
  ROW(JSON_NET, json, "\"&'+<>`", .ascii = true, .upper = true) /* .NET */                         \
  ROW(JSON_GSON, json, "<>&='")                                                                    \
  ROW(URL, url, "-._~", .upper = true) /* RFC 3986, section 2.1 */                                 \
  ROW(URL_LOWER, url, "-._~")                                                                      \
  ROW(URL_PLUS, url, "-._~", .upper = true, .plus = true) /* x-www-form-urlencoded */              \
  ROW(URL_PLUS_LOWER, url, "-._~", .plus = true)                                                   \
  ROW(URL_COMPONENT, url, "-._~!*'()", .upper = true) /* ECMAScript */                             \
  ROW(URL_PATH, url, "-._~/", .upper = true)          /* urllib.parse.quote of Python */           \
  ROW(BASE64_0, base64, NULL)                                                                      \
  ROW(BASE64_1, base64, NULL, .shift = 1)                                                          \
  ROW(BASE64_2, base64, NULL, .shift = 2)                                                          \
  ROW(BASE64URL_0, base64, NULL, .url = true)                                                      \
  ROW(BASE64URL_1, base64, NULL, .url = true, .shift = 1)                                          \
  ROW(BASE64URL_2, base64, NULL, .url = true, .shift = 2)                                          \
  ROW(XML, quoted, NULL, .xml = true, .quot = "&quot;", .apos = "&apos;")                          \
  ROW(XML_TEXT, quoted, NULL, .xml = true) /* between elements */                                  \
  ROW(HTML, quoted, NULL, .xml = true, .quot = "&quot;", .apos = "&#39;")                          \
  ROW(HTML_HEX, quoted, NULL, .xml = true, .quot = "&quot;", .apos = "&#x27;") /* Python */        \
  ROW(HTML_DEC, quoted, NULL, .xml = true, .quot = "&#34;", .apos = "&#39;")   /* Go */            \
  ROW(SHELL, quoted, NULL, .apos = "'\\''")          /* bash's `set -x` */                         \
  ROW(SHELL_DOUBLE, quoted, NULL, .apos = "'\"'\"'") /* dash, shlex.quote of Python */             \
  ROW(HEX, hex_bytes, NULL)                                                                        \
  ROW(HEX_UPPER, hex_bytes, NULL, .upper = true)

#define SECRET_FORM_NAME(NAME, ...) SECRET_##NAME,
enum secret_form { SECRET_FORM_ROWS(SECRET_FORM_NAME) SECRET_FORMS };
#undef SECRET_FORM_NAME

/* No form has more bytes than this for each byte of the value. */
#define SECRET_FORM_GROWTH 6

/* Adds one form of a value of at least 3 bytes. */
void secret_form_add(enum secret_form form, const char *value, size_t length, struct buffer *out);
