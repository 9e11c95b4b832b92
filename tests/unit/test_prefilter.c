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

static const struct {
  const char *pattern, *literals;
} in_every_match[] = {
    {"", ""},
    {"a", ""}, /* one byte is in too many lines */
    {"word", "word"},
    {"n\xC3\xA9", "n\xC3\xA9"},
    {"foo|bar", "foo bar"},
    {"foo|b", ""},
    {"foo|", ""},
    {"foo|\\w+", ""},
    {"TODO|FIXME|HACK", "TODO FIXME HACK"},
    {"\\b\\w+Exception\\b", "Exception"},
    {"a\\.b\\(", "a.b("},
    {"a\\tb", "a\tb"},
    {"class\\s+\\w+Controller", "Controller"},
    {"get(Name|Value)", "Name Value"},
    {"setting(?:s|\\w)", "setting"},
    {"(get|set)Value", "Value"},
    {"(?<kind>class|struct) x", "class struct"},
    {"(?P<kind>class)", "class"},
    {"(?'kind'class)", "class"},
    {"(?|class|enum)", "class enum"},
    {"(class)?abc", "abc"},
    {"(class){0,2}abc", "abc"},
    {"(class){1,2}abc", "class"},
    {"(class)+abc", "class"},
    {"colou?r", "colo"},
    {"ab*cd", "cd"},
    {"abc*d", "ab"},
    {"ab+cd", "ab"},
    {"ab{2}cde", "cde"},
    {"ab{0}cd", "cd"},
    {"ab{,3}cd", "cd"},
    {"ab{ 0, 2 }cd", "cd"},
    {"n\xC3\xA9?abc", "abc"},
    {"if {x", "if {x"},
    {"a{x}b", "a{x}b"},
    {"fo{1", ""},
    {"^#include$", "#include"},
    {"a\\bbc", "abc"},
    {"(?=abc)x", ""},
    {"(?=abc)wxyz", "wxyz"},
    {"(?!abcd)xyz", "xyz"},
    {"(?<=abcd)xyz", "xyz"},
    {"(?<!abcd)xyz", "xyz"},
    {"(?>abc)", "abc"},
    {"[a]bcd[e]", "bcd"},
    {"[]abc]def", "def"},
    {"[^]abc]def", "def"},
    {"[[:alpha:]abc]def", "def"},
    {"[\\]abc]def", "def"},
    {"[abc", ""},
    {"[[.a.]bc]def", ""},
    {"[[:x]def]abc", ""},
    {"[\\Qabc]\\E]def", ""},
    {"(?i)word", "word~"},
    {"(?i)WORD", "word~"},
    {"(?i)class", "cla~"},
    {"(?i)kissed", "ed~"},
    {"(?i)n\xC3\xA9", ""},
    {"(?i:ab)CD", "ab~"},
    {"(?i)ab(?-i)CDE", "abCDE~"},
    {"(?-i)word", "word"},
    {"(x|(?i)ab)cde", "cde"},
    {"(?s-m:abc)", "abc"},
    {"(?x)a b c", ""},
    {"(?#a comment)abc", ""},
    {"(?<a>abc)\\1", ""},
    {"(?<a>abc)\\k<a>", ""},
    {"(abc)(?1)", ""},
    {"(abc|(?R))", ""},
    {"(?(1)abc|def)", ""},
    {"(*UTF)abc", ""},
    {"abc(*ACCEPT)", ""},
    {"\\Qabc\\E", ""},
    {"\\x41bcd", ""},
    {"ab\\ncd", ""},
    {"ab\ncd", ""},
    {"\\p{Lu}abc\\pN", "abc"},
    {"\\p{Luabc", ""},
    {"abc\\", ""},
    {"(abc", ""},
    {"abc)", ""},
    {"*abc", ""},
    {"abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz012345"},
    {"aa|bb|cc|dd|ee|ff|gg|hh|ii|jj|kk|ll|mm|nn|oo|pp",
     "aa bb cc dd ee ff gg hh ii jj kk ll mm nn oo pp"},
    {"aa|bb|cc|dd|ee|ff|gg|hh|ii|jj|kk|ll|mm|nn|oo|pp|qq", ""},
};

TEST(every_match_contains_a_literal) {
  char out[1024];
  for (size_t i = 0; i < sizeof in_every_match / sizeof *in_every_match; i++)
    if (strcmp(literals_of(in_every_match[i].pattern, out), in_every_match[i].literals) != 0)
      fail_msg("%s: \"%s\", not \"%s\"", in_every_match[i].pattern, out,
               in_every_match[i].literals);
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
