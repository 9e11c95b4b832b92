#include "agent/files/glob/glob.h"
#include "tests/test.h"

/* Returns a list with this glob, or NULL with the error. */
static struct globs *only(const char *text, struct error *error) {
  struct globs *globs = globs_new();
  if (globs_add(globs, text, error) == 0)
    return globs;
  globs_free(globs);
  return NULL;
}

static bool matches(const struct globs *globs, const char *path, size_t length, bool is_directory) {
  return globs_classify(globs, path, length, is_directory) == GLOBS_MATCH;
}

/* A "/" at the end of the path makes it a directory. */
static bool fits(const char *text, const char *path) {
  struct error error = {.text = "none"};
  struct globs *glob = only(text, &error);
  if (glob == NULL)
    fail_msg("%s: %s", text, error.text);
  assert_string_equal(error.text, "none");
  size_t length = strlen(path);
  bool is_directory = length > 0 && path[length - 1] == '/';
  bool result = matches(glob, path, length - is_directory, is_directory);
  globs_free(glob);
  return result;
}

/* Paths are separated by spaces. */
struct row {
  const char *glob, *fit, *others;
};

static void check_paths(const char *glob, const char *paths, bool expected) {
  const char *path;
  for (size_t i = 0; (path = nth_word(paths, i)) != NULL; i++)
    if (*path != '\0' && fits(glob, path) != expected)
      fail_msg("%s and %s: expected %d", glob, path, expected);
}

static void check(const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    check_paths(rows[i].glob, rows[i].fit, true);
    check_paths(rows[i].glob, rows[i].others, false);
  }
}

TEST(brackets_match_one_of_their_bytes) {
  static const struct row rows[] = {
      {"[ab]", "a b x/a", "c ab A [ab] x/ab"},
      {"[a-c]", "a b c", "d A - a-c"},
      {"[a-c0-9_]", "a c 0 5 9 _", "d - A aa"},
      {"[-a]", "- a", "b"},
      {"[a-]", "- a", "b"},
      {"[--0]", "- . 0", "1 ,"},
      {"[a-a]", "a", "b -"},
      {"[!a]", "b x/b ! \xFF .", "a aa x/a \xC3\xA9"},
      {"[^a]", "b x/b ^ \xFF", "a ab \xC3\xA9"},
      {"[!a-c]", "d -", "a b c"},
      {"[^-a]", "b", "- a"},
      {"[!!]", "a", "!"},
      {"[]]", "]", "a []]"},
      {"[]a]", "] a", "b"},
      {"[!]a]", "b", "] a"},
      {"[]-a]", "] ^ _ a", "b ["},
      {"[a]]", "a]", "a ]"},
      {"[[]", "[", "] a"},
      {"[*]", "*", "a"},
      {"[{,}]", "{ , }", "a"},
      {"[\\]]", "]", "\\ a"},
      {"[\\\\]", "\\", "a"},
      {"[a\\-c]", "a - c", "b \\"},
      {"[\\!a]", "! a", "b"},
      {"[!\\]]", "a \\", "]"},
      {"[a-\\c]", "a b c", "d \\"},
      {"[.]c", ".c", "ac"},
      {"*.[ch]", "a.c a.h x/a.h", "a.cc a.o"},
      {"[\xC3\xA9]", "\xC3 \xA9", "e \xC3\xA9"},
      {"[\xC3\xA9x][\xC3\xA9x]", "\xC3\xA9 xx", "\xC3\xAA x"},
      {"[!a][!a]", "\xC3\xA9", "a\xA9 \xC3"},
      /* A range from the last byte of one character to the first byte of the other. */
      {"[\xC3\xA9-\xC3\xAA]", "\xA9 \xAA \xB0 \xC3", "\xA8 \xC4 \xC3\xA9"},
      {"[a-\xE2\x82\xAC]", "z \xC3 \xE2 \x82 \xAC", "A \xE3 \xFF"},
      {"[\xFE-\xFF]", "\xFE \xFF", "\xFD \xC3\xBF a"},
      {"[!\xFF]", "a \xFE", "\xFF \xC3\xBF"},
      {"a[!b]c", "axc a.c", "abc a/c ac"},
      {"a/[!b]", "a/c", "a/b a/ a"},
      {"[/]", "", "a a/"},
      {"[a/]", "a", "b x/a"}, /* a glob of the whole path: it has a slash */
      {"[.-0]", ". 0", "a"},
      {"[[:alpha:]]", "a] :] l] [] p] h]", "b b] a"},
  };
  check(rows, sizeof rows / sizeof *rows);
}

TEST(braces_match_one_of_their_globs) {
  static const struct row rows[] = {
      {"{a,b}", "a b x/a x/y/b", "c ab a,b {a,b}"},
      {"{a}", "a", "{a} b"},
      {"*.{c,h}", "a.c a.h x/a.c .c", "a.cc a. a.c,h"},
      {"{a,b}{c,d}", "ac ad bc bd", "a c ab cd acd"},
      {"x{a,b}y", "xay xby", "xy xaby xa"},
      {"{,a}", "a x/a", "b aa"},
      {"a{,}b", "ab", "a b a,b"},
      {"{,}", "", "a ,"},
      {"{}", "", "a {}"},
      {"{{a,b},c}", "a b c", "d"},
      {"x{a{b,c}d,e{f,g}}y", "xabdy xacdy xefy xegy", "xady xey xafy"},
      {"{a,b{c,d{e,f}}}", "a bc bde bdf", "b bd e"},
      {"{[ab],c}d", "ad bd cd", "d ab"},
      {"{[,],a}", ", a", "b"},
      {"{[}],a}", "} a", "b"},
      {"{\\,,a}", ", a", "b \\,"},
      {"{\\},a}", "} a", "b"},
      {"{\\{,a}", "{ a", "b"},
      {"{a\\,b,c}", "a,b c", "a b"},
      {"\\{a,b\\}", "{a,b}", "a b"},
      {"{a/b,c}", "a/b c", "x/c b a x/a/b"}, /* a slash anywhere: the whole path */
      {"a/{b,c}", "a/b a/c", "b a a/b/c"},
      {"{a/,}b", "a/b b", "x/b a ab"},
      {"a{/x,}/b", "a/x/b a/b", "a/x b ab"},
      {"{**/a,b}", "a x/a x/y/a b", "x/b"},
      {"{a/**,b}", "a/x a/x/y b", "a x/b"},
      {"{a/**,b}/c", "a/c a/x/c b/c", "c x/b/c"},
      {"{**/,}a", "a x/a", "xa"},
      {"{**/,x}a", "a x/a xa y/a", "y/xa ya"},
      {"a{/**,}", "a a/b a/b/c", "b x/a"},
      {"{/a,b}", "a b", "x/a x/b"},
      {"{./a,b}", "a b", "x/a x/b"},
      {"{a/,b}", "a/ b b/", "a x/b"},
      {"{*,**}", "a x/a", ""},
      {"*{*,b}", "a b x/y", ""},
  };
  check(rows, sizeof rows / sizeof *rows);
}

TEST(a_backslash_makes_the_next_byte_literal) {
  static const struct row rows[] = {
      {"\\*", "* x/*", "a \\* \\"},
      {"\\?", "?", "a"},
      {"\\[a]", "[a]", "a"},
      {"app/\\[id\\]/page.tsx", "app/[id]/page.tsx", "app/i/page.tsx"},
      {"\\{a\\}", "{a}", "a"},
      {"\\\\", "\\", "\\\\"},
      {"a\\bc", "abc", "a\\bc"},
      {"\\a\\b", "ab", "\\a\\b"},
      {"*\\**", "* a*b", "ab"},
      {"\\**", "* *a", "a a*"},
      {"*\\*", "* a*", "a *a"},
      {"a/\\**", "a/* a/*b", "a/b a/b/c"},
      {"a\\/b", "a/b", "b ab x/a/b"},
      {"\\!a", "!a", "a"},
      {"\\#a", "#a", "a"},
      {"\\\xC3\xA9", "\xC3\xA9", "\xA9"},
      {"\\\xFF", "\xFF", "\xFE"},
  };
  check(rows, sizeof rows / sizeof *rows);
}

TEST(special_characters_of_gitignore_are_literal) {
  static const struct row rows[] = {
      {"!a", "!a x/!a", "a b"},      {"!", "!", "a"},          {"!!a", "!!a", "!a a"},
      {"!*.c", "!a.c !.c", "a.c b"}, {"#a", "#a x/#a", "a b"}, {"#*", "# #a", "a"},
      {"!/a", "!/a", "a b"},
  };
  check(rows, sizeof rows / sizeof *rows);
  assert_true(fits("a ", "a "));
  assert_false(fits("a ", "a"));
  assert_true(fits(" a", " a"));
  assert_true(fits("a b*", "x/a bc"));
  assert_false(fits("a b*", "ab"));
}

TEST(a_glob_with_a_slash_starts_at_the_root) {
  static const struct row rows[] = {
      {"/a", "a a/", "x/a b a/b"},
      {"/*.c", "a.c", "x/a.c"},
      {"./a", "a", "x/a"},
      {"./**/*.c", "a.c x/y/a.c", "a.h"},
      {"/a/b", "a/b", "x/a/b"},
      {"a/b", "a/b a/b/", "x/a/b a/b/c a b"},
      {"a.b/c-d", "a.b/c-d", "a.bc-d aXb/c-d"},
      {"../a", "", "a x/a"},
      {"a/./b", "", "a/b"},
      {"a//b", "", "a/b ab"},
      {"//a", "", "a"},
      {"/", "", "a a/ x/a"},
  };
  check(rows, sizeof rows / sizeof *rows);
}

/* '-' nothing, 'b' something below the directory, 'n' the glob names it. */
TEST(a_glob_knows_whether_it_can_match_below_a_directory) {
  static const struct {
    const char *glob, *path;
    char reach;
  } rows[] = {
      {".github/workflows/*.yml", ".github", 'n'},
      {".github/workflows/*.yml", ".github/workflows", 'n'},
      {".github/workflows/*.yml", ".github/other", '-'},
      {".github/workflows/*.yml", ".github/workflows/x.yml", '-'},
      {".github/workflows/*.yml", "x/.github", '-'},
      {".git/*", ".git", 'n'},
      {".git/*", ".git/x", '-'},
      {"/bin/*", "bin", 'n'},
      {"./bin/*", "bin", 'n'},
      {"bin/**", "bin", 'n'},
      {"bin/**", "bin/x", 'b'},
      {"bin/**", "bin/x/y", 'b'},
      {"bin/**/z", "bin/z", 'b'},
      {"**/bin/*", "bin", 'n'},
      {"**/bin/*", "a/b/bin", 'n'},
      {"**/bin/*", "bin/bin", 'n'},
      {"**/bin/*", "a/b", 'b'},
      {"**/bin/**/c", "bin/x", 'b'},
      {"**/bin", "bin", 'b'},
      {"**/*.c", "bin", 'b'},
      {"**", "bin", 'b'},
      {"*/x", "bin", 'b'},
      {"?in/x", "bin", 'b'},
      {"[b]in/x", "bin", 'b'},
      {"b*/x", "bin", 'n'},
      {"b?n/x", "bin", 'n'},
      {".*/x", ".github", 'n'},
      {"\\*/x", "*", 'n'},
      {"a/*/x", "a/bin", 'b'},
      {"a/bin/x", "a/bin", 'n'},
      {"a/bin/x", "bin", '-'},
      {"{a,bin}/x", "bin", 'n'},
      {"{bin/x,*.c}", "bin", 'n'},
      {"{bin/x,*/c}", "obj", 'b'},
      {"{bin,obj/x}", "bin", '-'},
      {"a\\/b", "a", 'n'},
      {"a[/]b/c", "a[", '-'},
      {"*.c", "bin", 'b'},
      {"bin", "bin", 'b'},
      {"/bin", "bin", '-'},
      {"bin/", "bin", 'b'},
      {"a//b", "a", 'n'},
      {"a/b", "", 'b'},
      {"", "a", '-'},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct error error;
    struct globs *glob = only(rows[i].glob, &error);
    assert_non_null(glob);
    char reach = "-bn"[globs_reach(glob, rows[i].path, strlen(rows[i].path))];
    if (reach != rows[i].reach)
      fail_msg("%s and %s: %c, not %c", rows[i].glob, rows[i].path, reach, rows[i].reach);
    globs_free(glob);
  }
}

TEST(a_bad_glob_is_rejected) {
  static const struct {
    const char *globs, *error;
  } rows[] = {
      {"[ [] [!] [^] [a\\]", "glob: no ] for the [ at offset 0"},
      {"a[b", "glob: no ] for the [ at offset 1"},
      {"[a]/x[", "glob: no ] for the [ at offset 5"},
      {"{a,[}", "glob: no ] for the [ at offset 3"},
      {"{ {a,{b} {a\\} {[}]", "glob: no } for the { at offset 0"},
      {"a{b,c", "glob: no } for the { at offset 1"},
      {"}", "glob: no { for the } at offset 0"},
      {"{a}} \\{a}", "glob: no { for the } at offset 3"},
      {"\\", "glob: nothing after the \\ at offset 0"},
      {"a/b\\", "glob: nothing after the \\ at offset 3"},
      {"\\\\\\", "glob: nothing after the \\ at offset 2"},
      {"{a,b\\", "glob: nothing after the \\ at offset 4"},
      {"[z-a]", "glob: range out of order in [z-a]"},
      {"{a,[!z-a]}", "glob: range out of order in [!z-a]"},
      {"[\xC3\xA9-a]", "glob: range out of order in [\xC3\xA9-a]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *text;
    for (size_t k = 0; (text = nth_word(rows[i].globs, k)) != NULL; k++) {
      struct error error = {.text = "none"};
      if (only(text, &error) != NULL || strcmp(error.text, rows[i].error) != 0)
        fail_msg("%s: %s", text, error.text);
    }
  }
}

/* Returns `unit` repeated `times` times, followed by `end`. */
static char *repeat(const char *unit, size_t times, const char *end) {
  size_t length = strlen(unit);
  char *text = malloc(length * times + strlen(end) + 1);
  assert_non_null(text);
  for (size_t i = 0; i < times; i++)
    memcpy(text + i * length, unit, length);
  memcpy(text + length * times, end, strlen(end) + 1);
  return text;
}

static void expect_rejected(char *text, const char *why) {
  struct error error;
  assert_null(only(text, &error));
  assert_string_equal(error.text, why);
  free(text);
}

static void expect_fits(char *text, const char *path, bool expected) {
  assert_int_equal(fits(text, path), expected);
  free(text);
}

TEST(braces_expand_up_to_the_limit) {
  static const char why[] = "glob: its braces expand to more than 16384 bytes";
  /* 2 to the 10th times 11 bytes, and 2 to the 11th times 12. */
  expect_fits(repeat("{a,b}", 10, ""), "abababbbba", true);
  expect_fits(repeat("{a,b}", 10, ""), "abababbbbc", false);
  expect_rejected(repeat("{a,b}", 11, ""), why);
  expect_rejected(repeat("{a,b}", 800, ""), why);
  expect_rejected(repeat("{{a,b},{c,d}}", 300, ""), why);
  /* The limit is exact: 16 texts, each with its NUL. */
  char *least = repeat("{,,,,,,,,,,,,,,,", 1, "bbbbbbbbbbbbbbbb}");
  char *tail = repeat("a", 1022, "");
  expect_fits(repeat(least, 1, tail), tail, true);
  least[strlen(least) - 1] = 'b';
  char *more = repeat(least, 1, "}");
  expect_rejected(repeat(more, 1, tail), why);
  free(more);
  free(tail);
  free(least);
  /* Braces that expand to little may be many and deep. */
  expect_fits(repeat("{}", GLOB_LENGTH_MAX / 2 - 1, "a"), "a", true);
  char *nested = repeat("{", GLOB_LENGTH_MAX / 2 - 1, "");
  char *closed = repeat("}", GLOB_LENGTH_MAX / 2 - 1, "");
  char *both = repeat(nested, 1, closed);
  char *named = repeat(both, 1, "a");
  expect_fits(named, "a", true);
  expect_rejected(repeat("{", GLOB_LENGTH_MAX, ""), "glob: no } for the { at offset 0");
  expect_rejected(repeat("[", GLOB_LENGTH_MAX, ""), "glob: no ] for the [ at offset 0");
  free(both);
  free(closed);
  free(nested);
}

/* If each star could backtrack, these would not end. */
TEST(the_worst_globs_take_bounded_time) {
  char *name = repeat("a", 4095, "");
  expect_fits(repeat("*a", 30, "*b"), name, false);
  expect_fits(repeat("*a", 1500, "*"), name, true);
  expect_fits(repeat("*a", 1500, "*[b]"), name, false);
  expect_fits(repeat("?*", 1500, "[b]"), name, false);
  free(name);
  char *path = repeat("a/", 2047, "a");
  expect_fits(repeat("**/a/", 30, "b"), path, false);
  expect_fits(repeat("**/a/", 700, "[b]"), path, false);
  expect_fits(repeat("**/a/", 700, "a"), path, true);
  expect_fits(repeat("**/*a*/", 500, "[b]"), path, false);
  struct error error;
  char *text = repeat("**/*a*/", 500, "[b]");
  struct globs *glob = only(text, &error);
  assert_non_null(glob);
  assert_int_equal(globs_reach(glob, path, 4095), GLOBS_BELOW);
  globs_free(glob);
  free(text);
  free(path);
}
