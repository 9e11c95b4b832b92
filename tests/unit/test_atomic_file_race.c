/* Edits while another process writes the file: both changes are kept. */

#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "agent/files/access/atomic_file.h"
#include "tests/support/as_user.h"
#include "tests/support/tree.h"
#include "tests/test.h"

enum { STOPS_MAX = 2000, EDITS = 100 };

/* Adds a line at the end; fails if there is a line "torn". */
static int add_line(void *context, struct buffer *text, struct error *error) {
  (void)context;
  if (text->length > 0 && memmem(text->bytes, text->length, "torn", 4) != NULL)
    return error_set(error, "torn");
  buffer_add_string(text, "edited\n");
  return 0;
}

static int edit(const char *path) {
  struct error error;
  const struct atomic_file_edit edit = {.apply = add_line};
  return atomic_file_edit(path, &edit, &error);
}

static const char *content_of(const char *path) {
  static char content[4096];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = read(fd, content, sizeof content - 1);
  assert_true(length >= 0);
  close(fd);
  content[length] = '\0';
  return content;
}

/* --- what somebody else does meanwhile -------------------------------------------------------- */

static void put(const char *path, int flags, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
}

static void append(const struct tree *tree) {
  put(tree_path(tree, "file"), O_APPEND, "other\n");
}

/* The length does not change, so only the modification time shows the change, and only after the
   next clock tick. */
static void change(const struct tree *tree) {
  put(tree_path(tree, "file"), 0, "other\n");
}

static void replace(const struct tree *tree) {
  put(tree_path(tree, "new"), O_CREAT | O_EXCL, "other\n");
  assert_int_equal(rename(tree_path(tree, "new"), tree_path(tree, "file")), 0);
}

/* An edit that cannot be applied to the old content can be applied to the new one. */
static void mend(const struct tree *tree) {
  put(tree_path(tree, "file"), O_TRUNC, "other\n");
}

/* --- between any two system calls ------------------------------------------------------------- */

static pid_t start_traced(const char *path, uid_t user) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0)
    return pid;
  if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0)
    _exit(2);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
    _exit(2);
  _exit(edit(path) == 0 ? 0 : 1);
}

/* Stops an edit at the entry or exit of a system call and lets the other process write. Returns
   its exit code; `*was_stopped` is false if it had ended before. */
static int edit_with_stop(const struct tree *tree, uid_t user, int stop,
                          void (*other)(const struct tree *tree), bool *was_stopped) {
  pid_t pid = start_traced(tree_path(tree, "file"), user);
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  for (int i = 0; i < stop && WIFSTOPPED(status); i++) {
    assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
  }
  *was_stopped = WIFSTOPPED(status);
  if (*was_stopped) {
    other(tree);
    assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
  }
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

struct race {
  void (*other)(const struct tree *tree);
  const char *before;
  uid_t user;
  int lost_max;
};

/* The number of stops at which a change was lost or the edit failed, and of all stops. */
static int count_lost(const struct tree *tree, const struct race *race, int *stops) {
  int lost = 0;
  bool was_stopped = true;
  for (*stops = 0; was_stopped; ++*stops) {
    (void)unlinkat(tree->fd, "file", 0);
    tree_write(tree, "file", race->before, 0666);
    assert_int_equal(fchmodat(tree->fd, "file", 0666, 0), 0);
    int code = edit_with_stop(tree, race->user, *stops + 1, race->other, &was_stopped);
    const char *content = content_of(tree_path(tree, "file"));
    bool has_both = strstr(content, "other\n") != NULL &&
                    (strstr(content, "edited\n") != NULL || race->other == replace);
    lost += was_stopped && (code != 0 || !has_both);
    assert_in_range(*stops, 0, STOPS_MAX);
    assert_int_equal(tree_count(tree, "."), 1);
  }
  return lost;
}

/* There are two stops between the last check and the rename. Lines appended there are carried
   over. A write in place has more stops. A failed edit is not undone before it ends. */
TREE_TEST(concurrent_writes_are_not_lost) {
  static const struct race races[] = {
      {append, "before\n", 0, 0},      {change, "before\n", 0, 2},
      {replace, "before\n", 0, 2},     {mend, "torn\n", 0, 8},
      {append, "before\n", NOBODY, 8}, {change, "before\n", NOBODY, 16}};
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  for (size_t i = 0; i < sizeof races / sizeof *races; i++) {
    int stops;
    assert_in_range(count_lost(tree, &races[i], &stops), 0, races[i].lost_max);
    assert_in_range(stops, 30, STOPS_MAX);
  }
}

/* A program opens the file before it is replaced, and appends to it afterwards. */
TREE_TEST(lines_appended_to_the_old_file_are_carried_over) {
  struct stat file;
  ino_t old;
  int status, stops = 0;
  tree_make(tree, "file");
  put(tree_path(tree, "file"), 0, "before\n");
  int fd = openat(tree->fd, "file", O_WRONLY | O_APPEND | O_CLOEXEC);
  assert_int_equal(fstat(fd, &file), 0);
  old = file.st_ino;
  pid_t pid = start_traced(tree_path(tree, "file"), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  while (fstatat(tree->fd, "file", &file, 0) == 0 && file.st_ino == old) {
    assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status));
    assert_in_range(++stops, 1, STOPS_MAX);
  }
  assert_int_equal(write(fd, "other\n", 6), 6);
  close(fd);
  assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  tree_expect(tree, "file", "before\nedited\nother\n", 0644);
}

/* --- many writers ----------------------------------------------------------------------------- */

static int edit_often(void *context, struct error *error) {
  const struct tree *tree = context;
  const struct atomic_file_edit edit = {.apply = add_line};
  for (int i = 0; i < EDITS; i++)
    if (atomic_file_edit(tree_path(tree, i % 2 == 0 ? "file" : "link"), &edit, error) != 0)
      return -1;
  return 0;
}

static pid_t start_editor(const struct tree *tree, uid_t user) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0)
    return pid;
  struct error error;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  _exit(as_user(user, user, edit_often, (void *)(uintptr_t)tree, &error) == 0 ? 0 : 1);
}

/* The owner and root replace the file, the others write it in place. */
TREE_TEST(edits_of_several_users_are_all_in_the_file) {
  static const uid_t users[] = {0, NOBODY, 1234, 1234, NOBODY, 1235};
  enum { USERS = sizeof users / sizeof *users };
  struct stat file;
  pid_t pids[USERS];
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  tree_make(tree, "file link>file");
  assert_int_equal(fchmodat(tree->fd, "file", 0666, 0), 0);
  assert_int_equal(fchownat(tree->fd, "file", 1234, 1234, 0), 0);
  for (int i = 0; i < USERS; i++)
    pids[i] = start_editor(tree, users[i]);
  for (int i = 0; i < USERS; i++) {
    int status;
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(fstatat(tree->fd, "file", &file, 0), 0);
  assert_int_equal(file.st_size, USERS * EDITS * strlen("edited\n"));
  assert_int_equal(file.st_uid, 1234);
  assert_int_equal(file.st_mode & 07777, 0666);
  assert_int_equal(tree_count(tree, "."), 2);
}
