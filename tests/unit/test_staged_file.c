#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/staged_file.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/tree.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* In place of the C library's: counted, and failing when a test says so. */
static struct { int count, error; } syncs, closes;

int fsync(int fd) {
  syncs.count++;
  errno = syncs.error;
  return syncs.error == 0 ? (int)syscall(SYS_fsync, fd) : -1;
}

int close(int fd) {
  closes.count++;
  int result = (int)syscall(SYS_close, fd);
  if (closes.error == 0)
    return result;
  errno = closes.error;
  return -1;
}

static void begin(struct staged_file *staged, const struct tree *tree) {
  assert_int_equal(staged_file_begin(staged, tree->fd, "file", 0644), 0);
  assert_int_equal(write(staged->fd, "new", 3), 3);
}

static void begin_directory(struct staged_file *staged, const struct tree *tree) {
  assert_int_equal(staged_directory_begin(staged, tree->fd, "directory"), 0);
}

/* The hidden name of `file`. */
static void hidden_name(const struct tree *tree, char *name) {
  struct staged_file staged;
  begin(&staged, tree);
  strcpy(name, staged.hidden);
  staged_file_release(&staged);
}

static void finish(struct staged_file *staged) {
  assert_int_equal(staged_file_commit(staged), 0);
  staged_file_release(staged);
}

static void put_file(const struct tree *tree) {
  struct staged_file staged;
  begin(&staged, tree);
  finish(&staged);
  tree_expect(tree, "file", "new", 0644);
}

static void fill_directory(const struct staged_file *staged, const char *file) {
  int fd = openat(staged->fd, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(mkdirat(staged->fd, "below", 0755), 0);
  assert_int_equal(symlinkat("..", staged->fd, "below/up"), 0);
}

/* With one file, and a link in a directory below it. */
static void put_directory(const struct tree *tree, const char *file) {
  struct staged_file staged;
  begin_directory(&staged, tree);
  fill_directory(&staged, file);
  assert_int_equal(staged_file_seal(&staged, 0755), 0);
  const char *name = formatted("directory/%s", file);
  assert_false(tree_has(tree, name)); /* it appears by the commit */
  finish(&staged);
  assert_true(tree_has(tree, name));
}

TREE_TEST(a_file_appears_by_its_commit) {
  int descriptors = proc_fd_count(getpid());
  struct staged_file staged;
  begin(&staged, tree);
  tree_expect(tree, staged.hidden, "new", 0644);
  assert_false(tree_has(tree, "file"));
  assert_int_equal(staged_file_commit(&staged), 0);
  tree_expect(tree, "file", "new", 0644);
  staged_file_release(&staged);
  tree_expect(tree, "file", "new", 0644);
  assert_int_equal(tree_count(tree, "."), 1);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

TREE_TEST(without_a_commit_nothing_stays) {
  int descriptors = proc_fd_count(getpid());
  tree_write(tree, "file", "old", 0600);
  struct staged_file staged;
  begin(&staged, tree);
  assert_int_equal(tree_count(tree, "."), 2);
  errno = EDOM;
  staged_file_release(&staged);
  assert_int_equal(errno, EDOM);
  begin(&staged, tree);
  assert_int_equal(staged_file_seal(&staged, 0755), 0);
  staged_file_release(&staged);
  begin_directory(&staged, tree);
  fill_directory(&staged, "one");
  staged_file_release(&staged);
  tree_expect(tree, "file", "old", 0600);
  assert_int_equal(tree_count(tree, "."), 1);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

TREE_TEST(a_release_without_a_begin_does_nothing) {
  struct staged_file staged = STAGED_FILE_NONE;
  staged_file_release(&staged);
  assert_int_equal(staged_file_begin(&staged, -1, "file", 0644), -1);
  assert_int_equal(errno, EBADF);
  staged_file_release(&staged);
  assert_int_equal(tree_count(tree, "."), 0);
}

TREE_TEST(the_mode_of_a_seal_is_as_given) {
  struct staged_file staged;
  begin(&staged, tree);
  mode_t before = umask(0777);
  int result = staged_file_seal(&staged, 0755);
  umask(before);
  assert_int_equal(result, 0);
  finish(&staged);
  tree_expect(tree, "file", "new", 0755);
}

/* File and directory; what is not sealed is as new as its disk. */
TREE_TEST(only_what_is_sealed_is_synced) {
  for (int sealed = 0; sealed <= 1; sealed++) {
    struct staged_file staged;
    syncs.count = 0;
    begin(&staged, tree);
    if (sealed)
      assert_int_equal(staged_file_seal(&staged, 0755), 0);
    finish(&staged);
    assert_int_equal(syncs.count, sealed ? 2 : 0);
  }
}

/* A file system over a network may have no room, and say so only then. */
TREE_TEST(what_a_close_would_fail_with_keeps_the_old_file) {
  tree_write(tree, "file", "old", 0600);
  struct staged_file staged;
  begin(&staged, tree);
  closes.error = EDQUOT;
  int result = staged_file_commit(&staged);
  int error = errno;
  closes.error = 0;
  assert_int_equal(result, -1);
  assert_int_equal(error, EDQUOT);
  staged_file_release(&staged);
  tree_expect(tree, "file", "old", 0600);
  assert_int_equal(tree_count(tree, "."), 1);
}

/* The exit code of a program in the tree, or errno of its execve. */
static int run(const struct tree *tree, char *name) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    char *const arguments[] = {name, NULL};
    if (fchdir(tree->fd) == 0)
      execve(name, arguments, environ);
    _exit(errno);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WEXITSTATUS(status);
}

/* A file that somebody has open for writing cannot be executed. */
TREE_TEST(a_sealed_or_committed_file_may_be_executed) {
  static char name[] = "./file";
  for (int sealed = 0; sealed <= 1; sealed++) {
    struct staged_file staged;
    assert_int_equal(staged_file_begin(&staged, tree->fd, "file", 0755), 0);
    assert_int_equal(write(staged.fd, "#!/bin/sh\nexit 42\n", 18), 18);
    assert_int_equal(sealed ? staged_file_seal(&staged, 0755) : staged_file_commit(&staged), 0);
    assert_int_equal(run(tree, sealed ? staged.hidden : name), 42);
    char first[2];
    if (sealed) { /* it can still be read */
      assert_int_equal(pread(staged.fd, first, 2, 0), 2);
      assert_int_equal(write(staged.fd, "x", 1), -1);
    }
    staged_file_release(&staged);
  }
}

TREE_TEST(a_directory_is_replaced_whole) {
  int descriptors = proc_fd_count(getpid());
  tree_make_directory(tree, "directory", 0700); /* an empty one */
  put_directory(tree, "one");
  put_directory(tree, "two");
  assert_false(tree_has(tree, "directory/one"));
  assert_int_equal(tree_count(tree, "directory"), 2);
  assert_int_equal(tree_count(tree, "."), 1);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

static void commit_and_revert(const struct tree *tree) {
  struct staged_file staged;
  begin_directory(&staged, tree);
  fill_directory(&staged, "new");
  assert_int_equal(staged_file_commit(&staged), 0);
  assert_true(tree_has(tree, "directory/new"));
  staged_file_revert(&staged);
  assert_false(tree_has(tree, "directory/new"));
  staged_file_release(&staged);
}

TREE_TEST(a_reverted_directory_is_as_it_was) {
  commit_and_revert(tree);
  assert_int_equal(tree_count(tree, "."), 0);
  put_directory(tree, "old");
  commit_and_revert(tree);
  assert_true(tree_has(tree, "directory/old"));
  assert_int_equal(tree_count(tree, "directory"), 2);
  assert_int_equal(tree_count(tree, "."), 1);
}

static void commit_and_revert_file(const struct tree *tree) {
  struct staged_file staged;
  begin(&staged, tree);
  staged.keeps_replaced = true;
  assert_int_equal(staged_file_seal(&staged, 0644), 0);
  assert_int_equal(staged_file_commit(&staged), 0);
  tree_expect(tree, "file", "new", 0644);
  staged_file_revert(&staged);
  staged_file_release(&staged);
}

TREE_TEST(a_reverted_file_is_as_it_was) {
  int descriptors = proc_fd_count(getpid());
  commit_and_revert_file(tree);
  assert_int_equal(tree_count(tree, "."), 0);
  tree_write(tree, "file", "old", 0200);
  commit_and_revert_file(tree);
  assert_int_equal(fchmodat(tree->fd, "file", 0600, 0), 0);
  tree_expect(tree, "file", "old", 0600);
  assert_int_equal(unlinkat(tree->fd, "file", 0), 0);
  assert_int_equal(symlinkat("nowhere", tree->fd, "file"), 0);
  commit_and_revert_file(tree);
  assert_true(tree_count(tree, ".") == 1 && unlinkat(tree->fd, "file", 0) == 0);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

/* The old one is gone with the release. */
TREE_TEST(a_file_that_could_be_reverted_need_not_be) {
  struct staged_file staged;
  tree_write(tree, "file", "old", 0600);
  begin(&staged, tree);
  staged.keeps_replaced = true;
  finish(&staged);
  tree_expect(tree, "file", "new", 0644);
  assert_int_equal(tree_count(tree, "."), 1);
  tree_make_directory(tree, "taken", 0755);
  assert_int_equal(staged_file_begin(&staged, tree->fd, "taken", 0644), 0);
  staged.keeps_replaced = true;
  assert_int_equal(staged_file_commit(&staged), -1);
  assert_int_equal(errno, EISDIR);
  staged_file_release(&staged);
  assert_int_equal(tree_count(tree, "."), 2);
}

/* What another process has put there since stays. */
TREE_TEST(a_revert_takes_nothing_of_others_back) {
  struct staged_file staged;
  begin_directory(&staged, tree);
  assert_int_equal(staged_file_commit(&staged), 0);
  assert_int_equal(unlinkat(tree->fd, "directory", AT_REMOVEDIR), 0);
  tree_make_directory(tree, "directory", 0755);
  tree_write(tree, "directory/theirs", "x", 0644);
  staged_file_revert(&staged);
  staged_file_release(&staged);
  assert_true(tree_has(tree, "directory/theirs"));
  assert_int_equal(tree_count(tree, "."), 1);
}

TREE_TEST(kinds_do_not_replace_each_other) {
  struct staged_file staged;
  tree_make_directory(tree, "file", 0755);
  begin(&staged, tree);
  assert_int_equal(staged_file_commit(&staged), -1);
  assert_int_equal(errno, EISDIR);
  staged_file_release(&staged);
  tree_write(tree, "directory", "mine", 0644);
  begin_directory(&staged, tree);
  assert_int_equal(staged_file_commit(&staged), -1);
  assert_int_equal(errno, ENOTDIR);
  staged_file_release(&staged);
  tree_expect(tree, "directory", "mine", 0644);
  assert_int_equal(tree_count(tree, "."), 2);
}

/* Whoever put it there: it is removed, not written to. */
TREE_TEST(what_lies_there_is_not_written_to) {
  char hidden[64];
  hidden_name(tree, hidden);
  tree_write(tree, "victim", "mine", 0600);
  assert_int_equal(linkat(tree->fd, "victim", tree->fd, hidden, 0), 0);
  put_file(tree);
  assert_int_equal(symlinkat("victim", tree->fd, hidden), 0);
  put_file(tree);
  assert_int_equal(symlinkat("nothing", tree->fd, hidden), 0);
  put_file(tree);
  assert_int_equal(mkfifoat(tree->fd, hidden, 0644), 0);
  put_file(tree);
  tree_write(tree, hidden, "half of a long one", 0000);
  put_file(tree);
  tree_expect(tree, "victim", "mine", 0600);
  assert_int_equal(tree_count(tree, "."), 2);
}

/* Both what lies under the hidden name and what was half removed from there. */
TREE_TEST(what_a_dead_maker_of_a_directory_left_is_removed) {
  struct staged_file staged;
  begin_directory(&staged, tree);
  char hidden[sizeof staged.hidden];
  strcpy(hidden, staged.hidden);
  staged_file_release(&staged);
  const char *words =
      formatted("%s/ %s/file=half %s-old/ %s-old/file=half", hidden, hidden, hidden, hidden);
  tree_make(tree, words);
  put_directory(tree, "one");
  tree_write(tree, hidden, "a file", 0400);
  put_directory(tree, "two");
  assert_int_equal(tree_count(tree, "."), 1);
}

TREE_TEST(its_owner_need_not_read_it) {
  char hidden[64];
  struct staged_file staged;
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  assert_int_equal(seteuid(65534), 0);
  hidden_name(tree, hidden);
  tree_write(tree, hidden, "half", 0000);
  int begun = staged_file_begin(&staged, tree->fd, "file", 0644);
  int changed = fchmod(staged.fd, 0000);
  int committed = staged_file_commit(&staged);
  staged_file_release(&staged);
  assert_int_equal(seteuid(0), 0);
  assert_int_equal(begun, 0);
  assert_int_equal(changed, 0);
  assert_int_equal(committed, 0);
  tree_expect(tree, "file", "", 0000);
  assert_int_equal(tree_count(tree, "."), 1);
}

TREE_TEST(a_directory_in_the_way_of_a_file_stays) {
  char hidden[64];
  struct staged_file staged;
  hidden_name(tree, hidden);
  tree_make_directory(tree, hidden, 0755);
  assert_int_equal(staged_file_begin(&staged, tree->fd, "file", 0644), -1);
  assert_int_equal(errno, EISDIR);
  staged_file_release(&staged);
  assert_true(tree_has(tree, hidden));
}

/* One that has lost its name has nothing to commit, and removes nobody else's. */
TREE_TEST(a_lost_file_is_not_committed) {
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

/* A second maker of the same, in a child: "later" in a file, or a directory with `two`. */
static int make_second(const struct tree *tree, bool is_directory) {
  struct staged_file staged;
  if (is_directory) {
    if (staged_directory_begin(&staged, tree->fd, "directory") != 0)
      return 1;
    fill_directory(&staged, "two");
  } else if (staged_file_begin(&staged, tree->fd, "file", 0600) != 0 ||
             write(staged.fd, "later", 5) != 5) {
    return 1;
  }
  if (staged_file_commit(&staged) != 0)
    return 2;
  staged_file_release(&staged);
  return 0;
}

static bool waits_for_a_lock(void *context) {
  const pid_t *pid = context;
  return proc_sleeps_in(*pid, SYS_flock);
}

/* Starts one, and waits until it waits for the first. */
static pid_t start_second(const struct tree *tree, const struct staged_file *first) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0) {
    assert_true(wait_until(waits_for_a_lock, &pid, WAIT_BOUND_MS));
    return pid;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  /* A lock is the open file's, and would stay with a child that has it. */
  close(first->fd);
  if (first->replaced >= 0)
    close(first->replaced);
  (void)sigprocmask(SIG_SETMASK, &first->mask, NULL); /* the first one blocks SIGTERM */
  _exit(make_second(tree, first->is_directory));
}

static void expect_success(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

/* A file, one that is sealed, and a directory. */
TREE_TEST(a_second_maker_waits_for_the_first) {
  for (int sealed = 0; sealed <= 1; sealed++) {
    struct staged_file staged;
    begin(&staged, tree);
    if (sealed)
      assert_int_equal(staged_file_seal(&staged, 0644), 0);
    pid_t second = start_second(tree, &staged);
    tree_expect(tree, staged.hidden, "new", 0644);
    finish(&staged);
    expect_success(second);
    tree_expect(tree, "file", "later", 0600);
    assert_int_equal(tree_count(tree, "."), 1);
  }
  struct staged_file staged;
  begin_directory(&staged, tree);
  fill_directory(&staged, "one");
  assert_int_equal(staged_file_seal(&staged, 0755), 0);
  pid_t second = start_second(tree, &staged);
  finish(&staged);
  expect_success(second);
  assert_true(tree_has(tree, "directory/two"));
  assert_false(tree_has(tree, "directory/one"));
  assert_int_equal(tree_count(tree, "."), 2);
}

/* Until the first one's release a second one leaves alone what the first replaced. */
TREE_TEST(what_was_replaced_can_be_put_back) {
  struct staged_file staged;
  put_directory(tree, "old");
  begin_directory(&staged, tree);
  fill_directory(&staged, "one");
  assert_int_equal(staged_file_commit(&staged), 0);
  pid_t second = start_second(tree, &staged);
  staged_file_revert(&staged);
  assert_true(tree_has(tree, "directory/old"));
  staged_file_release(&staged);
  expect_success(second);
  assert_true(tree_has(tree, "directory/two"));
  assert_int_equal(tree_count(tree, "."), 1);
}

static void begin_to_revert(struct staged_file *staged, const struct tree *tree, bool directory) {
  if (directory) {
    begin_directory(staged, tree);
    fill_directory(staged, "one");
  } else {
    begin(staged, tree);
    staged->keeps_replaced = true;
  }
}

static bool sleeps(void *context) {
  const pid_t *pid = context;
  return proc_sleeps_in(*pid, SYS_clock_nanosleep);
}

/* A child that holds the lock of this one until the parent waits for it. */
static pid_t hold_lock(const struct tree *tree, const char *name) {
  int ready[2];
  pid_t parent = getpid();
  assert_int_equal(pipe(ready), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    int fd = openat(tree->fd, name, O_RDONLY | O_CLOEXEC);
    bool is_locked = flock(fd, LOCK_EX) == 0 && write(ready[1], "", 1) == 1;
    _exit(is_locked && wait_until(sleeps, &parent, WAIT_BOUND_MS) ? 0 : 1);
  }
  char byte;
  assert_int_equal(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return pid;
}

/* Another maker looks at it, and finds that it is no dead one's. */
TREE_TEST(a_commit_waits_for_who_looks_at_what_it_replaces) {
  struct staged_file staged;
  put_directory(tree, "old");
  pid_t holder = hold_lock(tree, "directory");
  begin_directory(&staged, tree);
  fill_directory(&staged, "one");
  assert_int_equal(staged_file_commit(&staged), 0);
  expect_success(holder);
  pid_t second = start_second(tree, &staged);
  staged_file_release(&staged);
  expect_success(second);
  assert_true(tree_has(tree, "directory/two"));
  assert_int_equal(tree_count(tree, "."), 1);
}

/* It is under the hidden name again, where it looks like a dead maker's. */
TREE_TEST(what_was_reverted_is_locked_until_its_release) {
  for (int directory = 0; directory <= 1; directory++) {
    struct staged_file staged;
    begin_to_revert(&staged, tree, directory);
    assert_int_equal(staged_file_commit(&staged), 0);
    staged_file_revert(&staged);
    assert_int_equal(staged.state, STAGED_HIDDEN);
    pid_t second = start_second(tree, &staged);
    assert_true(tree_has(tree, staged.hidden));
    staged_file_release(&staged);
    expect_success(second);
    assert_int_equal(tree_count(tree, "."), 1 + directory);
  }
}

/* Even if the one that made what was replaced is only now released: its lock ended when that had
   its name. */
TREE_TEST(what_was_replaced_is_locked_by_the_one_that_replaced_it) {
  for (int directory = 0; directory <= 1; directory++) {
    struct staged_file replaced;
    begin_to_revert(&replaced, tree, directory);
    sigset_t mask = replaced.mask;
    assert_int_equal(staged_file_commit(&replaced), 0);
    struct staged_file staged;
    begin_to_revert(&staged, tree, directory);
    assert_int_equal(staged_file_commit(&staged), 0);
    assert_int_equal(staged.state, STAGED_EXCHANGED);
    staged_file_release(&replaced);
    pid_t second = start_second(tree, &staged);
    assert_true(tree_has(tree, staged.hidden));
    staged_file_release(&staged);
    assert_int_equal(sigprocmask(SIG_SETMASK, &mask, NULL), 0); /* released in the other order */
    expect_success(second);
    assert_int_equal(tree_count(tree, "."), 1 + directory);
  }
  assert_true(tree_has(tree, "directory/two"));
  tree_expect(tree, "file", "later", 0600);
}

/* A child that SIGTERM ends, and nothing else. */
static void expect_sigterm(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGTERM);
}

/* A maker that waits for another one has nothing to finish. */
TREE_TEST(a_wait_is_ended_by_sigterm) {
  struct staged_file staged;
  begin(&staged, tree);
  pid_t second = start_second(tree, &staged);
  assert_int_equal(kill(second, SIGTERM), 0);
  assert_true(proc_wait_pid_gone(second, WAIT_BOUND_MS));
  expect_sigterm(second);
  tree_expect(tree, staged.hidden, "new", 0644);
  staged_file_release(&staged);
  assert_int_equal(tree_count(tree, "."), 0);
}

static bool sigterm_is_pending(void) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM);
}

/* What has begun is finished, and nothing is left behind. */
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

TREE_TEST(anything_can_be_removed) {
  put_directory(tree, "one");
  tree_write(tree, "b", "x", 0);
  assert_int_equal(symlinkat("directory", tree->fd, "link"), 0);
  assert_int_equal(staged_file_remove(tree->fd, "link"), 0);
  assert_true(tree_has(tree, "directory/one")); /* not through the link */
  assert_int_equal(staged_file_remove(tree->fd, "directory"), 0);
  assert_int_equal(staged_file_remove(tree->fd, "b"), 0);
  assert_int_equal(staged_file_remove(tree->fd, "never there"), 0);
  assert_int_equal(tree_count(tree, "."), 0);
}

/* As a user whom a mode can stop; the tests run as root or as one. */
TREE_TEST(modes_do_not_keep_from_removing) {
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    bool done = (geteuid() != 0 || seteuid(1000) == 0) && mkdirat(tree->fd, "a", 0700) == 0 &&
                mkdirat(tree->fd, "a/b", 0500) == 0 && fchmodat(tree->fd, "a", 0500, 0) == 0 &&
                unlinkat(tree->fd, "a/b", AT_REMOVEDIR) == -1 && errno == EACCES &&
                staged_file_remove(tree->fd, "a") == 0 && !tree_has(tree, "a");
    _exit(done ? 0 : 1);
  }
  expect_success(pid);
}
