#include "agent/files/glob/glob.h"
#include "agent/files/glob/glob_text.h"
#include "tests/test.h"

TEST(escapes_and_brackets_are_units) {
  static const struct {
    const char *text;
    size_t unit;
  } rows[] = {
      {"a", 1},       {"ab", 1},     {"*", 1},    {"{a}", 1},   {"]", 1},     {"\xC3\xA9", 1},
      {"\\a", 2},     {"\\\\a", 2},  {"\\", 0},   {"[a]", 3},   {"[a]b", 3},  {"[]]", 3},
      {"[]a]b", 4},   {"[!]]", 4},   {"[^]]", 4}, {"[!a]", 4},  {"[\\]]", 4}, {"[\\\\]", 4},
      {"[a\\]b]", 6}, {"[{,}]x", 5}, {"[[]", 3},  {"[", 0},     {"[a", 0},    {"[]", 0},
      {"[!]", 0},     {"[a\\]", 0},  {"[a\\", 0}, {"[a-z]", 5},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_int_equal(glob_text_unit(rows[i].text), rows[i].unit);
}

/* The texts with a space between them. */
static void expect(const char *text, const char *expected) {
  struct error error = {.text = "none"};
  struct glob_texts texts;
  assert_int_equal(glob_text_check(text, &error), 0);
  assert_int_equal(glob_text_expand(text, &texts, &error), 0);
  assert_string_equal(error.text, "none");
  assert_true(texts.length > 0);
  assert_int_equal(texts.text[texts.length - 1], '\0');
  for (size_t i = 0; i + 1 < texts.length; i++)
    if (texts.text[i] == '\0')
      texts.text[i] = ' ';
  assert_string_equal(texts.text, expected);
  free(texts.text);
}

TEST(braces_are_expanded_in_order) {
  static const struct {
    const char *text, *texts;
  } rows[] = {
      {"", ""},
      {"a", "a"},
      {"{a}", "a"},
      {"{}", ""},
      {"{a,b}", "a b"},
      {"{b,a,b}", "b a b"},
      {"x{a,b}y", "xay xby"},
      {"{a,b}{c,d}", "ac ad bc bd"},
      {"{a,{b,c}d}e", "ae bde cde"},
      {"{{a,b},c}", "a b c"},
      {"{,a}", " a"},
      {"a{,}b", "ab ab"},
      {"{a\\,b,c}", "a\\,b c"},
      {"\\{a,b\\}", "\\{a,b\\}"},
      {"[{,}]{a,b}", "[{,}]a [{,}]b"},
      {"{[,],a}", "[,] a"},
      {"a,b", "a,b"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect(rows[i].text, rows[i].texts);
}

/* {,,,,,,,,,,,,,,,b…}a… stands for 16 texts, each with its NUL. */
static int expand_sixteen(size_t b, size_t a, struct glob_texts *texts, struct error *error) {
  char text[2048] = "{,,,,,,,,,,,,,,,";
  size_t at = strlen(text);
  memset(text + at, 'b', b);
  text[at + b] = '}';
  memset(text + at + b + 1, 'a', a);
  return glob_text_expand(text, texts, error);
}

TEST(braces_that_expand_too_far_are_rejected) {
  struct error error = {.text = "none"};
  struct glob_texts texts;
  assert_int_equal(expand_sixteen(16, 1022, &texts, &error), 0);
  assert_int_equal(texts.length, GLOB_EXPANDED_MAX);
  free(texts.text);
  assert_int_equal(expand_sixteen(17, 1022, &texts, &error), -1);
  assert_string_equal(error.text, "glob: its braces expand to more than 16384 bytes");
}
