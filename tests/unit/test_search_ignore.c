/* What a search leaves out below its root: ignore files, hidden names, globs, the reference
   directory. That it is what ripgrep leaves out, tests/unit/test_search_ripgrep.c shows; here are the
   rules by name, and what rg has no word for. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "agent/files/grep/search.h"
#include "tests/support/as_user.h"
#include "tests/support/quoted.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static struct search_result last;

/* The names of what is found in the repository "w", each with a space behind it. */
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

TREE_TEST(the_files_of_git_count_in_a_repository_only) {
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

/* Without a `commondir` it is a submodule; a relative path begins where the file is. */
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
  assert_int_equal(last.unused_ignores, 1);
  assert_string_equal(last.first_unused.text, tree_path(tree, "w/d/.ignore"));
  assert_int_equal(rename(tree_path(tree, "w/d/.ignore"), tree_path(tree, "w/large")), 0);
  tree_make(tree, "w/.git/ w/.git/info/");
  assert_int_equal(rename(tree_path(tree, "w/large"), tree_path(tree, "w/.git/info/exclude")), 0);
  EXPECT_VISIBLE(tree, "a d/a ", .path = NULL);
  assert_int_equal(last.unused_ignores, 1);
  assert_string_equal(last.first_unused.text, tree_path(tree, "w/.git/info/exclude"));
}

static int search_as_nobody(void *context, struct error *error) {
  (void)names(context, (struct search){.respects_ignores = true});
  return last.unused_ignores > 0 ? error_set(error, "%s", last.first_unused.text) : 0;
}

/* As where HOME is another user's. */
TREE_TEST(where_nobody_may_look_there_is_no_ignore_file) {
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
  EXPECT(tree, "", .glob = ".agentsmith/reference/**");
  EXPECT_VISIBLE(tree, "", .path = NULL);
  expect_hidden(2, 0); /* .agentsmith, d/.agentsmith */
}
