#ifndef BASE_SECRET_FORMS_H
#define BASE_SECRET_FORMS_H

#include <stddef.h>

#include "base/buffer.h"

/*
 * How programs print a secret value: as it is, or inside of another format. Each form is what
 * stands between the quotes of that format, so that it is found in a longer text, too. Pure.
 *
 *   struct buffer out = {0};
 *   for (enum secret_form form = 0; form < SECRET_FORMS; form++) {
 *     out.length = 0;
 *     secret_form_add(form, value, length, &out);
 *     …
 *   }
 *
 * Forms of one value are often equal: letters and digits are themselves in most of them. The
 * longest has SECRET_FORM_GROWTH bytes for one of the value.
 *
 * JSON: `"`, `\` and what is below U+0020 are always escaped, by a letter where there is one; bytes
 * that are not UTF-8 become U+FFFD (base/json_string.h). What else is escaped, and how \uXXXX is
 * written, differs between programs.
 */
enum secret_form {
  SECRET_RAW,
  SECRET_JSON,             /* JavaScript, most C and C++ libraries */
  SECRET_JSON_UPPER,       /* the same, with \u00XX in capitals */
  SECRET_JSON_ASCII,       /* what is not printable ASCII is \uXXXX: Python */
  SECRET_JSON_ASCII_UPPER, /* the same, in capitals */
  SECRET_JSON_SLASH,       /* "/" is "\/" */
  SECRET_JSON_SLASH_ASCII, /* and what is not printable ASCII is \uXXXX: PHP */
  SECRET_JSON_HTML,        /* "<", ">" and "&" are \u00xx: Go */
  SECRET_JSON_NET,         /* .NET: as JSON_ASCII_UPPER, and "&'+<>` are \u00XX */
  SECRET_JSON_GSON,        /* Gson: "<", ">", "&", "=" and "'" are \u00xx */

  SECRET_URL,       /* RFC 3986, section 2.1: all but its unreserved characters is %XX */
  SECRET_URL_LOWER, /* the same as %xx */
  SECRET_URL_PLUS,  /* and a space is "+": application/x-www-form-urlencoded */
  SECRET_URL_PLUS_LOWER,
  SECRET_URL_COMPONENT, /* "!*'()" stay, too: encodeURIComponent of ECMAScript */
  SECRET_URL_PATH,      /* "/" stays: urllib.parse.quote of Python */

  /* Base64 (RFC 4648, sections 4 and 5) of a text that has the value behind a multiple of three
   bytes,
     or behind one byte more, or two. The characters that share bits with what is around the value
     are left out, and so is the padding. */
  SECRET_BASE64_0,
  SECRET_BASE64_1,
  SECRET_BASE64_2,
  SECRET_BASE64URL_0,
  SECRET_BASE64URL_1,
  SECRET_BASE64URL_2,

  SECRET_XML,          /* `&amp; &lt; &gt; &quot; &apos;` */
  SECRET_XML_TEXT,     /* `&amp; &lt; &gt;`: between elements quotes stay */
  SECRET_HTML,         /* `&amp; &lt; &gt; &quot; &#39;` */
  SECRET_HTML_HEX,     /* `&amp; &lt; &gt; &quot; &#x27;`: Python */
  SECRET_HTML_DEC,     /* `&amp; &lt; &gt; &#34; &#39;`: Go */
  SECRET_SHELL,        /* inside of '…', where ' is '\'': what `set -x` prints */
  SECRET_SHELL_DOUBLE, /* where ' is '"'"': dash, shlex.quote of Python */
  SECRET_HEX,
  SECRET_HEX_UPPER,

  SECRET_FORMS /* how many */
};

#define SECRET_FORM_GROWTH 6

/* Adds a form of the value, which has at least 3 bytes. */
void secret_form_add(enum secret_form form, const char *value, size_t length, struct buffer *out);

#endif
