/* Which files a search skips below its root because of ignore files, hidden names, globs and the
   reference directory. test_search_ripgrep.c compares the search with ripgrep. This file tests the
   rules one by one, including those that ripgrep does not have. */

#include <cjson/cJSON.h>

#include "agent/files/grep/search.h"
#include "tests/support/as_user.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static struct search_result last;

/* Returns the names of the files found in the repository "w", each with a space behind it. */
static const char *names(const struct tree *tree, struct search search) {
  static char text[2048];
  struct buffer content = {0};
  struct error error;
  search.path = tree_path(tree, search.path == NULL ? "w" : search.path);
  search.repository = tree_path(tree, "w");
  search.home = tree_path(tree, "home");
  search.pattern = "yes";
  search.head_limit = 1000;
  search.output = SEARCH_FILES;
  if (search_run(&search, &content, &last, &error) != 0)
    fail_msg("%s", error.text);
  cJSON *array = cJSON_ParseWithLength(content.bytes, content.length);
  const cJSON *entry;
  text[0] = '\0';
  cJSON_ArrayForEach(entry, array) {
    strcat(text, cJSON_GetStringValue(cJSON_GetObjectItem(entry, "path")));
    strcat(text, " ");
  }
  cJSON_Delete(array);
  buffer_release(&content);
  return text;
}

#define EXPECT(TREE, NAMES, ...)                                                                   \
  assert_string_equal(names(TREE, (struct search){__VA_ARGS__}), NAMES)
#define EXPECT_VISIBLE(TREE, NAMES, ...) EXPECT(TREE, NAMES, .respects_ignores = true, __VA_ARGS__)

static void expect_hidden(size_t directories, size_t files) {
  assert_int_equal(last.hidden_directories, directories);
  assert_int_equal(last.hidden_files, files);
}

TREE_TEST(the_files_of_git_count_only_in_a_repository) {
  tree_make(tree,
            "home/ home/.config/ home/.config/git/ w/ w/a=yes w/b=yes w/c=yes w/d=yes w/e=yes");
  tree_write(tree, "w/.gitignore", "a\n", 0600);
  tree_write(tree, "home/.config/git/ignore", "/b\n", 0600);
  tree_write(tree, ".ignore", "c\n", 0600);
  tree_write(tree, "w/.rgignore", "d\n", 0600);
  EXPECT_VISIBLE(tree, "a b e ", .path = NULL);
  tree_make(tree, "w/.git/ w/.git/info/");
  tree_write(tree, "w/.git/info/exclude", "e\n", 0600);
  EXPECT_VISIBLE(tree, "", .path = NULL);
  expect_hidden(0, 7);
}

/* Without a `commondir` it is a submodule; a relative path begins at the file. */
TREE_TEST(the_exclude_file_of_a_submodule_counts) {
  tree_make(tree, "home/ w/ w/a=yes w/b=yes g/ g/info/ w/.git=gitdir:");
  tree_write(tree, "w/.git", "gitdir: ../g\n", 0600);
  tree_write(tree, "g/info/exclude", "a\n", 0600);
  EXPECT_VISIBLE(tree, "b ", .path = NULL);
  tree_make(tree, "h/ h/info/");
  tree_write(tree, "h/info/exclude", "b\n", 0600);
  tree_write(tree, "g/commondir", "../h\n", 0600);
  EXPECT_VISIBLE(tree, "a ", .path = NULL);
}

TREE_TEST(an_ignore_file_that_cannot_be_used_hides_nothing_and_is_counted) {
  tree_make(tree, "home/ w/ w/a=yes w/d/ w/d/a=yes w/e/ w/e/.ignore/ w/f/ w/f/.ignore|");
  char *text = malloc(600001);
  assert_non_null(text);
  memset(text, '\n', 600000);
  text[600000] = '\0';
  memcpy(text, "a\n", 2);
  tree_write(tree, "w/d/.ignore", text, 0600);
  free(text);
  EXPECT_VISIBLE(tree, "a d/a ", .path = NULL);
  assert_int_equal(last.unused_ignores.count, 1);
  assert_string_equal(last.unused_ignores.first.text, tree_path(tree, "w/d/.ignore"));
  assert_int_equal(rename(tree_path(tree, "w/d/.ignore"), tree_path(tree, "w/large")), 0);
  tree_make(tree, "w/.git/ w/.git/info/");
  assert_int_equal(rename(tree_path(tree, "w/large"), tree_path(tree, "w/.git/info/exclude")), 0);
  EXPECT_VISIBLE(tree, "a d/a ", .path = NULL);
  assert_int_equal(last.unused_ignores.count, 1);
  assert_string_equal(last.unused_ignores.first.text, tree_path(tree, "w/.git/info/exclude"));
}

static int search_as_nobody(void *context, struct error *error) {
  (void)names(context, (struct search){.respects_ignores = true});
  return last.unused_ignores.count > 0 ? error_set(error, "%s", last.unused_ignores.first.text) : 0;
}

/* Like a HOME of another user. */
TREE_TEST(a_directory_without_access_has_no_ignore_file) {
  struct error error = {.text = ""};
  tree_make(tree, "home/ w/ w/.git/ w/a=yes");
  assert_int_equal(chmod(tree_path(tree, "."), 0755), 0);
  assert_int_equal(chmod(tree_path(tree, "w"), 0755), 0);
  assert_int_equal(chmod(tree_path(tree, "home"), 0700), 0);
  (void)as_user(NOBODY, NOBODY, search_as_nobody, tree, &error);
  assert_string_equal(error.text, "");
}

TREE_TEST(the_reference_directory_is_left_out_unless_the_search_begins_in_it) {
  tree_make(tree,
            "home/ w/ w/.agentsmith/ w/.agentsmith/a=yes w/.agentsmith/reference/ "
            "w/.agentsmith/reference/x=yes w/.agentsmith/reference/s/ "
            "w/.agentsmith/reference/s/y=yes w/.agentsmith/references=yes w/d/ w/d/.agentsmith/ "
            "w/d/.agentsmith/reference/ w/d/.agentsmith/reference/z=yes");
  static const char elsewhere[] = ".agentsmith/a .agentsmith/references d/.agentsmith/reference/z ";
  EXPECT(tree, elsewhere, .path = NULL);
  EXPECT(tree, elsewhere, .path = "w/.agentsmith/..//d/..");
  EXPECT(tree, "a references ", .path = "w/.agentsmith");
  EXPECT(tree, "s/y x ", .path = "w/.agentsmith/reference");
  EXPECT(tree, "s/y x ", .path = "w/.agentsmith/reference/");
  EXPECT(tree, "y ", .path = "w/.agentsmith/reference/s");
  EXPECT(tree, "x ", .path = "w/.agentsmith/reference/x");
  EXPECT(tree, "", .glob = ".agentsmith/*/*");
  EXPECT(tree, ".agentsmith/reference/s/y .agentsmith/reference/x ",
         .glob = ".agentsmith/reference/**");
  EXPECT_VISIBLE(tree, "", .path = NULL);
  expect_hidden(2, 0); /* .agentsmith, d/.agentsmith */
}

/* --- a glob that names a directory that is left out --- */

#define EXPECT_BOTH(TREE, NAMES, GLOB)                                                             \
  do {                                                                                             \
    EXPECT(TREE, NAMES, .glob = (GLOB));                                                           \
    EXPECT_VISIBLE(TREE, NAMES, .glob = (GLOB));                                                   \
  } while (0)

TREE_TEST(a_glob_that_names_an_ignored_directory_searches_it) {
  tree_make(tree,
            "home/ w/ w/out/ w/out/a.txt=yes w/out/sub/ w/out/sub/b.txt=yes w/out/sub/c.o=yes "
            "w/src/ w/src/gen/ w/src/gen/d.txt=yes w/src/e.txt=yes");
  tree_write(tree, "w/.ignore", "out/\n/out/*\ngen\n*.o\n", 0600);
  EXPECT_BOTH(tree, "out/a.txt ", "out/*.txt");
  EXPECT_BOTH(tree, "out/a.txt out/sub/b.txt ", "out/**/*.txt");
  EXPECT_BOTH(tree, "out/sub/b.txt out/sub/c.o ", "out/sub/*");
  EXPECT_BOTH(tree, "src/gen/d.txt ", "src/gen/*");
  EXPECT_VISIBLE(tree, "src/e.txt ", .glob = "src/**/*.txt");
  expect_hidden(2, 0); /* out, src/gen */
  EXPECT_VISIBLE(tree, "gen/d.txt ", .path = "w/src",
                 .glob = "src/gen/*");                                  /* from the repository */
  EXPECT_VISIBLE(tree, "gen/d.txt ", .path = "w/src", .glob = "gen/*"); /* from the root */
}

TREE_TEST(a_glob_that_names_an_excluded_directory_searches_it) {
  tree_make(tree,
            "home/ w/ w/.git/ w/.git/config=yes w/.git/refs/ w/.git/refs/x=yes w/bin/ w/bin/a=yes "
            "w/bin/sub/ w/bin/sub/b=yes w/bin/obj/ w/bin/obj/c=yes w/d/ w/d/vendor/ "
            "w/d/vendor/e=yes w/d/vendor/bin/ w/d/vendor/bin/f=yes");
  tree_write(tree, "w/.gitignore", "bin\n", 0600);
  EXPECT_BOTH(tree, ".git/config ", ".git/*");
  EXPECT_BOTH(tree, ".git/config ", ".git/config");
  EXPECT_BOTH(tree, ".git/config .git/refs/x ", ".git/**");
  EXPECT_BOTH(tree, "bin/a ", "bin/*");
  EXPECT_BOTH(tree, "bin/a bin/obj/c bin/sub/b ", "bin/**");
  EXPECT_BOTH(tree, "bin/sub/b ", "bin/sub/*");
  EXPECT_BOTH(tree, "bin/a ", "**/bin/*"); /* vendor is not named */
  EXPECT_BOTH(tree, "d/vendor/bin/f ", "**/vendor/bin/*");
  EXPECT_BOTH(tree, "d/vendor/e ", "d/vendor/*");
  EXPECT_BOTH(tree, "d/vendor/bin/f d/vendor/e ", "*/vendor/**");
  EXPECT(tree, "", .glob = "*/*");
  EXPECT(tree, "", .glob = "**/f");
  EXPECT(tree, "", .glob = "bin");
  EXPECT(tree, "", .glob = "d/**");
}

/* A directory that cannot be read is counted if the search looks into it. */
TREE_TEST(the_siblings_of_a_directory_that_a_glob_names_are_not_searched) {
  tree_make(tree, "home/ w/ w/node_modules/ w/node_modules/a/ w/node_modules/a/x=yes "
                  "w/node_modules/b/");
  assert_int_equal(chmod(tree_path(tree, "."), 0755), 0);
  assert_int_equal(chmod(tree_path(tree, "w/node_modules/b"), 0000), 0);
  assert_int_equal(seteuid(NOBODY), 0);
  EXPECT(tree, "node_modules/a/x ", .glob = "node_modules/a/*");
  size_t unread = last.unread_directories;
  EXPECT(tree, "node_modules/a/x ", .glob = "node_modules/*/x");
  size_t all_unread = last.unread_directories;
  assert_int_equal(seteuid(0), 0);
  assert_int_equal(unread, 0);
  assert_int_equal(all_unread, 1);
}
