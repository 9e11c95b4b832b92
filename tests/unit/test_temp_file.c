#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/files/access/temp_file.h"
#include "tests/support/proc.h"
#include "tests/support/tree.h"
#include "tests/support/wait.h"
#include "tests/test.h"

static void begin(struct temp_file *draft, const struct tree *tree) {
  assert_int_equal(temp_file_begin(draft, tree->fd, "file", 0644), 0);
  assert_int_equal(write(draft->fd, "new", 3), 3);
}

/* Name of the draft of `file`. */
static void hidden_name(const struct tree *tree, char *name) {
  struct temp_file draft;
  begin(&draft, tree);
  strcpy(name, draft.hidden);
  temp_file_release(&draft);
}

TEST(a_draft_appears_by_its_commit, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  struct temp_file draft;
  begin(&draft, tree);
  tree_expect(tree, draft.hidden, "new", 0644);
  assert_false(tree_has(tree, "file"));
  assert_int_equal(temp_file_commit(&draft, "file"), 0);
  temp_file_release(&draft);
  tree_expect(tree, "file", "new", 0644);
  assert_int_equal(tree_count(tree, "."), 1);
}

TEST(without_a_commit_nothing_stays, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  struct temp_file draft;
  begin(&draft, tree);
  errno = EDOM;
  temp_file_release(&draft);
  assert_int_equal(errno, EDOM);
  assert_int_equal(tree_count(tree, "."), 0);
}

static void put(const struct tree *tree) {
  struct temp_file draft;
  begin(&draft, tree);
  assert_int_equal(temp_file_commit(&draft, "file"), 0);
  temp_file_release(&draft);
  tree_expect(tree, "file", "new", 0644);
}

/* Whoever put it there: it is removed, not written to. */
TEST(what_lies_there_is_not_written_to, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  char hidden[64];
  hidden_name(tree, hidden);
  tree_write(tree, "victim", "mine", 0600);
  assert_int_equal(linkat(tree->fd, "victim", tree->fd, hidden, 0), 0);
  put(tree);
  assert_int_equal(symlinkat("victim", tree->fd, hidden), 0);
  put(tree);
  assert_int_equal(symlinkat("nothing", tree->fd, hidden), 0);
  put(tree);
  assert_int_equal(mkfifoat(tree->fd, hidden, 0644), 0);
  put(tree);
  tree_write(tree, hidden, "half of a long one", 0000);
  put(tree);
  tree_expect(tree, "victim", "mine", 0600);
  assert_int_equal(tree_count(tree, "."), 2);
}

TEST(its_owner_need_not_read_it, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  char hidden[64];
  struct temp_file draft;
  assert_int_equal(fchmod(tree->fd, 0777), 0);
  assert_int_equal(seteuid(65534), 0);
  hidden_name(tree, hidden);
  tree_write(tree, hidden, "half", 0000);
  int begun = temp_file_begin(&draft, tree->fd, "file", 0644);
  int changed = fchmod(draft.fd, 0000);
  int committed = temp_file_commit(&draft, "file");
  temp_file_release(&draft);
  assert_int_equal(seteuid(0), 0);
  assert_int_equal(begun, 0);
  assert_int_equal(changed, 0);
  assert_int_equal(committed, 0);
  tree_expect(tree, "file", "", 0000);
  assert_int_equal(tree_count(tree, "."), 1);
}

TEST(a_directory_in_the_way_stays, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  char hidden[64];
  struct temp_file draft;
  hidden_name(tree, hidden);
  tree_make_directory(tree, hidden, 0755);
  assert_int_equal(temp_file_begin(&draft, tree->fd, "file", 0644), -1);
  assert_int_equal(errno, EISDIR);
  temp_file_release(&draft);
  assert_true(tree_has(tree, hidden));
}

/* One that has lost its name has nothing to commit, and removes nobody else's. */
TEST(a_lost_draft_is_not_committed, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  struct temp_file draft;
  begin(&draft, tree);
  assert_int_equal(unlinkat(tree->fd, draft.hidden, 0), 0);
  tree_write(tree, draft.hidden, "another's", 0644);
  assert_int_equal(temp_file_commit(&draft, "file"), -1);
  assert_int_equal(errno, EWOULDBLOCK);
  temp_file_release(&draft);
  assert_false(tree_has(tree, "file"));
  tree_expect(tree, draft.hidden, "another's", 0644);
}

/* A lock is the open file's, and would stay with a child that has it. */
static pid_t start_waiting(const struct tree *tree, const struct temp_file *first) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(first->fd);
  (void)sigprocmask(SIG_SETMASK, &first->mask, NULL); /* the first one's draft puts off its end */
  struct temp_file draft;
  if (temp_file_begin(&draft, tree->fd, "file", 0600) != 0 || write(draft.fd, "later", 5) != 5)
    _exit(1);
  _exit(temp_file_commit(&draft, "file") == 0 ? 0 : 2);
}

/* Sleeps in flock(2): /proc/<pid>/syscall begins with its number. */
static bool waits_for_a_lock(void *context) {
  const pid_t *pid = context;
  size_t length;
  char *call = proc_read(*pid, "syscall", &length);
  bool waits = call != NULL && strtol(call, NULL, 10) == SYS_flock;
  free(call);
  return waits;
}

TEST(the_second_waits_for_a_lock, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  struct temp_file draft;
  int status;
  begin(&draft, tree);
  pid_t second = start_waiting(tree, &draft);
  assert_true(wait_until(waits_for_a_lock, &second, WAIT_BOUND_MS));
  tree_expect(tree, draft.hidden, "new", 0644);
  assert_int_equal(temp_file_commit(&draft, "file"), 0);
  temp_file_release(&draft);
  assert_int_equal(waitpid(second, &status, 0), second);
  assert_int_equal(status, 0);
  tree_expect(tree, "file", "later", 0600);
  assert_int_equal(tree_count(tree, "."), 1);
}

/* Ends by SIGTERM, and by nothing else. */
static int status_after_sigterm(pid_t pid) {
  int status;
  assert_int_equal(kill(pid, SIGTERM), 0);
  assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status));
  return WTERMSIG(status);
}

/* Who waits for another one has nothing to finish. */
TEST(a_wait_is_ended_at_once, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  struct temp_file draft;
  begin(&draft, tree);
  pid_t second = start_waiting(tree, &draft);
  assert_true(wait_until(waits_for_a_lock, &second, WAIT_BOUND_MS));
  assert_int_equal(status_after_sigterm(second), SIGTERM);
  tree_expect(tree, draft.hidden, "new", 0644);
  temp_file_release(&draft);
  assert_int_equal(tree_count(tree, "."), 0);
}

static bool sigterm_is_pending(void) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM);
}

/* What has begun is finished, and nothing is left behind. */
TEST(the_end_is_put_off, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  int status;
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    struct temp_file draft;
    if (temp_file_begin(&draft, tree->fd, "file", 0644) != 0 || raise(SIGTERM) != 0 ||
        !sigterm_is_pending() || write(draft.fd, "new", 3) != 3 ||
        temp_file_commit(&draft, "file") != 0)
      _exit(1);
    temp_file_release(&draft);
    _exit(2);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGTERM);
  tree_expect(tree, "file", "new", 0644);
  assert_int_equal(tree_count(tree, "."), 1);
}

/* A file that somebody still has open for writing could not be. */
TEST(it_can_be_executed_at_once, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  struct temp_file draft;
  int status;
  assert_int_equal(temp_file_begin(&draft, tree->fd, "file", 0755), 0);
  assert_int_equal(write(draft.fd, "#!/bin/sh\nexit 42\n", 18), 18);
  assert_int_equal(temp_file_commit(&draft, "file"), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    char *const arguments[] = {"./file", NULL};
    if (fchdir(tree->fd) == 0)
      execve(arguments[0], arguments, environ);
    _exit(errno);
  }
  temp_file_release(&draft);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(WEXITSTATUS(status), 42);
}
