#ifndef BASE_SECRET_FORMS_H
#define BASE_SECRET_FORMS_H

#include <stddef.h>

#include "base/buffer.h"

/*
 * The forms in which programs print a secret value: unchanged, or within another format. A form is
 * what stands between the quotes of that format, so that it is also found in a longer text. Pure.
 *
 *   struct buffer out = {0};
 *   for (enum secret_form form = 0; form < SECRET_FORMS; form++) {
 *     out.length = 0;
 *     secret_form_add(form, value, length, &out);
 *     …
 *   }
 *
 * Many forms of one value are equal, because letters and digits rarely change. No form has more
 * than SECRET_FORM_GROWTH bytes for each byte of the value.
 *
 * JSON always escapes `"`, `\` and characters below U+0020, with a letter if there is one, and has
 * U+FFFD for bytes that are not UTF-8 (json_string.h). Programs differ in what else they escape and
 * in how they write \uXXXX.
 */
enum secret_form {
  SECRET_RAW,
  SECRET_JSON,             /* JavaScript, most C and C++ libraries */
  SECRET_JSON_UPPER,       /* the same, with capitals in \u00XX */
  SECRET_JSON_ASCII,       /* Python: everything but printable ASCII is \uXXXX */
  SECRET_JSON_ASCII_UPPER, /* the same, with capitals */
  SECRET_JSON_SLASH,       /* "/" is "\/" */
  SECRET_JSON_SLASH_ASCII, /* PHP: the same, and everything but printable ASCII is \uXXXX */
  SECRET_JSON_HTML,        /* Go: "<", ">" and "&" are \u00xx */
  SECRET_JSON_NET,         /* .NET: like JSON_ASCII_UPPER, and "&'+<>` are \u00XX */
  SECRET_JSON_GSON,        /* Gson: "<", ">", "&", "=" and "'" are \u00xx */

  SECRET_URL,       /* RFC 3986, section 2.1: everything but unreserved characters is %XX */
  SECRET_URL_LOWER, /* the same with %xx */
  SECRET_URL_PLUS,  /* application/x-www-form-urlencoded: a space is "+" */
  SECRET_URL_PLUS_LOWER,
  SECRET_URL_COMPONENT, /* encodeURIComponent of ECMAScript: "!*'()" are kept */
  SECRET_URL_PATH,      /* urllib.parse.quote of Python: "/" is kept */

  /* Base64 (RFC 4648, sections 4 and 5) of a longer text, in which the value begins at a multiple
     of three bytes, or one or two bytes later. The padding and the characters that share bits with
     the rest of the text are omitted. */
  SECRET_BASE64_0,
  SECRET_BASE64_1,
  SECRET_BASE64_2,
  SECRET_BASE64URL_0,
  SECRET_BASE64URL_1,
  SECRET_BASE64URL_2,

  SECRET_XML,          /* `&amp; &lt; &gt; &quot; &apos;` */
  SECRET_XML_TEXT,     /* `&amp; &lt; &gt;`, between elements */
  SECRET_HTML,         /* `&amp; &lt; &gt; &quot; &#39;` */
  SECRET_HTML_HEX,     /* `&amp; &lt; &gt; &quot; &#x27;`: Python */
  SECRET_HTML_DEC,     /* `&amp; &lt; &gt; &#34; &#39;`: Go */
  SECRET_SHELL,        /* within '…', where ' is '\'': bash's `set -x` */
  SECRET_SHELL_DOUBLE, /* within '…', where ' is '"'"': dash, shlex.quote of Python */
  SECRET_HEX,
  SECRET_HEX_UPPER,

  SECRET_FORMS /* the number of forms */
};

#define SECRET_FORM_GROWTH 6

/* Adds one form of a value of at least 3 bytes. */
void secret_form_add(enum secret_form form, const char *value, size_t length, struct buffer *out);

#endif
