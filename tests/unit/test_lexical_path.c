#include <stdlib.h>

#include "agent/files/access/lexical_path.h"
#include "tests/test.h"

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
    char *full = lexical_path_new(rows[i].directory, rows[i].path);
    assert_string_equal(full, rows[i].full);
    free(full);
  }
}

TEST(a_path_is_below_a_directory_by_its_text) {
  assert_string_equal(lexical_path_below("/a/b/c", "/a"), "b/c");
  assert_string_equal(lexical_path_below("/a", "/a"), "");
  assert_string_equal(lexical_path_below("/a/b", "/"), "a/b");
  assert_string_equal(lexical_path_below("/", "/"), "");
  assert_null(lexical_path_below("/ab", "/a"));
  assert_null(lexical_path_below("/", "/a"));
}
