#include "agent/kinds/kind.h"
#include "tests/test.h"

struct row {
  const char *words[8];
  const char *expected;
};

/* Into memory of exactly that size, so that the sanitizer sees one byte too many. */
static char *make(const char *const *words, size_t size) {
  char *args[8] = {NULL};
  for (size_t i = 0; words[i + 1] != NULL; i++)
    args[i] = (char *)(uintptr_t)words[i + 1];
  char *out = malloc(size);
  assert_non_null(out);
  struct run_fields fields = {.args = args};
  const struct step step = {.target = (char *)(uintptr_t)words[0], .fields = &fields};
  run_kind_describe(&step, NULL, out, size);
  return out;
}

static void assert_rows(const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char *text = make(rows[i].words, 200);
    assert_string_equal(text, rows[i].expected);
    free(text);
  }
}

TEST(words_are_quoted_where_they_need_it) {
  static const struct row rows[] = {
      {{"git"}, "git"},
      {{"git", "status", "--short", "a/b.c", "x=y", "1,2", "@"},
       "git status --short a/b.c x=y 1,2 @"},
      {{"printf", ""}, "printf ''"},
      {{"echo", "a b", "tab\t", "line\n"}, "echo 'a b' 'tab\t' 'line\n'"},
      {{"my program", "$HOME", "`id`"}, "'my program' '$HOME' '`id`'"},
      {{"echo", "a;b", "a&b", "a|b", "<a", ">a"}, "echo 'a;b' 'a&b' 'a|b' '<a' '>a'"},
      {{"echo", "(a)", "*.c", "a?", "[a]", "{a,b}"}, "echo '(a)' '*.c' 'a?' '[a]' '{a,b}'"},
      {{"echo", "#a", "~", "!!", "a\\b", "\"a\""}, "echo '#a' '~' '!!' 'a\\b' '\"a\"'"},
      {{"echo", "it's", "'", "''x"}, "echo 'it'\\''s' ''\\''' ''\\'''\\''x'"},
      {{"echo", "\xE2\x82\xAC"}, "echo \xE2\x82\xAC"},
  };
  assert_rows(rows, sizeof rows / sizeof rows[0]);
}

TEST(a_shells_script_stands_for_it) {
  static const struct row rows[] = {
      {{"sh", "-c", "make && echo 'done'"}, "make && echo 'done'"},
      {{"bash", "-c", "a b", "name", "argument"}, "a b"},
      {{"/bin/sh", "-c", "x"}, "x"},
      {{"/usr/local/bin/bash", "-lc", "x y"}, "x y"},
      {{"bash", "-l", "-c", "x y"}, "x y"},
      {{"bash", "--norc", "-euxc", "x y"}, "x y"},
      {{"dash", "-ec", "x"}, "x"},
      {{"ash", "-c", "x"}, "x"},
      {{"zsh", "-c", "x"}, "x"},
      {{"ksh", "-c", ""}, ""},
  };
  assert_rows(rows, sizeof rows / sizeof rows[0]);
}

TEST(what_only_looks_like_a_script_is_none) {
  static const struct row rows[] = {
      {{"sh"}, "sh"},
      {{"sh", "-c"}, "sh -c"},
      {{"sh", "script.sh", "-c", "x"}, "sh script.sh -c x"},
      {{"bash", "--rc", "x"}, "bash --rc x"},
      {{"bash", "-", "x"}, "bash - x"},
      {{"bash", "", "-c", "x"}, "bash '' -c x"},
      {{"bash", "-x", "script", "-c", "x"}, "bash -x script -c x"},
      {{"python3", "-c", "print(1)"}, "python3 -c 'print(1)'"},
      {{"fish", "-c", "x"}, "fish -c x"},
      {{"push", "-c", "x"}, "push -c x"},
      {{"sh/", "-c", "x"}, "sh/ -c x"},
  };
  assert_rows(rows, sizeof rows / sizeof rows[0]);
}

TEST(what_does_not_fit_is_marked) {
  static const struct {
    const char *words[4];
    size_t size;
    const char *expected;
  } rows[] = {
      {{"abcdef"}, 10, "abcdef"}, /* the mark keeps its room */
      {{"abcdef"}, 9, "abcde..."},
      {{"abcdef"}, 5, "a..."},
      {{"abcdef"}, 4, "..."},
      {{"ab", "cd", "ef"}, 9, "ab cd..."},
      {{"ab", "cd", "ef"}, 7, "ab ..."},
      {{"ab", "c d"}, 10, "ab 'c ..."},
      {{"sh", "-c", "abcdef"}, 9, "abcde..."},
      /* Not within a character. */
      {{"sh", "-c", "ab\xE2\x82\xAC"}, 9, "ab\xE2\x82\xAC"},
      {{"sh", "-c", "ab\xE2\x82\xAC"}, 8, "ab..."},
      {{"sh", "-c", "ab\xE2\x82\xAC"}, 7, "ab..."},
      {{"a'b"}, 7, "'a'..."},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char *text = make(rows[i].words, rows[i].size);
    assert_string_equal(text, rows[i].expected);
    free(text);
  }
}

/* Every size, for words that need quotes of both kinds. */
TEST(it_never_leaves_the_buffer) {
  static const char *const words[] = {"it's", "a 'b' c", "''''", "\xE2\x82\xAC\xE2\x82\xAC", NULL};
  char *whole = make(words, 200);
  size_t length = strlen(whole);
  for (size_t size = 4; size < 2 * length; size++) {
    char *text = make(words, size);
    size_t shown = strlen(text);
    assert_true(shown < size);
    if (size >= length + 4) {
      assert_string_equal(text, whole);
    } else {
      assert_string_equal(text + shown - 3, "...");
      assert_memory_equal(text, whole, shown - 3);
    }
    free(text);
  }
  free(whole);
}
