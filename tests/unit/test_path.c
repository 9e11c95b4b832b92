#include "agent/files/access/path.h"
#include "tests/support/quoted.h"
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

TEST(an_absolute_path_is_cleaned_up) {
  static const struct {
    const char *path, *full;
  } rows[] = {
      {"/", "/"},
      {"//", "/"},
      {"/.", "/"},
      {"/././/", "/"},
      {"/a", "/a"},
      {"/a/", "/a"},
      {"//a///b//", "/a/b"},
      {"/./a/./b/.", "/a/b"},
      {"/..", "/.."},
      {"/a/../b", "/a/../b"},
      {"/a/..", "/a/.."},
      {"/.a/b./...", "/.a/b./..."},
      {"/a\n/\xFF \"", "/a\n/\xFF \""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    check(rows[i].path, rows[i].full);
}

TREE_TEST(a_relative_path_begins_at_the_current_directory) {
  static const struct {
    const char *path, *rest;
  } rows[] = {
      {".", ""},     {"./", ""},        {"a", "/a"},   {"./a//b/.", "/a/b"},
      {"..", "/.."}, {"../a", "/../a"}, {".a", "/.a"},
  };
  char *current = getcwd(NULL, 0);
  assert_non_null(current);
  assert_int_equal(fchdir(tree->fd), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *expected = formatted("%s%s", tree->path, rows[i].rest);
    check(rows[i].path, expected);
  }
  assert_int_equal(chdir(current), 0);
  free(current);
}

TREE_TEST(without_a_current_directory_it_is_an_error) {
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

/* Errors have the full path even if it is relative. */
TREE_TEST(errors_name_the_full_path) {
  static const struct {
    const char *path, *shown; /* @ is the current directory */
  } rows[] = {
      {"src/None.cs", "@/src/None.cs"},
      {"./a//b", "@/a/b"},
      {".", "@"},
      {"/a//b/", "/a//b/"},
  };
  struct error error;
  char *current = getcwd(NULL, 0);
  assert_non_null(current);
  assert_int_equal(fchdir(tree->fd), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool is_below = rows[i].shown[0] == '@';
    assert_int_equal(path_fail(&error, AT_FDCWD, rows[i].path, "no %s", "file"), -1);
    assert_string_equal(error.text, formatted("no file: %s%s", is_below ? tree->path : "",
                                              rows[i].shown + is_below));
  }
  assert_int_equal(path_fail(&error, tree->fd, "a", "no file"), -1);
  assert_string_equal(error.text, "no file: a"); /* below another directory */
  char name[300];
  memset(name, 'x', sizeof name);
  memcpy(name + sizeof name - 12, "/Program.cs", 12);
  (void)path_fail(&error, AT_FDCWD, name, "no file");
  assert_memory_equal(error.text, formatted("no file: %s/xxx", tree->path), strlen(tree->path));
  assert_string_equal(error.text + strlen(error.text) - 14, "xxx/Program.cs");
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
