#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inject/copy_tree.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/tree.h"
#include "tests/test.h"

enum { OLD = 1000000000 };

static int set_up(void **state) {
  (void)tree_set_up(state);
  tree_make(*state, "from/ to/");
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

#define COPY_TEST(NAME) TEST_WITH(struct tree *tree, NAME, set_up, tree_tear_down)

COPY_TEST(an_empty_directory_is_copied) {
  copies(tree);
  assert_int_equal(tree_count(tree, "to"), 0);
}

COPY_TEST(files_keep_their_modes) {
  static const mode_t modes[] = {0755, 0644, 0600, 0444, 0, 04755, 0777};
  char name[32];
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    snprintf(name, sizeof name, "from/%04o", (unsigned)modes[i]);
    tree_write(tree, name, name, modes[i]);
  }
  mode_t before = umask(077);
  copies(tree);
  umask(before);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    snprintf(name, sizeof name, "to/%04o", (unsigned)modes[i]);
    tree_expect(tree, name, formatted("from/%04o", (unsigned)modes[i]), modes[i]);
  }
}

COPY_TEST(names_may_be_anything) {
  tree_write(tree, "from/.hidden", "1", 0644);
  tree_write(tree, "from/...", "2", 0644);
  tree_write(tree, "from/a b\n%s", "3", 0644);
  copies(tree);
  tree_expect(tree, "to/.hidden", "1", 0644);
  tree_expect(tree, "to/...", "2", 0644);
  tree_expect(tree, "to/a b\n%s", "3", 0644);
}

COPY_TEST(directories_are_copied_whole) {
  tree_make_directory(tree, "from/a", 0755);
  tree_make_directory(tree, "from/a/b", 0700);
  tree_make_directory(tree, "from/a/empty", 01777);
  tree_write(tree, "from/a/b/file", "deep", 0640);
  assert_int_equal(fchmodat(tree->fd, "from/a", 0555, 0), 0);
  copies(tree);
  tree_expect(tree, "to/a/b/file", "deep", 0640);
  struct stat file;
  assert_int_equal(fstatat(tree->fd, "to/a", &file, 0), 0);
  assert_int_equal(file.st_mode, S_IFDIR | 0555);
  assert_int_equal(fstatat(tree->fd, "to/a/b", &file, 0), 0);
  assert_int_equal(file.st_mode, S_IFDIR | 0700);
  assert_int_equal(fstatat(tree->fd, "to/a/empty", &file, 0), 0);
  assert_int_equal(file.st_mode, S_IFDIR | 01777);
}

COPY_TEST(times_are_kept) {
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

COPY_TEST(links_stay_links) {
  static const struct {
    const char *name, *target;
  } rows[] = {
      {"to/link", "file"}, {"to/dangling", "/nowhere"}, {"to/up", ".."}, {"to/loop", "loop"}};
  tree_make(tree, "from/link>file from/dangling>/nowhere from/up>.. from/loop>loop");
  copies(tree);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char target[32] = "";
    assert_true(readlinkat(tree->fd, rows[i].name, target, sizeof target - 1) > 0);
    assert_string_equal(target, rows[i].target);
  }
}

COPY_TEST(other_kinds_are_skipped) {
  tree_make(tree, "from/fifo| from/file=x");
  copies(tree);
  assert_int_equal(tree_count(tree, "to"), 1);
}

COPY_TEST(the_failing_path_is_reported) {
  tree_make(tree, "from/a/ from/a/b/ to/a/");
  fails(tree, EEXIST, "/shared/a");
}

COPY_TEST(nothing_is_overwritten) {
  tree_make(tree, "from/file=new to/file=old");
  fails(tree, EEXIST, "/shared/file");
  tree_expect(tree, "to/file", "old", 0644);
}

COPY_TEST(a_long_path_is_cut_where_the_buffer_ends) {
  char where[10] = "/shared";
  tree_make(tree, "from/file=x to/file=x");
  assert_int_equal(copy(tree, where, sizeof where), -1);
  assert_string_equal(where, "/shared/f");
}
