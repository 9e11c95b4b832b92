#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inject/copy_tree.h"
#include "tests/support/proc.h"
#include "tests/support/tree.h"
#include "tests/test.h"

enum { OLD = 1000000000 };

static int set_up(void **state) {
  (void)tree_set_up(state);
  tree_make_directory(*state, "from", 0755);
  tree_make_directory(*state, "to", 0755);
  return 0;
}

/* Copies from/ to to/, and leaves no descriptor open. */
static int copy(const struct tree *tree, char *where, size_t size) {
  int from = tree_open(tree, "from");
  int to = tree_open(tree, "to");
  int descriptors = proc_fd_count(getpid());
  int result = copy_tree(from, to, where, size);
  int error = errno;
  assert_int_equal(proc_fd_count(getpid()), descriptors);
  close(from);
  close(to);
  errno = error;
  return result;
}

static void copies(const struct tree *tree) {
  char where[256] = "/shared/python";
  assert_int_equal(copy(tree, where, sizeof where), 0);
  assert_string_equal(where, "/shared/python");
}

static void fails(const struct tree *tree, int error, const char *expected) {
  char where[256] = "/shared";
  assert_int_equal(copy(tree, where, sizeof where), -1);
  assert_int_equal(errno, error);
  assert_string_equal(where, expected);
}

TEST(an_empty_directory_is_copied, set_up, tree_tear_down) {
  copies(*state);
  assert_int_equal(tree_count(*state, "to"), 0);
}

TEST(files_keep_their_modes, set_up, tree_tear_down) {
  static const mode_t modes[] = {0755, 0644, 0600, 0444, 0, 04755, 0777};
  char name[32];
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    snprintf(name, sizeof name, "from/%04o", (unsigned)modes[i]);
    tree_write(*state, name, name, modes[i]);
  }
  mode_t before = umask(077);
  copies(*state);
  umask(before);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    char content[32];
    snprintf(name, sizeof name, "to/%04o", (unsigned)modes[i]);
    snprintf(content, sizeof content, "from/%04o", (unsigned)modes[i]);
    tree_expect(*state, name, content, modes[i]);
  }
}

TEST(names_may_be_anything, set_up, tree_tear_down) {
  tree_write(*state, "from/.hidden", "1", 0644);
  tree_write(*state, "from/...", "2", 0644);
  tree_write(*state, "from/a b\n%s", "3", 0644);
  copies(*state);
  tree_expect(*state, "to/.hidden", "1", 0644);
  tree_expect(*state, "to/...", "2", 0644);
  tree_expect(*state, "to/a b\n%s", "3", 0644);
}

TEST(directories_are_copied_whole, set_up, tree_tear_down) {
  tree_make_directory(*state, "from/a", 0755);
  tree_make_directory(*state, "from/a/b", 0700);
  tree_make_directory(*state, "from/a/empty", 01777);
  tree_write(*state, "from/a/b/file", "deep", 0640);
  assert_int_equal(fchmodat(((struct tree *)*state)->fd, "from/a", 0555, 0), 0);
  copies(*state);
  tree_expect(*state, "to/a/b/file", "deep", 0640);
  struct stat file;
  const struct tree *tree = *state;
  assert_int_equal(fstatat(tree->fd, "to/a", &file, 0), 0);
  assert_int_equal(file.st_mode, S_IFDIR | 0555);
  assert_int_equal(fstatat(tree->fd, "to/a/b", &file, 0), 0);
  assert_int_equal(file.st_mode, S_IFDIR | 0700);
  assert_int_equal(fstatat(tree->fd, "to/a/empty", &file, 0), 0);
  assert_int_equal(file.st_mode, S_IFDIR | 01777);
}

TEST(times_are_kept, set_up, tree_tear_down) {
  const struct tree *tree = *state;
  const struct timespec times[] = {{.tv_sec = OLD + 1}, {.tv_sec = OLD, .tv_nsec = 987654321}};
  static const char *const names[] = {"from/a/file", "from/a"};
  tree_make_directory(tree, "from/a", 0755);
  tree_write(tree, "from/a/file", "x", 0444);
  for (size_t i = 0; i < 2; i++)
    assert_int_equal(utimensat(tree->fd, names[i], times, 0), 0);
  copies(tree);
  static const char *const copied[] = {"to/a/file", "to/a"};
  for (size_t i = 0; i < 2; i++) {
    struct stat file;
    assert_int_equal(fstatat(tree->fd, copied[i], &file, 0), 0);
    assert_int_equal(file.st_mtim.tv_sec, OLD);
    assert_int_equal(file.st_mtim.tv_nsec, 987654321);
  }
}

TEST(links_stay_links, set_up, tree_tear_down) {
  const struct tree *tree = *state;
  static const char *const targets[] = {"file", "/nowhere", "..", "loop"};
  static const char *const names[] = {"link", "dangling", "up", "loop"};
  char name[32];
  for (size_t i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "from/%s", names[i]);
    assert_int_equal(symlinkat(targets[i], tree->fd, name), 0);
  }
  copies(tree);
  for (size_t i = 0; i < 4; i++) {
    char target[32];
    snprintf(name, sizeof name, "to/%s", names[i]);
    ssize_t length = readlinkat(tree->fd, name, target, sizeof target - 1);
    assert_true(length > 0);
    target[length] = '\0';
    assert_string_equal(target, targets[i]);
  }
}

TEST(other_kinds_are_skipped, set_up, tree_tear_down) {
  const struct tree *tree = *state;
  assert_int_equal(mkfifoat(tree->fd, "from/fifo", 0644), 0);
  tree_write(tree, "from/file", "x", 0644);
  copies(tree);
  assert_int_equal(tree_count(tree, "to"), 1);
}

TEST(the_failing_path_is_reported, set_up, tree_tear_down) {
  tree_make_directory(*state, "from/a", 0755);
  tree_make_directory(*state, "from/a/b", 0755);
  tree_make_directory(*state, "to/a", 0755);
  fails(*state, EEXIST, "/shared/a");
}

TEST(nothing_is_overwritten, set_up, tree_tear_down) {
  tree_write(*state, "from/file", "new", 0644);
  tree_write(*state, "to/file", "old", 0644);
  fails(*state, EEXIST, "/shared/file");
  tree_expect(*state, "to/file", "old", 0644);
}

TEST(a_long_path_is_cut_where_the_buffer_ends, set_up, tree_tear_down) {
  char where[10] = "/shared";
  tree_write(*state, "from/file", "x", 0644);
  tree_write(*state, "to/file", "x", 0644);
  assert_int_equal(copy(*state, where, sizeof where), -1);
  assert_string_equal(where, "/shared/f");
}
