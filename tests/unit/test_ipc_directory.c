#include "agent/doors/files/ipc_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/as_user.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static struct ipc_directory begin(const struct tree *tree) {
  struct ipc_directory ipc = IPC_DIRECTORY_NONE;
  struct error error;
  assert_int_equal(ipc_directory_open(&ipc, tree->path, &error), 0);
  assert_int_equal(ipc_directory_find_tools(&ipc, &error), IPC_TOOLS_OTHER);
  assert_int_equal(ipc_directory_find_tools(&ipc, &error), IPC_TOOLS_SAME);
  return ipc;
}

static mode_t mode_of(const struct tree *tree, const char *name) {
  struct stat file;
  assert_int_equal(fstatat(tree->fd, name, &file, AT_SYMLINK_NOFOLLOW), 0);
  return file.st_mode & 07777;
}

TREE_TEST(tools_is_made_with_the_mode_above_it) {
  assert_int_equal(chmod(tree->path, 02777), 0);
  struct ipc_directory ipc = begin(tree);
  assert_int_equal(mode_of(tree, "tools"), 02777);
  ipc_directory_close(&ipc);
}

TREE_TEST(a_tools_that_is_there_keeps_its_mode) {
  tree_make_directory(tree, "tools", 0750);
  struct ipc_directory ipc = begin(tree);
  assert_int_equal(mode_of(tree, "tools"), 0750);
  ipc_directory_close(&ipc);
}

TREE_TEST(a_tools_that_is_a_link_or_a_file_is_none) {
  struct ipc_directory ipc = IPC_DIRECTORY_NONE;
  struct error error;
  tree_make(tree, "real/ tools>real");
  assert_int_equal(ipc_directory_open(&ipc, tree->path, &error), 0);
  assert_int_equal(ipc_directory_find_tools(&ipc, &error), IPC_TOOLS_MISSING);
  assert_int_equal(unlinkat(tree->fd, "tools", 0), 0);
  tree_make(tree, "tools");
  assert_int_equal(ipc_directory_find_tools(&ipc, &error), IPC_TOOLS_MISSING);
  assert_non_null(strstr(error.text, "Not a directory"));
  ipc_directory_close(&ipc);
}

/* `context` is open, and a user without rights asks. */
static int ask_without_rights(void *context, struct error *error) {
  struct ipc_directory *ipc = context;
  bool has = ipc_directory_has(ipc, "a");
  return ipc_directory_find_tools(ipc, error) == IPC_TOOLS_SAME && has
             ? 0
             : error_set(error, "%d", (int)has);
}

/* Else a request would be taken for deleted, and its command cancelled. */
TREE_TEST(what_rights_hide_for_a_time_is_not_gone) {
  struct ipc_directory ipc = begin(tree);
  struct error error;
  tree_make(tree, "tools/a=text");
  assert_int_equal(fchmod(ipc.tools, 0), 0);
  assert_int_equal(as_user(NOBODY, NOBODY, ask_without_rights, &ipc, &error), 0);
  assert_int_equal(fchmod(ipc.tools, 0777), 0);
  assert_int_equal(chmod(tree->path, 0), 0);
  assert_int_equal(as_user(NOBODY, NOBODY, ask_without_rights, &ipc, &error), 0);
  assert_int_equal(chmod(tree->path, 0755), 0);
  assert_int_equal(unlinkat(ipc.tools, "a", 0), 0);
  assert_false(ipc_directory_has(&ipc, "a"));
  ipc_directory_close(&ipc);
}

TREE_TEST(done_is_a_file_or_a_link_to_one) {
  struct ipc_directory ipc = begin(tree);
  assert_false(ipc_directory_is_done(&ipc));
  tree_make(tree, "done/");
  assert_false(ipc_directory_is_done(&ipc));
  assert_int_equal(unlinkat(tree->fd, "done", AT_REMOVEDIR), 0);
  tree_make(tree, "done>file");
  assert_false(ipc_directory_is_done(&ipc));
  tree_make(tree, "file");
  assert_true(ipc_directory_is_done(&ipc));
  ipc_directory_close(&ipc);
}
