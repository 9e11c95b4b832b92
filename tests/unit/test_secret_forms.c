#include "base/secret_forms.h"
#include "tests/test.h"

static void assert_form(enum secret_form form, const char *value, const char *expected) {
  struct buffer out = {0};
  secret_form_add(form, value, strlen(value), &out);
  buffer_add(&out, "", 1);
  assert_string_equal(out.bytes, expected);
  buffer_release(&out);
}

#define AWKWARD "a\"\\/\b\n\x1b\x7f<>&+'` \xC3\xA9\xF0\x9F\x98\x80\xFF~!"

TEST(each_form_matches_the_output_of_programs) {
  static const struct {
    enum secret_form form;
    const char *value, *expected;
  } rows[] = {
      {SECRET_RAW, AWKWARD, AWKWARD},
      {SECRET_JSON, AWKWARD,
       "a\\\"\\\\/\\b\\n\\u001b\x7f<>&+'` \xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBD~!"},
      {SECRET_JSON_UPPER, AWKWARD,
       "a\\\"\\\\/\\b\\n\\u001B\x7f<>&+'` \xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBD~!"},
      {SECRET_JSON_ASCII, AWKWARD,
       "a\\\"\\\\/\\b\\n\\u001b\\u007f<>&+'` \\u00e9\\ud83d\\ude00\\ufffd~!"},
      {SECRET_JSON_ASCII_UPPER, AWKWARD,
       "a\\\"\\\\/\\b\\n\\u001B\\u007F<>&+'` \\u00E9\\uD83D\\uDE00\\uFFFD~!"},
      {SECRET_JSON_SLASH, "https://x\xC3\xA9", "https:\\/\\/x\xC3\xA9"},
      {SECRET_JSON_SLASH_ASCII, "https://x\xC3\xA9", "https:\\/\\/x\\u00e9"},
      {SECRET_JSON_HTML, "<a href=\"x\">&'\xC3\xA9",
       "\\u003ca href=\\\"x\\\"\\u003e\\u0026'\xC3\xA9"},
      {SECRET_JSON_NET, AWKWARD,
       "a\\u0022\\\\/\\b\\n\\u001B\\u007F\\u003C\\u003E\\u0026\\u002B\\u0027\\u0060 "
       "\\u00E9\\uD83D\\uDE00\\uFFFD~!"},
      {SECRET_JSON_GSON, "<a=\"'\">&\xC3\xA9",
       "\\u003ca\\u003d\\\"\\u0027\\\"\\u003e\\u0026\xC3\xA9"},
      {SECRET_URL, "p/w: \xC3\xBF+~!", "p%2Fw%3A%20%C3%BF%2B~%21"},
      {SECRET_URL_LOWER, "p/w: \xC3\xBF+~!", "p%2fw%3a%20%c3%bf%2b~%21"},
      {SECRET_URL_PLUS, "p/w: \xC3\xBF+~!", "p%2Fw%3A+%C3%BF%2B~%21"},
      {SECRET_URL_PLUS_LOWER, "p/w: \xC3\xBF+~!", "p%2fw%3a+%c3%bf%2b~%21"},
      {SECRET_URL_COMPONENT, "p/w: (!*')-", "p%2Fw%3A%20(!*')-"},
      {SECRET_URL_PATH, "p/w: !", "p/w%3A%20%21"},
      {SECRET_BASE64_0, "pass?>word", "cGFzcz8+d29yZ"}, /* of "cGFzcz8+d29yZA==" */
      {SECRET_BASE64URL_0, "pass?>word", "cGFzcz8-d29yZ"},
      {SECRET_XML, "<&>\"'", "&lt;&amp;&gt;&quot;&apos;"},
      {SECRET_XML_TEXT, "<&>\"'", "&lt;&amp;&gt;\"'"},
      {SECRET_HTML, "<&>\"'", "&lt;&amp;&gt;&quot;&#39;"},
      {SECRET_HTML_HEX, "<&>\"'", "&lt;&amp;&gt;&quot;&#x27;"},
      {SECRET_HTML_DEC, "<&>\"'", "&lt;&amp;&gt;&#34;&#39;"},
      {SECRET_SHELL, "it's", "it'\\''s"},
      {SECRET_SHELL_DOUBLE, "it's", "it'\"'\"'s"},
      {SECRET_HEX, "J\x01\xAB", "4a01ab"},
      {SECRET_HEX_UPPER, "J\x01\xAB", "4A01AB"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_form(rows[i].form, rows[i].value, rows[i].expected);
}

/* A value at any place of a longer text has the form for that place. */
TEST(base64_is_found_between_any_other_bytes) {
  static const enum secret_form forms[] = {SECRET_BASE64_0, SECRET_BASE64_1, SECRET_BASE64_2};
  const char *value = "\xFBs3\xFF-v\xFA";
  for (size_t before = 0; before < 9; before++)
    for (size_t after = 0; after < 4; after++) {
      struct buffer text = {0}, encoded = {0}, form = {0};
      for (size_t i = 0; i < before; i++)
        buffer_add(&text, i % 2 == 0 ? "\xFF" : "\0", 1);
      buffer_add_string(&text, value);
      buffer_add(&text, "\xFF\xFF\xFF\xFF", after);
      buffer_add_base64(&encoded, text.bytes, text.length);
      secret_form_add(forms[before % 3], value, strlen(value), &form);
      assert_true(form.length >= strlen(value) * 8 / 6 - 1);
      assert_non_null(memmem(encoded.bytes, encoded.length, form.bytes, form.length));
      buffer_release(&text);
      buffer_release(&encoded);
      buffer_release(&form);
    }
}

TEST(no_form_is_longer_than_the_header_says) {
  for (enum secret_form form = 0; form < SECRET_FORMS; form++)
    for (unsigned byte = 1; byte < 256; byte++) {
      char value[8];
      memset(value, (int)byte, sizeof value);
      struct buffer out = {0};
      secret_form_add(form, value, sizeof value, &out);
      assert_true(out.length <= SECRET_FORM_GROWTH * sizeof value);
      buffer_release(&out);
    }
}
