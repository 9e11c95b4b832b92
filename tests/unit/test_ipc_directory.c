#include "agent/frontends/request_files/ipc_directory.h"

#include <errno.h>
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
  assert_true(ipc_directory_find_tools(&ipc, &error));
  assert_int_equal(ipc.tools, -1);
  assert_int_equal(unlinkat(tree->fd, "tools", 0), 0);
  tree_make(tree, "tools");
  assert_true(ipc_directory_find_tools(&ipc, &error));
  assert_int_equal(ipc.tools, -1);
  assert_non_null(strstr(error.text, "Not a directory"));
  ipc_directory_close(&ipc);
}

/* `context` is open, and a user without rights asks. */
static int ask_without_rights(void *context, struct error *error) {
  struct ipc_directory *ipc = context;
  bool has = ipc_directory_has(ipc, "a");
  return !ipc_directory_find_tools(ipc, error) && has ? 0 : error_set(error, "%d", (int)has);
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

/* --- entries --- */

TREE_TEST(a_regular_file_is_opened_for_reading) {
  struct stat file;
  char text[8];
  tree_make(tree, "a=text");
  int fd = ipc_directory_open_file(tree->fd, "a", &file);
  assert_true(fd >= 0);
  assert_int_equal(file.st_size, 4);
  assert_int_equal(read(fd, text, sizeof text), 4);
  assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH), O_RDONLY);
  assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
  close(fd);
  assert_int_equal(ipc_directory_open_file(tree->fd, "none", &file), -1);
  assert_int_equal(errno, ENOENT);
}

/* Who waits in open(2) for a reader of the FIFO waits on. */
TREE_TEST(what_is_no_regular_file_is_named_and_not_opened) {
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

static int open_as_other(void *context, struct error *error) {
  const struct tree *tree = context;
  struct stat file;
  int fd = ipc_directory_open_file(tree->fd, "secret", &file);
  int reason = errno;
  int open = ipc_directory_open_file(tree->fd, "open", &file);
  return fd < 0 && open >= 0 ? error_set(error, "%d", reason) : 0;
}

TREE_TEST(what_may_not_be_read_is_not_opened) {
  struct error error = {.text = ""};
  char expected[16];
  assert_int_equal(chmod(tree->path, 0755), 0);
  tree_write(tree, "secret", "text", 0600);
  tree_write(tree, "open", "text", 0644);
  (void)as_user(NOBODY, NOBODY, open_as_other, tree, &error);
  (void)snprintf(expected, sizeof expected, "%d", EACCES);
  assert_string_equal(error.text, expected);
}

TREE_TEST(a_directory_has_the_mode_that_is_given) {
  struct stat file;
  mode_t before = umask(077);
  assert_int_equal(ipc_directory_make(tree->fd, "d", 01777), 0);
  assert_int_equal(ipc_directory_make(tree->fd, "d", 0700), -1);
  assert_int_equal(errno, EEXIST);
  assert_int_equal(umask(before), 077);
  assert_int_equal(fstatat(tree->fd, "d", &file, 0), 0);
  assert_int_equal(file.st_mode, S_IFDIR | 01777);
}
