#include "agent/doors/files/shared_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/as_user.h"
#include "tests/support/tree.h"
#include "tests/test.h"

TREE_TEST(a_regular_file_is_opened_for_reading) {
  struct stat file;
  char text[8];
  tree_make(tree, "a=text");
  int fd = shared_entry_open_file(tree->fd, "a", &file);
  assert_true(fd >= 0);
  assert_int_equal(file.st_size, 4);
  assert_int_equal(read(fd, text, sizeof text), 4);
  assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH), O_RDONLY);
  assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
  close(fd);
  assert_int_equal(shared_entry_open_file(tree->fd, "none", &file), -1);
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
    assert_int_equal(shared_entry_open_file(tree->fd, rows[i].name, &file), -1);
    assert_int_equal(errno, ENXIO);
    assert_int_equal(file.st_mode & S_IFMT, rows[i].type);
  }
  assert_int_equal(openat(tree->fd, "p", O_WRONLY | O_NONBLOCK | O_CLOEXEC), -1);
  assert_int_equal(errno, ENXIO);
}

static int open_as_other(void *context, struct error *error) {
  const struct tree *tree = context;
  struct stat file;
  int fd = shared_entry_open_file(tree->fd, "secret", &file);
  int reason = errno;
  int open = shared_entry_open_file(tree->fd, "open", &file);
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

TREE_TEST(a_link_to_a_directory_is_none) {
  tree_make(tree, "d/ l>d f");
  int fd = shared_entry_open_directory(tree->fd, "d");
  assert_true(fd >= 0);
  assert_true(shared_entry_is(tree->fd, "d", fd));
  assert_false(shared_entry_is(tree->fd, "l", fd));
  assert_false(shared_entry_is(tree->fd, "none", fd));
  assert_int_equal(shared_entry_open_directory(tree->fd, "l"), -1);
  assert_int_equal(shared_entry_open_directory(tree->fd, "f"), -1);
  assert_int_equal(renameat(tree->fd, "d", tree->fd, "e"), 0);
  tree_make(tree, "d/");
  assert_false(shared_entry_is(tree->fd, "d", fd));
  close(fd);
}

TREE_TEST(a_directory_has_the_mode_that_is_given) {
  struct stat file;
  mode_t before = umask(077);
  assert_int_equal(shared_entry_make_directory(tree->fd, "d", 01777), 0);
  assert_int_equal(shared_entry_make_directory(tree->fd, "d", 0700), -1);
  assert_int_equal(errno, EEXIST);
  assert_int_equal(umask(before), 077);
  assert_int_equal(fstatat(tree->fd, "d", &file, 0), 0);
  assert_int_equal(file.st_mode, S_IFDIR | 01777);
}
