/* Writers that are killed at any moment, and many at once: a reader finds the whole old file or
   the whole new one, and the next write removes what a killed writer leaves. */

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "agent/files/access/atomic_file.h"
#include "base/staged_file.h"
#include "tests/support/tree.h"
#include "tests/test.h"

enum { WRITERS = 8, WRITES = 100, LENGTH = 65536, CALLS_MAX = 10000 };

/* Writes a content of one letter, which shows whether a file is whole. */
static int write_letter(const struct tree *tree, const char *path, char letter) {
  static char content[LENGTH];
  struct error error;
  memset(content, letter, sizeof content);
  return atomic_file_write(tree->fd, path, content, sizeof content, &error);
}

/* Returns the letter, 0 if there is no file, or -1 if it is not whole. */
static int look(const struct tree *tree, const char *path) {
  char content[LENGTH + 1];
  int fd = openat(tree->fd, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  ssize_t length = read(fd, content, sizeof content);
  close(fd);
  if (length != LENGTH)
    return -1;
  for (size_t i = 1; i < LENGTH; i++)
    if (content[i] != content[0])
      return -1;
  return content[0];
}

static int end_of(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return status;
}

/* Moves a file like the last chunk of an upload. */
static int move_letter(const struct tree *tree, const char *path, char letter) {
  struct error error;
  (void)letter;
  int fd = openat(tree->fd, "from", O_RDWR | O_CLOEXEC);
  int result = atomic_file_move(fd, tree->fd, "from", tree_path(tree, path), &error);
  close(fd);
  return result;
}

typedef int writer(const struct tree *tree, const char *path, char letter);

static pid_t start_traced(const struct tree *tree, writer *write, const char *path) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
    _exit(2);
  _exit(write(tree, path, 'b') == 0 ? 0 : 1);
}

/* Kills a writer between its system calls n and n + 1. Returns false if it has exited before. */
static bool kill_between_calls(const struct tree *tree, writer *write, const char *path,
                               int number) {
  pid_t pid = start_traced(tree, write, path);
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);                 /* by itself */
  for (int i = 0; i < 2 * number + 1 && WIFSTOPPED(status); i++) { /* at each entry and exit */
    assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
    status = end_of(pid);
  }
  if (!WIFSTOPPED(status)) {
    assert_int_equal(status, 0);
    return false;
  }
  kill(pid, SIGKILL);
  while (WIFSTOPPED(status))
    status = end_of(pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  return true;
}

static void old_file(const struct tree *tree) {
  (void)mkdirat(tree->fd, "a", 0755);
  (void)unlinkat(tree->fd, "a/file", 0);
  assert_int_equal(write_letter(tree, "a/file", 'a'), 0);
  assert_int_equal(fchownat(tree->fd, "a/file", 1234, 5678, 0), 0);
  assert_int_equal(fchmodat(tree->fd, "a/file", 0400, 0), 0);
}

/* The writer finds the hidden file of a killed one. */
static void old_and_hidden_file(const struct tree *tree) {
  old_file(tree);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    struct staged_file staged;
    int directory = openat(tree->fd, "a", O_PATH | O_CLOEXEC);
    _exit(staged_file_begin(&staged, directory, "file", 0600) == 0 ? 0 : 1);
  }
  assert_int_equal(end_of(pid), 0);
  assert_int_equal(tree_count(tree, "a"), 2);
}

static void no_file(const struct tree *tree) {
  (void)unlinkat(tree->fd, "new/a/file", 0);
  (void)unlinkat(tree->fd, "new/a", AT_REMOVEDIR);
  (void)unlinkat(tree->fd, "new", AT_REMOVEDIR);
  assert_false(tree_has(tree, "new"));
}

/* Every moment between two system calls, one after the other. */
TREE_TEST(a_kill_during_a_write_leaves_a_whole_file) {
  static const struct {
    const char *path, *directory;
    int before;
    void (*reset)(const struct tree *tree);
  } rows[] = {{"a/file", "a", 'a', old_file},
              {"a/file", "a", 'a', old_and_hidden_file},
              {"link", "a", 'a', old_file},
              {"new/a/file", "new/a", 0, no_file}};
  assert_int_equal(symlinkat("a/file", tree->fd, "link"), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int calls = 0, left_behind = 0, were_done = 0;
    for (;; calls++) {
      rows[i].reset(tree);
      if (!kill_between_calls(tree, write_letter, rows[i].path, calls))
        break;
      int found = look(tree, rows[i].path);
      assert_true(found == rows[i].before || found == 'b');
      were_done += found == 'b';
      left_behind +=
          tree_has(tree, rows[i].directory) && tree_count(tree, rows[i].directory) > (found != 0);
      assert_int_equal(write_letter(tree, rows[i].path, 'c'), 0);
      assert_int_equal(look(tree, rows[i].path), 'c');
      assert_int_equal(tree_count(tree, rows[i].directory), 1);
      assert_in_range(calls, 0, CALLS_MAX);
    }
    assert_in_range(calls, 10, CALLS_MAX);
    assert_in_range(left_behind, 3, calls);
    assert_in_range(were_done, 1, calls);
  }
  struct stat link;
  assert_int_equal(fstatat(tree->fd, "link", &link, AT_SYMLINK_NOFOLLOW), 0);
  assert_true(S_ISLNK(link.st_mode));
}

/* The target is the old file or the moved one, which is whole under its old name until then. */
TREE_TEST(a_kill_during_a_move_leaves_whole_files) {
  int calls = 0, were_done = 0;
  for (;; calls++) {
    old_file(tree);
    assert_int_equal(write_letter(tree, "from", 'b'), 0);
    if (!kill_between_calls(tree, move_letter, "a/file", calls))
      break;
    int found = look(tree, "a/file");
    assert_true(found == 'a' || found == 'b');
    assert_int_equal(look(tree, "from"), found == 'a' ? 'b' : 0);
    assert_int_equal(tree_count(tree, "a"), 1);
    were_done += found == 'b';
  }
  assert_in_range(calls, 10, CALLS_MAX);
  assert_in_range(were_done, 1, calls);
}

/* Shared by the processes of one test. */
struct shared {
  atomic_bool stop;
  atomic_int whole;
  atomic_int broken;
};

static pid_t start_reader(const struct tree *tree, struct shared *shared) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (!shared->stop) {
    bool whole = look(tree, "file") > 0;
    shared->whole += whole;
    shared->broken += !whole;
  }
  _exit(0);
}

static pid_t start_writer(const struct tree *tree, char letter, bool for_ever) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < WRITES || for_ever; i++)
    if (write_letter(tree, "file", letter) != 0)
      _exit(1);
  _exit(0);
}

static bool letter_is_there(void *context) {
  const struct tree *tree = context;
  return look(tree, "file") == 'z';
}

static bool reader_has_seen_it(void *context) {
  const struct shared *shared = context;
  return shared->whole > 0;
}

/* One writer never stops. It is killed after it was seen at work, and another one replaces it. */
TREE_TEST(many_writers_at_once_leave_one_whole_file) {
  struct shared *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED);
  assert_int_equal(write_letter(tree, "file", 'y'), 0);
  pid_t reader = start_reader(tree, shared);
  pid_t writers[WRITERS];
  for (int i = 0; i < WRITERS; i++)
    writers[i] = start_writer(tree, (char)('a' + i), false);
  for (int i = 0; i < WRITERS; i++) {
    pid_t victim = start_writer(tree, 'z', true);
    assert_true(wait_until(letter_is_there, tree, WAIT_BOUND_MS));
    kill(victim, SIGKILL);
    int status = end_of(victim);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(write_letter(tree, "file", 'y'), 0);
  }
  for (int i = 0; i < WRITERS; i++)
    assert_int_equal(end_of(writers[i]), 0);
  assert_true(wait_until(reader_has_seen_it, shared, WAIT_BOUND_MS));
  shared->stop = true;
  assert_int_equal(end_of(reader), 0);
  assert_int_equal(shared->broken, 0);
  munmap(shared, sizeof *shared);
  assert_int_equal(write_letter(tree, "file", 'y'), 0);
  assert_int_equal(tree_count(tree, "."), 1);
}
