#include "agent/files/glob/glob_names.h"
#include "tests/test.h"

/* Names are parted by a space. */
struct row {
  const char *text;
  const char *fit;
  const char *others;
};

static void check_names(const struct glob_names *names, const struct glob_name *name,
                        const char *words, bool expected, const char *text) {
  char *copy = strdup(words);
  assert_non_null(copy);
  char *rest = copy;
  for (char *word; (word = strsep(&rest, " ")) != NULL;)
    if (*word != '\0' && glob_names_fits(names, name, word, strlen(word)) != expected)
      fail_msg("%s and %s: expected %d", text, word, expected);
  free(copy);
}

TEST(each_of_a_store_has_its_own_names) {
  static const struct row rows[] = {
      {"main.c", "main.c", "main main.cc xmain.c mainxc"},
      {"*", "a .a ab *", ""},
      {"***.c", ".c a.c a.b.c", "a.cc c"},
      {"?\xC3\xA9*", "a\xC3\xA9 \xFF\xC3\xA9z", "\xC3\xA9 ab"},
      {"[!a-c]x", "dx \xFFx", "ax bx x"},
      {"\\*[]]", "*]", "a] *"},
      {"*a*b", "ab xaxb aab", "ba a abx"},
      {"**", "a ab", ""},
  };
  enum { COUNT = sizeof rows / sizeof *rows };
  struct glob_names names;
  struct glob_name each[COUNT];
  struct error error;
  size_t bytes = 0;
  for (size_t i = 0; i < COUNT; i++)
    bytes += strlen(rows[i].text);
  glob_names_init(&names, bytes);
  for (size_t i = 0; i < COUNT; i++)
    assert_int_equal(glob_names_add(&names, &each[i], rows[i].text, strlen(rows[i].text), &error),
                     0);
  for (size_t i = 0; i < COUNT; i++) {
    check_names(&names, &each[i], rows[i].fit, true, rows[i].text);
    check_names(&names, &each[i], rows[i].others, false, rows[i].text);
  }
  glob_names_release(&names);
}

TEST(the_text_needs_no_end) {
  struct glob_names names;
  struct glob_name name;
  struct error error;
  glob_names_init(&names, 2);
  assert_int_equal(glob_names_add(&names, &name, "a*b", 2, &error), 0);
  assert_true(glob_names_fits(&names, &name, "axb", 2));
  assert_true(glob_names_fits(&names, &name, "abx", 1));
  assert_false(glob_names_fits(&names, &name, "ba", 2));
  glob_names_release(&names);
}

TEST(what_is_empty_is_the_empty_name) {
  struct glob_names names;
  struct glob_name name;
  struct error error;
  glob_names_init(&names, 1);
  assert_int_equal(glob_names_add(&names, &name, "", 0, &error), 0);
  assert_true(glob_names_fits(&names, &name, "", 0));
  assert_false(glob_names_fits(&names, &name, "a", 1));
  assert_int_equal(glob_names_last_byte(&names, &name), -1);
  glob_names_release(&names);
}

TEST(the_last_byte_is_told_where_there_is_one) {
  static const struct {
    const char *text;
    int last;
  } rows[] = {{"*.c", 'c'},          {"a", 'a'},   {"a*", -1},     {"a?", -1}, {"[c]", -1},
              {"caf\xC3\xA9", 0xA9}, {"\\*", '*'}, {"a\xFF", 0xFF}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct glob_names names;
    struct glob_name name;
    struct error error;
    glob_names_init(&names, strlen(rows[i].text));
    assert_int_equal(glob_names_add(&names, &name, rows[i].text, strlen(rows[i].text), &error), 0);
    assert_int_equal(glob_names_last_byte(&names, &name), rows[i].last);
    glob_names_release(&names);
  }
}

TEST(a_range_that_runs_backwards_is_refused) {
  struct glob_names names;
  struct glob_name name;
  struct error error;
  glob_names_init(&names, 6);
  assert_int_equal(glob_names_add(&names, &name, "a[z-a]", 6, &error), -1);
  assert_string_equal(error.text, "glob: a range runs backwards in [z-a]");
  glob_names_release(&names);
}
