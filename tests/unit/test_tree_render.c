#include <limits.h>

#include "agent/files/tree/tree_render.h"
#include "base/utf8.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* Returns the text until the next call, with a line ending behind the last line. */
static const char *draw(struct levels_found *result, const char *path, unsigned max_depth,
                        const char *const *globs) {
  static struct buffer content;
  struct error error = {.text = "none"};
  buffer_release(&content);
  assert_int_equal(tree_render_write(path, max_depth, globs, NULL, &content, result, &error), 0);
  assert_string_equal(error.text, "none");
  assert_int_not_equal(content.bytes[content.length - 1], '\n');
  buffer_add(&content, "\n", 2);
  return content.bytes;
}

/* The lines below the root's. */
static void expect(const struct tree *tree, unsigned max_depth, const char *const *globs,
                   const char *expected) {
  struct levels_found result;
  const char *text = draw(&result, tree->path, max_depth, globs);
  const char *root = formatted("%s/\n", strrchr(tree->path, '/') + 1);
  assert_memory_equal(text, root, strlen(root));
  assert_string_equal(text + strlen(root), expected);
  size_t lines = 0;
  for (const char *at = expected; *at != '\0'; at++)
    lines += *at == '\n';
  assert_int_equal(result.entries, lines);
  assert_false(result.is_cut);
}

TREE_TEST(directories_come_before_files_and_both_are_sorted) {
  tree_make(tree, "b a-b a.b a/ a/x ab B/ \xC3\xA9/ \xC3\xA9t _");
  expect(tree, 4, NULL,
         "├── B/\n"
         "├── a/\n"
         "│   └── x\n"
         "├── \xC3\xA9/\n"
         "├── _\n"
         "├── a-b\n"
         "├── a.b\n"
         "├── ab\n"
         "├── b\n"
         "└── \xC3\xA9t\n");
}

TREE_TEST(a_link_to_a_directory_has_no_content) {
  tree_make(tree, "m/ m/x f a>m m/up>.. to-f>f to-nothing>nothing loop>loop fifo| "
                  "vendor>m"); /* the last one is left out by its name */
  expect(tree, 9, NULL,
         "├── a/\n"
         "├── m/\n"
         "│   ├── up/\n"
         "│   └── x\n"
         "├── f\n"
         "├── fifo\n"
         "├── loop\n"
         "├── to-f\n"
         "└── to-nothing\n");
}

TREE_TEST(globs_are_matched_against_names) {
  static const struct {
    const char *globs[4];
    const char *expected;
  } rows[] = {
      {{"*.c"}, "├── a/\n│   └── y.h\n├── x/\n└── y.h\n"},
      {{"*.c", "*.h"}, "├── a/\n└── x/\n"},
      {{"*.{c,h}", "a"}, "└── x/\n"},
      {{"x/"}, "├── a/\n│   ├── x.c\n│   └── y.h\n├── x.c\n└── y.h\n"},
      {{"a/x.c"}, "├── a/\n│   ├── x.c\n│   └── y.h\n├── x/\n├── x.c\n└── y.h\n"}, /* no name */
      {{"**/x.c"}, "├── a/\n│   └── y.h\n├── x/\n└── y.h\n"},
      {{"/a"}, "├── x/\n├── x.c\n└── y.h\n"},
      {{""}, "├── a/\n│   ├── x.c\n│   └── y.h\n├── x/\n├── x.c\n└── y.h\n"},
      {{"*"}, ""},
  };
  tree_make(tree, "a/ a/x.c a/y.h x/ x.c y.h");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect(tree, 4, rows[i].globs, rows[i].expected);
}

TREE_TEST(control_characters_are_replaced) {
  static const struct {
    const char *name;
    const char *shown; /* # is U+FFFD */
  } rows[] = {
      {"a\nforged", "a#forged"},
      {"\n├── x", "#├── x"},
      {"\r\t\x1B[31m\x7F", "###[31m#"},
      {"\x01\x1F", "##"},
      {" \"'\\", " \"'\\"},
      {"\xFF\xFE", "##"},
      {"a\xC3(", "a#("},
      {"\xE2\x94", "#"},                   /* one that is not whole */
      {"\xED\xA0\x80", "###"},             /* a surrogate */
      {"\xC2\x80\xC2\x85\xC2\x9F", "###"}, /* C1 */
      {"\xC2\xA0\xC3\x80", "\xC2\xA0\xC3\x80"},
      {"\xE2\x80\xA8\xE2\x80\xA9", "##"},
      {"\xE2\x80\xA7\xE2\x80\xAA", "\xE2\x80\xA7\xE2\x80\xAA"},
      {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct buffer expected = {0};
    buffer_add_string(&expected, "└── ");
    for (const char *at = rows[i].shown; *at != '\0'; at++)
      buffer_add(&expected, *at == '#' ? UTF8_REPLACEMENT : at, *at == '#' ? 3 : 1);
    buffer_add(&expected, "\n", 2);
    tree_write(tree, rows[i].name, "", 0600);
    expect(tree, 4, NULL, expected.bytes);
    buffer_release(&expected);
    assert_int_equal(unlinkat(tree->fd, rows[i].name, 0), 0);
  }
  char longest[NAME_MAX + 1];
  memset(longest, '\n', NAME_MAX);
  longest[NAME_MAX] = '\0';
  tree_make_directory(tree, longest, 0700);
  struct levels_found result;
  const char *text = draw(&result, tree_path(tree, longest), 4, NULL); /* the root's name too */
  assert_int_equal(strlen(text), 3 * NAME_MAX + 2);
  assert_memory_equal(text, UTF8_REPLACEMENT, 3);
  assert_string_equal(text + 3 * NAME_MAX, "/\n");
}

TREE_TEST(the_root_has_the_last_name_of_its_path) {
  static const struct {
    const char *path, *line;
  } rows[] = {
      {"a/", "a/\n"},    {"a/b/..", "../\n"}, {"//", "/\n"},  {"link", "link/\n"}, {".", "./\n"},
      {"./a/.", "./\n"}, {"a/.//", "./\n"},   {"./", "./\n"}, {"/.", "./\n"},      {"./a", "a/\n"},
  };
  tree_make(tree, "a/ a/b/ link>a");
  char *current = getcwd(NULL, 0);
  assert_non_null(current);
  assert_int_equal(fchdir(tree->fd), 0);
  static const char *const all[] = {"*", NULL};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct levels_found result;
    assert_string_equal(draw(&result, rows[i].path, 1, all), rows[i].line);
  }
  expect(tree, 1, NULL, "├── a/\n└── link/\n");
  assert_int_equal(chdir(current), 0);
  free(current);
}

TREE_TEST(an_unreadable_directory_has_no_content) {
  assert_int_equal(fchmod(tree->fd, 0755), 0);
  tree_make_directory(tree, "closed", 0700);
  tree_make_directory(tree, "names-only", 0744);
  tree_make_directory(tree, "open", 0755);
  tree_write(tree, "closed/x", "", 0600);
  tree_make_directory(tree, "names-only/d", 0755);
  tree_write(tree, "names-only/d/x", "", 0600);
  tree_write(tree, "names-only/x", "", 0600);
  tree_write(tree, "open/x", "", 0000);
  struct levels_found result;
  assert_int_equal(seteuid(65534), 0);
  const char *text = draw(&result, tree->path, 4, NULL);
  assert_int_equal(seteuid(0), 0);
  assert_int_equal(result.unread, 2); /* closed, names-only/d */
  assert_string_equal(strchr(text, '\n'), "\n"
                                          "├── closed/\n"
                                          "├── names-only/\n"
                                          "│   ├── d/\n"
                                          "│   └── x\n"
                                          "└── open/\n"
                                          "    └── x\n");
}

static void expect_refusal(const char *path, const char *const *globs, const char *expected) {
  struct buffer content = {0};
  struct error error = {.text = ""};
  struct levels_found result;
  assert_int_equal(tree_render_write(path, 4, globs, NULL, &content, &result, &error), -1);
  assert_string_equal(error.text, expected);
  assert_int_equal(content.length, 0);
  buffer_release(&content);
}

TREE_TEST(a_bad_glob_is_named_in_the_error) {
  static const char *const wrong[] = {"*.c", "src[a", "{", NULL};
  expect_refusal(tree->path, wrong, "glob: no ] for the [ at offset 3: src[a");
  const char *many[TREE_RENDER_GLOBS_MAX + 2] = {NULL};
  for (size_t i = 0; i < TREE_RENDER_GLOBS_MAX; i++)
    many[i] = "x*";
  tree_make(tree, "x y");
  expect(tree, 4, many, "└── y\n");
  many[TREE_RENDER_GLOBS_MAX] = "y";
  expect_refusal(tree->path, many, "more than 1000 globs");
}

TREE_TEST(the_reference_directory_is_not_shown) {
  tree_make(tree, ".agentsmith/ .agentsmith/reference/ .agentsmith/reference/x/ .agentsmith/y d/ "
                  "d/.agentsmith/ d/.agentsmith/reference/");
  static const struct {
    const char *repository, *path, *text;
  } rows[] = {
      {"", "", "├── .agentsmith/\n│   └── y\n└── d/\n    └── .agentsmith/\n        └── reference/"},
      {"", ".agentsmith", "└── y"},
      {"", ".agentsmith/reference", "└── x/"},
      {"", "d", "└── .agentsmith/\n    └── reference/"},
      {"d", "d", "└── .agentsmith/"},
      {"elsewhere", ".agentsmith", "├── reference/\n│   └── x/\n└── y"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct buffer content = {0};
    struct error error;
    struct levels_found result;
    assert_int_equal(tree_render_write(tree_path(tree, rows[i].path), 4, NULL,
                                       tree_path(tree, rows[i].repository), &content, &result,
                                       &error),
                     0);
    buffer_add(&content, "", 1);
    assert_string_equal(strchr(content.bytes, '\n') + 1, rows[i].text);
    buffer_release(&content);
  }
}

/* --- the limit --- */

/* Creates directories or files `<name>0000` and so on. */
static void make_many(const struct tree *tree, const char *name, int count, bool directories) {
  for (int i = 0; i < count; i++) {
    const char *path = formatted("%s%04d", name, i);
    if (directories)
      tree_make_directory(tree, path, 0700);
    else
      tree_write(tree, path, "", 0600);
  }
}

/* Expects this text at `*at` and moves behind it. */
static void expect_next(const char **at, const char *expected) {
  assert_memory_equal(*at, expected, strlen(expected));
  *at += strlen(expected);
}

TREE_TEST(exactly_a_thousand_entries_are_not_cut) {
  make_many(tree, "f", 999, false);
  tree_make_directory(tree, "d", 0700);
  struct levels_found result;
  (void)draw(&result, tree->path, 4, NULL);
  assert_int_equal(result.entries, 1000);
  assert_false(result.is_cut);
  tree_make(tree, "d/one");
  const char *text = draw(&result, tree->path, 4, NULL);
  assert_int_equal(result.entries, 1000);
  assert_true(result.is_cut);
  static const char last[] =
      "\n└── f0998\n… [truncated at 1000 entries — narrow the root or lower max_depth]\n";
  assert_string_equal(text + strlen(text) - (sizeof last - 1), last);
  (void)draw(&result, tree->path, 1, NULL); /* deeper levels were not asked for */
  assert_false(result.is_cut);
}

/* A large directory does not hide its neighbors. */
TREE_TEST(upper_levels_come_first) {
  tree_make(tree, "a/ a/b/ b/ c");
  make_many(tree, "a/b/x", 50, false); /* on a level that is not reached */
  make_many(tree, "a/f", 600, false);
  make_many(tree, "b/f", 600, false);
  struct levels_found result;
  const char *text = draw(&result, tree->path, 4, NULL);
  const char *at = strchr(text, '\n') + 1;
  expect_next(&at, "├── a/\n│   ├── b/\n");
  for (int i = 0; i < 600; i++)
    expect_next(&at, formatted("│   %s f%04d\n", i < 599 ? "├──" : "└──", i));
  expect_next(&at, "├── b/\n");
  for (int i = 0; i < 396; i++)
    expect_next(&at, formatted("│   %s f%04d\n", i < 395 ? "├──" : "└──", i));
  expect_next(&at, "└── c\n" TREE_RENDER_CUT "\n");
  assert_int_equal(*at, '\0');
  assert_int_equal(result.entries, 1000);
}
