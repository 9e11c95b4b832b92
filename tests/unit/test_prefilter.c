#include "agent/files/grep/prefilter.h"
#include "tests/support/quoted.h"
#include "tests/test.h"

/* The literals parted by spaces, those in either case in front of a "~"; "" when none is known. */
static const char *literals_of(const char *pattern, char out[1024]) {
  struct prefilter shape;
  prefilter_read(&shape, pattern);
  size_t length = 0;
  out[0] = '\0';
  for (size_t i = 0; i < shape.literal_count; i++) {
    const struct byte_literal *one = &shape.literals[i];
    assert_in_range(one->length, 2, MEMSCAN_LITERAL_MAX);
    bool folds = false;
    for (size_t k = 0; k < one->length; k++)
      folds |= one->folds[k] != 0;
    length += (size_t)snprintf(out + length, 1024 - length, "%s%.*s%s", i > 0 ? " " : "",
                               (int)one->length, (const char *)one->bytes, folds ? "~" : "");
  }
  return out;
}

/* The first is empty; of one byte there are too many lines. */
static const struct {
  const char *patterns, *literals;
} in_every_match[] = {
    {" a foo|b foo| foo|\\w+ fo{1 (?=abc)x [abc [[.a.]bc]def [[:x]def]abc [\\Qabc]\\E]def "
     "(?i)n\xC3\xA9 (?<a>abc)\\1 (?<a>abc)\\k<a> (abc)(?1) (abc|(?R)) (?(1)abc|def) "
     "(*UTF)abc abc(*ACCEPT) \\Qabc\\E \\x41bcd ab\\ncd ab\ncd \\p{Luabc abc\\ (abc abc) "
     "*abc aa|bb|cc|dd|ee|ff|gg|hh|ii|jj|kk|ll|mm|nn|oo|pp|qq",
     ""},
    {"word (?-i)word", "word"},
    {"n\xC3\xA9", "n\xC3\xA9"},
    {"foo|bar", "foo bar"},
    {"TODO|FIXME|HACK", "TODO FIXME HACK"},
    {"\\b\\w+Exception\\b", "Exception"},
    {"a\\.b\\(", "a.b("},
    {"a\\tb", "a\tb"},
    {"class\\s+\\w+Controller", "Controller"},
    {"get(Name|Value)", "Name Value"},
    {"setting(?:s|\\w)", "setting"},
    {"(get|set)Value", "Value"},
    {"(?P<kind>class) (?'kind'class) (class){1,2}abc (class)+abc", "class"},
    {"(?|class|enum)", "class enum"},
    {"(class)?abc (class){0,2}abc n\xC3\xA9?abc a\\bbc (?>abc) (?s-m:abc) \\p{Lu}abc\\pN", "abc"},
    {"colou?r", "colo"},
    {"ab*cd ab{0}cd ab{,3}cd", "cd"},
    {"abc*d ab+cd", "ab"},
    {"ab{2}cde (x|(?i)ab)cde", "cde"},
    {"a{x}b", "a{x}b"},
    {"^#include$", "#include"},
    {"(?=abc)wxyz", "wxyz"},
    {"(?!abcd)xyz (?<=abcd)xyz (?<!abcd)xyz", "xyz"},
    {"[a]bcd[e]", "bcd"},
    {"[]abc]def [^]abc]def [[:alpha:]abc]def [\\]abc]def", "def"},
    {"(?i)word (?i)WORD", "word~"},
    {"(?i)class", "cla~"},
    {"(?i)kissed", "ed~"},
    {"(?i:ab)CD", "ab~"},
    {"(?i)ab(?-i)CDE", "abCDE~"},
    {"abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz012345"},
    {"aa|bb|cc|dd|ee|ff|gg|hh|ii|jj|kk|ll|mm|nn|oo|pp",
     "aa bb cc dd ee ff gg hh ii jj kk ll mm nn oo pp"},
};

static void expect_literals(const char *pattern, const char *expected) {
  char out[1024];
  if (strcmp(literals_of(pattern, out), expected) != 0)
    fail_msg("%s: \"%s\", not \"%s\"", pattern, out, expected);
}

TEST(every_match_contains_a_literal) {
  const char *pattern;
  for (size_t i = 0; i < sizeof in_every_match / sizeof *in_every_match; i++)
    for (size_t k = 0; (pattern = nth_word(in_every_match[i].patterns, k)) != NULL; k++)
      expect_literals(pattern, in_every_match[i].literals);
  expect_literals("(?<kind>class|struct) x", "class struct");
  expect_literals("ab{ 0, 2 }cd", "cd");
  expect_literals("if {x", "if {x");
  expect_literals("(?x)a b c", "");
  expect_literals("(?#a comment)abc", "");
}

TEST(a_long_literal_is_split) {
  char pattern[200] = "(?:x|";
  memset(pattern + 5, 'a', 100);
  char out[1024];
  assert_string_equal(literals_of(pattern, out), "");
  memmove(pattern, pattern + 5, strlen(pattern + 5) + 1);
  assert_int_equal(strlen(literals_of(pattern, out)), MEMSCAN_LITERAL_MAX);
}

static void expect_local(const char *patterns, bool expected) {
  const char *pattern;
  for (size_t i = 0; (pattern = nth_word(patterns, i)) != NULL; i++) {
    struct prefilter shape;
    prefilter_read(&shape, pattern);
    if (shape.is_local != expected)
      fail_msg("%s", pattern);
  }
}

/* The first is empty; of the others, some match over any number of lines. */
TEST(a_local_pattern_does_not_depend_on_other_lines) {
  expect_local(" ^\\s*\\w+\\b$ a|b.* (?i)a(?:b|c)* [a-z]+[^a-z]x [^\\n]+x [^\\s;]+ \\p{L}+\\p{Nd}* "
               "(?=a)b (?<!a)b (?>a+)b a++b",
               true);
  expect_local(
      "[^a-z]+x [\\s\\S]*x \\D+x \\P{L}+x \\p{Any}+x (?s).*x (\\w+\\s)+x ([^a-z])+x "
      "(?<!a)b(?!\\W) (?<!\\s)b (?>a\\s)b \\s++b \\W*+b \\s{2}+b \\Aa a\\z a\\Z \\Ga a\\Kb "
      "\\X \\R (?-m)^a (a)\\1 (a)?(?(1)b) (*NO_JIT)a (?R)?",
      false);
}

TEST(groups_may_be_deep) {
  char pattern[2000] = "";
  char out[1024];
  for (int depth = 0; depth < 40; depth++)
    strcat(pattern, "(");
  strcat(pattern, "abc");
  for (int depth = 0; depth < 40; depth++)
    strcat(pattern, ")");
  assert_string_equal(literals_of(pattern, out), "abc");
  memset(pattern, '(', sizeof pattern - 1);
  assert_string_equal(literals_of(pattern, out), "");
}
