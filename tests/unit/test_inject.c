/* The running program is this test. */

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "inject/copy_bytes.h"
#include "inject/inject.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* Injects to a name in the tree; every descriptor is closed again. */
static int inject(const struct tree *tree, const char *name, const char *tools, char *text,
                  size_t size) {
  char target[PATH_MAX];
  char tools_path[PATH_MAX];
  snprintf(target, sizeof target, "%s/%s", tree->path, name);
  snprintf(tools_path, sizeof tools_path, "%s/%s", tree->path, tools);
  int descriptors = proc_fd_count(getpid());
  mode_t before = umask(027);
  int result = inject_program(target, tools_path, "no bundle", text, size);
  assert_int_equal(umask(before), 027); /* it is as it was */
  assert_int_equal(proc_fd_count(getpid()), descriptors);
  return result;
}

static void succeeds(const struct tree *tree, const char *name, const char *made) {
  char text[512];
  struct stat file;
  if (inject(tree, name, "no tools", text, sizeof text) != 0)
    fail_msg("%s", text);
  int copy = openat(tree->fd, made, O_RDONLY | O_CLOEXEC);
  int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  assert_true(copy >= 0 && self >= 0);
  assert_int_equal(fstat(copy, &file), 0);
  assert_int_equal(file.st_mode, S_IFREG | 0755);
  assert_int_equal(copy_bytes_same(self, copy, file.st_size), 1);
  const char *expected =
      formatted("injected %s/%s, %lld bytes", tree->path, made, (long long)file.st_size);
  assert_string_equal(text, expected);
  close(copy);
  close(self);
}

static void is_rejected(const struct tree *tree, const char *name, const char *tools,
                        const char *expected) {
  char text[512];
  assert_int_equal(inject(tree, name, tools, text, sizeof text), -1);
  if (strstr(text, expected) == NULL || strchr(text, '\n') != NULL)
    fail_msg("no word of `%s` in: %s", expected, text);
}

TREE_TEST(the_target_is_a_file_or_a_directory) {
  assert_int_equal(fchmod(tree->fd, 0755), 0); /* a closed one would be told */
  succeeds(tree, "runner", "runner");
  succeeds(tree, "runner", "runner");
  succeeds(tree, "", "agent");
  tree_make_directory(tree, "there", 0755);
  succeeds(tree, "there", "there/agent");
  succeeds(tree, "there//", "there/agent");
  succeeds(tree, "new/deep//file", "new/deep/file");
  succeeds(tree, "newer/", "newer/agent");
  assert_int_equal(tree_count(tree, "."), 5);
}

TREE_TEST(the_target_may_be_relative) {
  char text[512];
  int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(fchdir(tree->fd), 0);
  int bare = inject_program("bare", "no tools", "no bundle", text, sizeof text);
  int below = inject_program("a/b", "no tools", "no bundle", text, sizeof text);
  assert_int_equal(fchdir(before), 0);
  close(before);
  assert_int_equal(bare, 0);
  assert_int_equal(below, 0);
  assert_true(tree_has(tree, "bare"));
  assert_true(tree_has(tree, "a/b"));
}

TREE_TEST(tools_are_copied_too) {
  char text[512];
  tree_make(tree, "tools/ shared/ shared/tools/ shared/tools/older=old");
  tree_write(tree, "tools/tool", "new", 0755);
  assert_int_equal(inject(tree, "shared", "tools", text, sizeof text), 0);
  tree_expect(tree, "shared/tools/tool", "new", 0755);
  assert_int_equal(tree_count(tree, "shared/tools"), 1);
  assert_int_equal(tree_count(tree, "shared"), 2);
}

TREE_TEST(tools_that_are_no_directory_are_ignored) {
  char text[512];
  tree_write(tree, "tools", "a file", 0644);
  assert_int_equal(inject(tree, "shared/", "tools", text, sizeof text), 0);
  assert_int_equal(inject(tree, "shared/", "tools/below", text, sizeof text), 0);
  assert_int_equal(tree_count(tree, "shared"), 1);
}

TREE_TEST(a_rejected_injection_leaves_nothing) {
  tree_make(tree, "file=x shared/ shared/agent/");
  is_rejected(tree, "file/agent", "none", "/file/agent: Not a directory; ");
  is_rejected(tree, "file/", "none", "/file/agent: Not a directory; ");
  is_rejected(tree, "new/../file/a/b", "none", "/file/a: Not a directory; ");
  is_rejected(tree, "shared", "none", "/shared/agent: Is a directory; ");
  assert_int_equal(tree_count(tree, "."), 2);
  assert_int_equal(tree_count(tree, "shared"), 1);
}

TREE_TEST(tools_that_cannot_be_placed_leave_nothing) {
  tree_make(tree, "tools/ shared/ shared/tools=mine");
  is_rejected(tree, "shared", "tools", "/shared/tools: Not a directory; ");
  tree_expect(tree, "shared/tools", "mine", 0644);
  assert_int_equal(tree_count(tree, "shared"), 1);
}

static void keeps(const struct tree *tree, const char *name, const char *target, const char *tools,
                  const char *expected) {
  struct stat before;
  struct stat after;
  int entries = tree_count(tree, ".");
  assert_int_equal(fstatat(tree->fd, name, &before, AT_SYMLINK_NOFOLLOW), 0);
  is_rejected(tree, target, tools, formatted("/%s: %s; name another target", name, expected));
  assert_int_equal(fstatat(tree->fd, name, &after, AT_SYMLINK_NOFOLLOW), 0);
  assert_int_equal(before.st_ino, after.st_ino);
  assert_int_equal(tree_count(tree, "."), entries);
}

TREE_TEST(other_kinds_of_files_are_not_replaced) {
  tree_make(tree, "fifo| link>fifo null>/dev/null tools/ a/ a/tools| b/ b/tools>../tools");
  assert_int_equal(mknodat(tree->fd, "device", S_IFCHR | 0666, makedev(1, 3)), 0);
  keeps(tree, "fifo", "fifo", "none", "it is a FIFO, not a regular file");
  keeps(tree, "link", "link", "none", "it leads to a FIFO, not a regular file");
  keeps(tree, "null", "null", "none", "it leads to a character device, not a regular file");
  keeps(tree, "device", "device", "tools", "it is a character device, not a regular file");
  keeps(tree, "a/tools", "a", "tools", "it is a FIFO, not a directory");
  keeps(tree, "b/tools", "b", "tools", "it is a symbolic link, not a directory");
  assert_int_equal(tree_count(tree, "a"), 1);
  assert_int_equal(tree_count(tree, "b"), 1);
}

TREE_TEST(only_created_directories_are_removed) {
  tree_make(tree, "empty/ file=x");
  is_rejected(tree, "new/../empty/newer/../../file/agent", "none", "Not a directory");
  assert_int_equal(tree_count(tree, "empty"), 0);
  assert_int_equal(tree_count(tree, "."), 2);
}

TREE_TEST(too_long_names_are_rejected) {
  char name[PATH_MAX];
  memset(name, 'n', sizeof name);
  name[300] = '\0';
  is_rejected(tree, name, "none", "a shorter target");
  name[300] = 'n';
  name[PATH_MAX - 40] = '\0';
  char text[2 * PATH_MAX];
  assert_int_equal(inject(tree, name, "none", text, sizeof text), -1);
  assert_non_null(strstr(text, "a shorter target"));
  char longer[PATH_MAX + 10];
  memset(longer, '/', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  assert_int_equal(inject_program(longer, "none", "none", text, sizeof text), -1);
  assert_non_null(strstr(text, "a shorter target"));
  assert_int_equal(tree_count(tree, "."), 0);
}

TREE_TEST(a_small_buffer_is_enough) {
  char text[8];
  assert_int_equal(inject(tree, "agent", "none", text, sizeof text), 0);
  assert_string_equal(text, "injecte");
}
