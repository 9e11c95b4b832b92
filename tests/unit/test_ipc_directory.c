#include "agent/frontends/request_files/ipc_directory.h"

#include "tests/support/as_user.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static struct ipc_directory begin(const struct tree *tree) {
  struct ipc_directory ipc = IPC_DIRECTORY_NONE;
  struct error error;
  assert_int_equal(ipc_directory_open(&ipc, tree->path, &error), 0);
  assert_true(ipc_directory_find_tools(&ipc, &error));
  assert_true(ipc.tools >= 0);
  assert_false(ipc_directory_find_tools(&ipc, &error));
  return ipc;
}

static mode_t mode_of(const struct tree *tree, const char *name) {
  struct stat file;
  assert_int_equal(fstatat(tree->fd, name, &file, AT_SYMLINK_NOFOLLOW), 0);
  return file.st_mode & 07777;
}

TREE_TEST(the_tools_directory_gets_the_mode_of_its_parent) {
  assert_int_equal(chmod(tree->path, 02777), 0);
  struct ipc_directory ipc = begin(tree);
  assert_int_equal(mode_of(tree, "tools"), 02777);
  ipc_directory_close(&ipc);
}

/* `context` was opened with rights that this user lacks. */
static int ask_without_rights(void *context, struct error *error) {
  struct ipc_directory *ipc = context;
  bool has = ipc_directory_has(ipc, "a");
  return !ipc_directory_find_tools(ipc, error) && has ? 0 : error_set(error, "%d", (int)has);
}

/* Otherwise the request would look deleted, and its command would be cancelled. */
TREE_TEST(inaccessible_files_do_not_count_as_deleted) {
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

/* A writer that waits in open(2) for a reader of the FIFO still waits. */
TREE_TEST(only_regular_files_are_opened) {
  struct stat file;
  tree_make(tree, "a=text l>a p| d/");
  static const struct {
    const char *name;
    mode_t type;
  } rows[] = {{"l", S_IFLNK}, {"p", S_IFIFO}, {"d", S_IFDIR}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(ipc_directory_open_file(tree->fd, rows[i].name, &file), -1);
    assert_int_equal(errno, ENXIO);
    assert_int_equal(file.st_mode & S_IFMT, rows[i].type);
  }
  assert_int_equal(openat(tree->fd, "p", O_WRONLY | O_NONBLOCK | O_CLOEXEC), -1);
  assert_int_equal(errno, ENXIO);
}

TREE_TEST(a_new_directory_has_the_given_mode) {
  struct stat file;
  mode_t before = umask(077);
  assert_int_equal(ipc_directory_make(tree->fd, "d", 01777), 0);
  assert_int_equal(ipc_directory_make(tree->fd, "d", 0700), -1);
  assert_int_equal(errno, EEXIST);
  assert_int_equal(umask(before), 077);
  assert_int_equal(fstatat(tree->fd, "d", &file, 0), 0);
  assert_int_equal(file.st_mode, S_IFDIR | 01777);
}
