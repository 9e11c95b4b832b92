#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/staged_file.h"
#include "tests/support/proc.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* Replaces the function of the C library, and fails if a test wants it to. */
static int close_error;

int close(int fd) {
  int result = (int)syscall(SYS_close, fd);
  if (close_error == 0)
    return result;
  errno = close_error;
  return -1;
}

/* Replaces the function of base/clock: a wait is over after a few attempts. */
static int64_t now_ms, tick_ms;

int64_t clock_monotonic_ms(void) {
  return now_ms += tick_ms;
}

static void begin(struct staged_file *staged, const struct tree *tree) {
  assert_int_equal(staged_file_begin(staged, tree->fd, "file", 0755), 0);
  assert_int_equal(write(staged->fd, "#!/bin/sh\nexit 42\n", 18), 18);
}

static void expect_file(const struct tree *tree, const char *name, mode_t mode) {
  tree_expect(tree, name, "#!/bin/sh\nexit 42\n", mode);
}

static void put_file(const struct tree *tree) {
  struct staged_file staged;
  begin(&staged, tree);
  assert_int_equal(staged_file_commit(&staged), 0);
  staged_file_release(&staged);
  expect_file(tree, "file", 0755);
}

/* A file that was begun; one that was sealed; one whose close fails for lack of space, as on a
   network file system; one over a directory, which is not replaced. */
TREE_TEST(without_a_commit_nothing_is_left) {
  int descriptors = proc_fd_count(getpid());
  tree_write(tree, "file", "old", 0600);
  for (int i = 0; i < 4; i++) {
    struct staged_file staged;
    if (i == 3) {
      assert_int_equal(unlinkat(tree->fd, "file", 0), 0);
      tree_make_directory(tree, "file", 0755);
    }
    begin(&staged, tree);
    if (i == 1)
      assert_int_equal(staged_file_seal(&staged, 0755), 0);
    close_error = i == 2 ? EDQUOT : 0;
    int result = i >= 2 ? staged_file_commit(&staged) : -1;
    close_error = 0;
    assert_int_equal(result, -1);
    if (i >= 2)
      assert_int_equal(errno, i == 2 ? EDQUOT : EISDIR);
    errno = EDOM;
    staged_file_release(&staged);
    assert_int_equal(errno, EDOM);
    if (i < 3)
      tree_expect(tree, "file", "old", 0600);
    assert_int_equal(tree_count(tree, "."), 1);
  }
  struct staged_file staged = STAGED_FILE_NONE;
  staged_file_release(&staged);
  assert_int_equal(staged_file_begin(&staged, -1, "file", 0644), -1);
  assert_int_equal(errno, EBADF);
  staged_file_release(&staged);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

/* The hidden name of `file`. */
static void hidden_name(const struct tree *tree, char *name) {
  struct staged_file staged;
  begin(&staged, tree);
  strcpy(name, staged.hidden);
  staged_file_release(&staged);
}

/* The abandoned file is removed and never written to. */
TREE_TEST(an_abandoned_hidden_file_is_not_written_to) {
  char hidden[64];
  struct staged_file staged;
  hidden_name(tree, hidden);
  tree_write(tree, "victim", "mine", 0600);
  assert_int_equal(linkat(tree->fd, "victim", tree->fd, hidden, 0), 0);
  put_file(tree);
  static const char *const targets[] = {"victim", "nothing"};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(symlinkat(targets[i], tree->fd, hidden), 0);
    put_file(tree);
  }
  assert_int_equal(mkfifoat(tree->fd, hidden, 0644), 0);
  put_file(tree);
  tree_write(tree, hidden, "half of a long one", 0000);
  put_file(tree);
  tree_expect(tree, "victim", "mine", 0600);
  assert_int_equal(tree_count(tree, "."), 2);
  tree_make_directory(tree, hidden, 0755); /* a directory is not removed */
  assert_int_equal(staged_file_begin(&staged, tree->fd, "file", 0644), -1);
  assert_int_equal(errno, EISDIR);
  assert_true(tree_has(tree, hidden));
}

/* The commit fails, and it does not remove the file of another writer. */
TREE_TEST(a_file_that_has_lost_its_name_is_not_committed) {
  struct staged_file staged;
  begin(&staged, tree);
  assert_int_equal(unlinkat(tree->fd, staged.hidden, 0), 0);
  tree_write(tree, staged.hidden, "another's", 0644);
  assert_int_equal(staged_file_commit(&staged), -1);
  assert_int_equal(errno, EWOULDBLOCK);
  char hidden[64];
  strcpy(hidden, staged.hidden);
  staged_file_release(&staged);
  assert_false(tree_has(tree, "file"));
  tree_expect(tree, hidden, "another's", 0644);
}

/* --- several makers --------------------------------------------------------------------------- */

static bool waits_for_a_lock(void *context) {
  const pid_t *pid = context;
  return proc_sleeps_in(*pid, SYS_nanosleep) || proc_sleeps_in(*pid, SYS_clock_nanosleep);
}

/* Starts a second writer of the same file in a child, and waits until it waits for the first. */
static pid_t start_second(const struct tree *tree, const struct staged_file *first) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0) {
    assert_true(wait_until(waits_for_a_lock, &pid, WAIT_BOUND_MS));
    return pid;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(first->fd);                                   /* otherwise the child would keep the lock */
  (void)sigprocmask(SIG_SETMASK, &first->mask, NULL); /* the first one blocks SIGTERM */
  struct staged_file staged;
  if (staged_file_begin(&staged, tree->fd, "file", 0600) != 0 ||
      write(staged.fd, "later", 5) != 5 || staged_file_commit(&staged) != 0)
    _exit(1);
  staged_file_release(&staged);
  _exit(0);
}

/* Expects that SIGTERM ends the child. */
static void expect_sigterm(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGTERM);
}

/* A writer that waits for another one has nothing to finish. */
TREE_TEST(a_wait_is_ended_by_sigterm) {
  struct staged_file staged;
  begin(&staged, tree);
  pid_t second = start_second(tree, &staged);
  assert_int_equal(kill(second, SIGTERM), 0);
  assert_true(proc_wait_pid_gone(second, WAIT_BOUND_MS));
  expect_sigterm(second);
  expect_file(tree, staged.hidden, 0755);
  staged_file_release(&staged);
  assert_int_equal(tree_count(tree, "."), 0);
}

/* Any program that can open the hidden file can lock it forever, such as that of another user in
   /tmp. */
TREE_TEST(a_wait_for_another_writer_has_an_end) {
  struct staged_file first, second;
  begin(&first, tree);
  tick_ms = STAGED_FILE_WAIT_MS / 4;
  assert_int_equal(staged_file_begin(&second, tree->fd, "file", 0600), -1);
  tick_ms = 0;
  assert_int_equal(errno, EWOULDBLOCK);
  assert_in_range(now_ms, STAGED_FILE_WAIT_MS, 2 * STAGED_FILE_WAIT_MS);
  staged_file_release(&second);
  expect_file(tree, first.hidden, 0755);
  assert_int_equal(staged_file_commit(&first), 0);
  staged_file_release(&first);
  expect_file(tree, "file", 0755);
}

static bool sigterm_is_pending(void) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM);
}

/* The write is finished, and nothing is left behind. */
TREE_TEST(sigterm_waits_for_the_release) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    struct staged_file staged;
    if (staged_file_begin(&staged, tree->fd, "file", 0644) != 0 || raise(SIGTERM) != 0 ||
        !sigterm_is_pending() || write(staged.fd, "new", 3) != 3 ||
        staged_file_commit(&staged) != 0)
      _exit(1);
    staged_file_release(&staged);
    _exit(2);
  }
  expect_sigterm(pid);
  tree_expect(tree, "file", "new", 0644);
  assert_int_equal(tree_count(tree, "."), 1);
}
