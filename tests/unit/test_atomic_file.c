#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/files/access/atomic_file.h"
#include "tests/support/proc.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static void write_bytes(const struct tree *tree, const char *path, const char *content,
                        size_t length) {
  struct error error = {.text = ""};
  int descriptors = proc_fd_count(getpid());
  (void)atomic_file_write(tree->fd, path, content, length, &error);
  assert_string_equal(error.text, "");
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

static void write_text(const struct tree *tree, const char *path, const char *text) {
  write_bytes(tree, path, text, strlen(text));
}

static void expect_rejected(const struct tree *tree, const char *path, const char *text) {
  struct error error = {.text = ""};
  int descriptors = proc_fd_count(getpid());
  assert_int_equal(atomic_file_write(tree->fd, path, "new", 3, &error), -1);
  assert_string_equal(error.text, text);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

TREE_TEST(a_new_file_is_made) {
  mode_t before = umask(027);
  write_text(tree, "file", "new\n");
  write_bytes(tree, "empty", NULL, 0);
  umask(before);
  tree_expect(tree, "file", "new\n", 0640);
  tree_expect(tree, "empty", "", 0640);
  assert_int_equal(tree_count(tree, "."), 2);
}

TREE_TEST(an_old_file_is_replaced) {
  tree_write(tree, "file", "an old one", 0644);
  int reader = openat(tree->fd, "file", O_RDONLY | O_CLOEXEC);
  char text[32];
  write_text(tree, "file", "new");
  tree_expect(tree, "file", "new", 0644);
  assert_int_equal(read(reader, text, sizeof text), 10); /* who reads it reads on */
  close(reader);
  write_bytes(tree, "file", "", 0);
  tree_expect(tree, "file", "", 0644);
  assert_int_equal(tree_count(tree, "."), 1);
}

TREE_TEST(absolute_paths_ignore_the_directory) {
  char path[64];
  (void)snprintf(path, sizeof path, "%s/a/file", tree->path);
  struct error error = {.text = ""};
  assert_int_equal(atomic_file_write(-1, path, "new", 3, &error), 0);
  tree_expect(tree, "a/file", "new", 0644);
}

TREE_TEST(missing_directories_are_created) {
  write_text(tree, "a/b//c/./file", "new");
  write_text(tree, "a/b/../d/file", "new");
  tree_expect(tree, "a/b/c/file", "new", 0644);
  tree_expect(tree, "a/d/file", "new", 0644);
  assert_int_equal(tree_count(tree, "a"), 2);
}

TREE_TEST(mode_and_owner_are_kept) {
  static const mode_t modes[] = {0600, 0755, 0000, 0777, 04755, 02711};
  struct stat file;
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    tree_write(tree, "file", "old", 0600);
    assert_int_equal(fchownat(tree->fd, "file", 1234, 5678, 0), 0);
    assert_int_equal(fchmodat(tree->fd, "file", modes[i], 0), 0);
    write_text(tree, "file", "new");
    tree_expect(tree, "file", "new", modes[i]);
    assert_int_equal(fstatat(tree->fd, "file", &file, 0), 0);
    assert_int_equal(file.st_uid, 1234);
    assert_int_equal(file.st_gid, 5678);
  }
}

TREE_TEST(a_byte_order_mark_is_kept) {
  tree_write(tree, "file", "\xEF\xBB\xBFold", 0644);
  write_text(tree, "file", "new");
  tree_expect(tree, "file", "\xEF\xBB\xBFnew", 0644);
  write_text(tree, "file", "\xEF\xBB\xBFmarked");
  tree_expect(tree, "file", "\xEF\xBB\xBFmarked", 0644);
  write_text(tree, "file", "");
  tree_expect(tree, "file", "\xEF\xBB\xBF", 0644);
  tree_write(tree, "file", "\xEF\xBB", 0644);
  write_text(tree, "file", "new");
  tree_expect(tree, "file", "new", 0644);
  write_text(tree, "file", "\xEF\xBB\xBFnew");
  tree_expect(tree, "file", "\xEF\xBB\xBFnew", 0644);
}

static void expect_link(const struct tree *tree, const char *name, const char *text) {
  char found[64] = "";
  assert_true(readlinkat(tree->fd, name, found, sizeof found - 1) > 0);
  assert_string_equal(found, text);
}

TREE_TEST(links_are_written_through) {
  char absolute[64];
  tree_make_directory(tree, "a", 0755);
  tree_make_directory(tree, "b", 0755);
  tree_write(tree, "b/file", "\xEF\xBB\xBFold", 0640);
  (void)snprintf(absolute, sizeof absolute, "%s/a/second", tree->path);
  assert_int_equal(symlinkat(absolute, tree->fd, "first"), 0);
  assert_int_equal(symlinkat("../b/file", tree->fd, "a/second"), 0);
  assert_int_equal(symlinkat("b", tree->fd, "c"), 0);
  write_text(tree, "first", "new");
  tree_expect(tree, "b/file", "\xEF\xBB\xBFnew", 0640);
  expect_link(tree, "first", absolute);
  expect_link(tree, "a/second", "../b/file");
  write_text(tree, "c/file", "newer");
  tree_expect(tree, "b/file", "\xEF\xBB\xBFnewer", 0640);
  expect_link(tree, "c", "b");
  assert_int_equal(tree_count(tree, "."), 4);
  assert_int_equal(tree_count(tree, "a"), 1);
  assert_int_equal(tree_count(tree, "b"), 1);
}

TREE_TEST(dangling_links_are_written_through) {
  tree_make_directory(tree, "a", 0755);
  assert_int_equal(symlinkat("../made/for/file", tree->fd, "a/link"), 0);
  write_text(tree, "a/link", "new");
  tree_expect(tree, "made/for/file", "new", 0644);
  expect_link(tree, "a/link", "../made/for/file");
  assert_int_equal(symlinkat("round", tree->fd, "round"), 0);
  expect_rejected(tree, "round", "cannot write file (Too many levels of symbolic links): round");
}

TREE_TEST(other_kinds_are_rejected_by_name) {
  tree_make_directory(tree, "directory", 0755);
  assert_int_equal(mkfifoat(tree->fd, "fifo", 0644), 0);
  assert_int_equal(symlinkat("fifo", tree->fd, "link"), 0);
  expect_rejected(tree, "directory", "is a directory, not a regular file: directory");
  expect_rejected(tree, ".", "is a directory, not a regular file: .");
  expect_rejected(tree, "fifo", "is a FIFO, not a regular file: fifo");
  expect_rejected(tree, "link", "is a FIFO, not a regular file: link");
  expect_rejected(tree, "/dev/null", "is a character device, not a regular file: /dev/null");
  expect_rejected(tree, "new/", "cannot write file (Is a directory): new/");
  expect_rejected(tree, "new/..", "is a directory, not a regular file: new/..");
  expect_rejected(tree, "directory/", "is a directory, not a regular file: directory/");
  expect_rejected(tree, "/", "is a directory, not a regular file: /");
  expect_rejected(tree, "", "cannot write file (No such file or directory): ");
  assert_int_equal(tree_count(tree, "."), 4); /* `new` was made */
  assert_int_equal(tree_count(tree, "directory"), 0);
}

TREE_TEST(errors_on_the_way_name_the_path) {
  char name[300];
  char text[400];
  tree_write(tree, "file", "old", 0644);
  expect_rejected(tree, "file/below", "cannot write file (Not a directory): file/below");
  expect_rejected(tree, "file/a/b", "cannot write file (Not a directory): file/a/b");
  memset(name, 'x', sizeof name);
  name[256] = '\0';
  (void)snprintf(text, sizeof text, "cannot write file (File name too long): %s", name);
  text[255] = '\0';
  expect_rejected(tree, name, text);
  name[255] = '\0'; /* the longest that there is */
  write_text(tree, name, "new");
  tree_expect(tree, name, "new", 0644);
  assert_int_equal(tree_count(tree, "."), 2);
}

TREE_TEST(the_limit_is_exact) {
  struct error error = {.text = ""};
  struct stat file;
  char *content = calloc(1, ATOMIC_FILE_MAX + 1);
  assert_non_null(content);
  tree_write(tree, "file", "old", 0644);
  assert_int_equal(atomic_file_write(tree->fd, "file", content, ATOMIC_FILE_MAX + 1, &error), -1);
  assert_string_equal(error.text, "content exceeds 10 MB limit");
  tree_expect(tree, "file", "old", 0644);
  assert_int_equal(atomic_file_write(tree->fd, "a/file", content, ATOMIC_FILE_MAX + 1, &error), -1);
  assert_false(tree_has(tree, "a"));
  write_bytes(tree, "file", content, ATOMIC_FILE_MAX);
  assert_int_equal(fstatat(tree->fd, "file", &file, 0), 0);
  assert_int_equal(file.st_size, ATOMIC_FILE_MAX);
  free(content);
}

/* A link of /proc leads to an open file. What it says may be no path, or no longer the file's. */
TREE_TEST(links_of_proc_are_checked) {
  char path[64];
  char text[128];
  int ends[2];
  tree_write(tree, "file", "old", 0644);
  int fd = openat(tree->fd, "file", O_RDONLY | O_CLOEXEC);
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  write_text(tree, path, "new"); /* it says the truth */
  tree_expect(tree, "file", "new", 0644);
  (void)snprintf(text, sizeof text, "cannot write file (Operation not supported): %s", path);
  expect_rejected(tree, path, text); /* "…/file (deleted)", which was replaced */
  close(fd);
  assert_int_equal(tree_count(tree, "."), 1);
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
  (void)snprintf(text, sizeof text, "is a FIFO, not a regular file: %s", path);
  expect_rejected(tree, path, text);
  close(ends[0]);
  close(ends[1]);
}

/* As many links as the kernel follows, and one more. */
TREE_TEST(long_chains_of_links_are_followed) {
  char name[16] = "file";
  char next[16];
  for (int i = 1; i <= 41; i++) {
    (void)snprintf(next, sizeof next, "%d", i);
    assert_int_equal(symlinkat(name, tree->fd, next), 0);
    strcpy(name, next);
  }
  write_text(tree, "40", "new");
  tree_expect(tree, "file", "new", 0644);
  expect_rejected(tree, "41", "cannot write file (Too many levels of symbolic links): 41");
}

/* The kernel's own limit, which is told before anything is made. */
TREE_TEST(too_long_a_path_is_rejected) {
  struct error error;
  char path[PATH_MAX + 1] = "new/";
  for (size_t i = 4; i < PATH_MAX; i++)
    path[i] = i % 2 == 0 ? '.' : '/';
  path[PATH_MAX] = '\0';
  assert_int_equal(atomic_file_write(tree->fd, path, "new", 3, &error), -1);
  assert_ptr_equal(strstr(error.text, "cannot write file (File name too long): new/./"),
                   error.text);
  assert_int_equal(tree_count(tree, "."), 0);
  memcpy(path + PATH_MAX - 3, "/x", 3);
  path[PATH_MAX - 4] = '/';
  write_text(tree, path, "new");
  tree_expect(tree, "new/x", "new", 0644);
}

/* `a_link` leads to a directory that is missing: mkdir(1) -p does not make that either. */
TREE_TEST(a_link_to_a_missing_directory_is_not_followed) {
  assert_int_equal(symlinkat("nowhere", tree->fd, "a_link"), 0);
  expect_rejected(tree, "a_link/file",
                  "cannot write file (No such file or directory): a_link/file");
  assert_int_equal(tree_count(tree, "."), 1);
}

/* As a full disk does it. */
TREE_TEST(a_failed_write_keeps_the_old_file) {
  static const char content[8192] = "new";
  struct rlimit before;
  struct error error = {.text = ""};
  tree_write(tree, "file", "old", 0644);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  int result = atomic_file_write(tree->fd, "file", content, sizeof content, &error);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)signal(SIGXFSZ, handler);
  assert_int_equal(result, -1);
  assert_string_equal(error.text, "cannot write file (File too large): file");
  tree_expect(tree, "file", "old", 0644);
  assert_int_equal(tree_count(tree, "."), 1);
}

/* Other names of the same file are other files from then on. */
TREE_TEST(a_hard_link_keeps_the_old_content) {
  tree_write(tree, "file", "old", 0644);
  assert_int_equal(linkat(tree->fd, "file", tree->fd, "other", 0), 0);
  write_text(tree, "file", "new");
  tree_expect(tree, "other", "old", 0644);
}

static int set_umask(void **state) {
  (void)state;
  umask(022);
  return 0;
}

TEST_GROUP(set_umask, NULL)
