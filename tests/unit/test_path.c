#include "agent/files/access/path.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static void check(const char *path, const char *expected) {
  struct error error = {.text = "none"};
  char *full = path_full(path, &error);
  assert_non_null(full);
  assert_string_equal(error.text, "none");
  assert_string_equal(full, expected);
  free(full);
}

TREE_TEST(a_relative_path_needs_a_current_directory) {
  char *current = getcwd(NULL, 0);
  assert_non_null(current);
  tree_make_directory(tree, "gone", 0700);
  int gone = tree_open(tree, "gone");
  assert_int_equal(fchdir(gone), 0);
  close(gone);
  assert_int_equal(unlinkat(tree->fd, "gone", AT_REMOVEDIR), 0);
  struct error error = {.text = ""};
  assert_null(path_full("a", &error));
  assert_string_equal(error.text, "no current directory (No such file or directory) for: a");
  check("/a", "/a");
  assert_int_equal(chdir(current), 0);
  free(current);
}

TEST(a_path_is_made_absolute_by_its_text) {
  static const struct {
    const char *directory, *path, *full;
  } rows[] = {
      {"/work", "a", "/work/a"},
      {"/work", ".", "/work"},
      {"/work/", "a/", "/work/a"},
      {"/work", "/a//b/", "/a/b"},
      {"/work", "../a", "/a"},
      {"/work", "a/./b/..", "/work/a"},
      {"/", "a", "/a"},
      {"/", ".", "/"},
      {"/work", "../../..", "/"},
      {"/a/../b", "c", "/b/c"},
      {"/work", "..a/b..", "/work/..a/b.."},
      {"/work", "", "/work"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *full = path_lexical(rows[i].directory, rows[i].path);
    assert_string_equal(full, rows[i].full);
    free(full);
  }
}

TEST(a_path_is_below_a_directory_by_its_text) {
  assert_string_equal(path_below("/a/b/c", "/a"), "b/c");
  assert_string_equal(path_below("/a", "/a"), "");
  assert_string_equal(path_below("/a/b", "/"), "a/b");
  assert_string_equal(path_below("/", "/"), "");
  assert_null(path_below("/ab", "/a"));
  assert_null(path_below("/", "/a"));
}
