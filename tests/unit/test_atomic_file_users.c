/* Writers who are not root: what they may not do, and whose the file is afterwards. */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/atomic_file.h"
#include "base/staged_file.h"
#include "tests/support/as_user.h"
#include "tests/support/tree.h"
#include "tests/test.h"

enum { OTHER = 1234, TEAM = 1000 };

struct writing {
  const struct tree *tree;
  const char *path;
};

static int write_it(void *context, struct error *error) {
  const struct writing *self = context;
  return atomic_file_write(self->tree->fd, self->path, "new", 3, error);
}

static void write_as(const struct tree *tree, const char *path, uid_t user, gid_t group) {
  struct error error = {.text = ""};
  struct writing writing = {tree, path};
  (void)as_user(user, group, write_it, &writing, &error);
  assert_string_equal(error.text, "");
}

static void expect_rejected_as(const struct tree *tree, const char *path, uid_t user,
                               const char *text) {
  struct error error = {.text = ""};
  struct writing writing = {tree, path};
  int entries = tree_count(tree, ".");
  assert_int_equal(as_user(user, user, write_it, &writing, &error), -1);
  assert_string_equal(error.text, text);
  assert_int_equal(tree_count(tree, "."), entries);
}

static void make(const struct tree *tree, const char *name, uid_t user, gid_t group, mode_t mode) {
  tree_write(tree, name, "old", 0600);
  assert_int_equal(fchownat(tree->fd, name, user, group, 0), 0);
  assert_int_equal(fchmodat(tree->fd, name, mode, 0), 0);
}

static void expect_new(const struct tree *tree, const char *name, uid_t user, gid_t group,
                       mode_t mode) {
  struct stat file;
  tree_expect(tree, name, "new", mode);
  assert_int_equal(fstatat(tree->fd, name, &file, 0), 0);
  assert_int_equal(file.st_uid, user);
  assert_int_equal(file.st_gid, group);
}

TREE_TEST(the_owner_is_kept) {
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  make(tree, "file", NOBODY, NOBODY, 04755);
  write_as(tree, "file", NOBODY, NOBODY);
  expect_new(tree, "file", NOBODY, NOBODY, 04755);
  make(tree, "unreadable", NOBODY, NOBODY, 0200);
  write_as(tree, "unreadable", NOBODY, NOBODY);
  expect_new(tree, "unreadable", NOBODY, NOBODY, 0200);
  assert_int_equal(tree_count(tree, "."), 2);
}

/* What may not be given away loses the rights that were another's. */
TREE_TEST(a_kept_mode_grants_nothing_new) {
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  make(tree, "another's", 0, NOBODY, 06776);
  write_as(tree, "another's", NOBODY, NOBODY);
  expect_new(tree, "another's", NOBODY, NOBODY, 0776);
  make(tree, "own", NOBODY, OTHER, 0664);
  write_as(tree, "own", NOBODY, NOBODY);
  expect_new(tree, "own", NOBODY, NOBODY, 0644);
  assert_int_equal(tree_count(tree, "."), 2);
}

/* As Kubernetes sets up a volume with an fsGroup: whoever is in the group writes, and what is made
   is the group's. */
TREE_TEST(files_of_a_group_directory_stay_the_groups) {
  struct stat directory;
  assert_int_equal(fchown(tree->fd, 0, TEAM), 0);
  assert_int_equal(fchmod(tree->fd, 02775), 0);
  make(tree, "file", 0, TEAM, 0664);
  write_as(tree, "file", OTHER, TEAM);
  expect_new(tree, "file", OTHER, TEAM, 0664);
  write_as(tree, "file", NOBODY, TEAM);
  expect_new(tree, "file", NOBODY, TEAM, 0664);
  write_as(tree, "new/file", NOBODY, TEAM);
  expect_new(tree, "new/file", NOBODY, TEAM, 0644);
  assert_int_equal(fstatat(tree->fd, "new", &directory, 0), 0);
  assert_int_equal(directory.st_gid, TEAM);
  assert_int_equal(directory.st_mode, S_IFDIR | 02755);
}

TREE_TEST(a_write_protected_file_is_rejected) {
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  make(tree, "file", NOBODY, NOBODY, 0444);
  make(tree, "root's", 0, 0, 0644);
  expect_rejected_as(tree, "file", NOBODY, "cannot write file (Permission denied): file");
  expect_rejected_as(tree, "root's", NOBODY, "cannot write file (Permission denied): root's");
  tree_expect(tree, "file", "old", 0444);
}

TREE_TEST(a_directory_without_permission_is_reported) {
  assert_int_equal(fchmod(tree->fd, 0755), 0);
  tree_make_directory(tree, "hidden", 0700);
  make(tree, "file", NOBODY, NOBODY, 0666);
  expect_rejected_as(
      tree, "file", NOBODY,
      "cannot replace file (no file can be created beside it: Permission denied): file");
  expect_rejected_as(tree, "new", NOBODY, "cannot write file (Permission denied): new");
  expect_rejected_as(tree, "a/new", NOBODY, "cannot write file (Permission denied): a/new");
  expect_rejected_as(tree, "hidden/x", NOBODY, "cannot write file (Permission denied): hidden/x");
  tree_expect(tree, "file", "old", 0666);
}

/* As /tmp is: only its owner may replace a file, though all may write to it. */
TREE_TEST(a_sticky_directory_protects_files_of_others) {
  assert_int_equal(fchmod(tree->fd, 01777), 0);
  make(tree, "file", OTHER, OTHER, 0666);
  make(tree, "own", NOBODY, NOBODY, 0644);
  expect_rejected_as(tree, "file", NOBODY, "cannot write file (Operation not permitted): file");
  write_as(tree, "own", NOBODY, NOBODY);
  tree_expect(tree, "file", "old", 0666);
  expect_new(tree, "own", NOBODY, NOBODY, 0644);
}

static int open_it(void *context, struct error *error) {
  const struct writing *self = context;
  (void)error;
  return openat(self->tree->fd, self->path, O_PATH | O_CLOEXEC);
}

/* By default it does not go where another user points to in a directory such as /tmp. */
TREE_TEST(links_are_followed_where_the_kernel_does) {
  struct error error = {.text = ""};
  struct writing writing = {tree, "tmp/link"};
  tree_make_directory(tree, "tmp", 01777);
  make(tree, "file", NOBODY, NOBODY, 0666);
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  assert_int_equal(symlinkat("../file", tree->fd, "tmp/link"), 0);
  assert_int_equal(fchownat(tree->fd, "tmp/link", OTHER, OTHER, AT_SYMLINK_NOFOLLOW), 0);
  bool does = as_user(NOBODY, NOBODY, open_it, &writing, &error) >= 0;
  if (does)
    write_as(tree, "tmp/link", NOBODY, NOBODY);
  else
    expect_rejected_as(tree, "tmp/link", NOBODY, "cannot write file (Permission denied): tmp/link");
  tree_expect(tree, "file", does ? "new" : "old", 0666);
}

static int leave_a_hidden_file(void *context, struct error *error) {
  const struct tree *tree = context;
  struct staged_file staged;
  (void)error;
  return staged_file_begin(&staged, tree->fd, "file", 0600); /* the child's end leaves it behind */
}

/* Each has a hidden file of its own, and what one left behind is not in the other's way. */
TREE_TEST(each_user_has_a_hidden_file_of_its_own) {
  struct error error;
  assert_int_equal(fchmod(tree->fd, 01777), 0);
  make(tree, "file", NOBODY, NOBODY, 0644);
  assert_int_equal(as_user(OTHER, OTHER, leave_a_hidden_file, tree, &error), 0);
  assert_int_equal(as_user(NOBODY, NOBODY, leave_a_hidden_file, tree, &error), 0);
  assert_int_equal(tree_count(tree, "."), 3);
  write_as(tree, "file", NOBODY, NOBODY);
  expect_new(tree, "file", NOBODY, NOBODY, 0644);
  assert_int_equal(tree_count(tree, "."), 2); /* the other user's is the other's to remove */
}

static int set_umask(void **state) {
  (void)state;
  umask(022);
  return 0;
}

TEST_GROUP(set_umask, NULL)
