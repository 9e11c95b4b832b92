#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/staged_file.h"
#include "tests/support/proc.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static void begin(struct staged_file *place, const struct tree *tree, const char *name,
                  bool is_directory) {
  assert_int_equal(staged_file_begin(place, tree->path, name, is_directory), 0);
  assert_true(place->fd >= 0);
}

static void say(const struct staged_file *place, const char *text) {
  assert_int_equal(write(place->fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void put_file(const struct tree *tree, const char *name, const char *text) {
  struct staged_file place;
  begin(&place, tree, name, false);
  say(&place, text);
  assert_int_equal(staged_file_seal(&place, 0755), 0);
  assert_int_equal(staged_file_commit(&place), 0);
  staged_file_release(&place);
}

/* A directory with one file, and one in a directory below it. */
static void put_directory(const struct tree *tree, const char *name, const char *file) {
  struct staged_file place;
  begin(&place, tree, name, true);
  int fd = openat(place.fd, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(mkdirat(place.fd, "below", 0755), 0);
  assert_int_equal(symlinkat("..", place.fd, "below/up"), 0);
  assert_int_equal(staged_file_seal(&place, 0755), 0);
  assert_int_equal(staged_file_commit(&place), 0);
  staged_file_release(&place);
}

TEST(a_file_appears_by_its_commit, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  int descriptors = proc_fd_count(getpid());
  struct staged_file place;
  begin(&place, tree, "agent", false);
  say(&place, "new");
  assert_false(tree_has(tree, "agent"));
  assert_int_equal(staged_file_seal(&place, 0755), 0);
  assert_false(tree_has(tree, "agent"));
  assert_int_equal(staged_file_commit(&place), 0);
  tree_expect(tree, "agent", "new", 0755);
  staged_file_release(&place);
  tree_expect(tree, "agent", "new", 0755);
  assert_int_equal(tree_count(tree, "."), 1);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

TEST(without_a_commit_nothing_stays, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  int descriptors = proc_fd_count(getpid());
  tree_write(tree, "agent", "old", 0600);
  struct staged_file place;
  begin(&place, tree, "agent", false);
  say(&place, "new");
  assert_int_equal(tree_count(tree, "."), 2);
  staged_file_release(&place);
  begin(&place, tree, "agent", false);
  assert_int_equal(staged_file_seal(&place, 0755), 0);
  staged_file_release(&place);
  begin(&place, tree, "python", true);
  assert_int_equal(mkdirat(place.fd, "bin", 0755), 0);
  staged_file_release(&place);
  tree_expect(tree, "agent", "old", 0600);
  assert_int_equal(tree_count(tree, "."), 1);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

TEST(a_file_is_replaced, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  tree_write(tree, "agent", "an old one", 0600);
  put_file(tree, "agent", "new");
  tree_expect(tree, "agent", "new", 0755);
  assert_int_equal(tree_count(tree, "."), 1);
}

TEST(the_mode_is_as_given, tree_set_up, tree_tear_down) {
  mode_t before = umask(0777);
  put_file(*state, "agent", "x");
  umask(before);
  tree_expect(*state, "agent", "x", 0755);
}

/* No one who may write has it open: or it could not be executed. */
TEST(a_sealed_file_may_be_executed, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  struct staged_file place;
  begin(&place, tree, "agent", false);
  say(&place, "#!/bin/sh\nexit 42\n");
  assert_int_equal(staged_file_seal(&place, 0755), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    char *const arguments[] = {place.hidden, NULL};
    if (fchdir(tree->fd) == 0)
      execve(place.hidden, arguments, environ);
    _exit(errno);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(WEXITSTATUS(status), 42);
  char first[2];
  assert_int_equal(pread(place.fd, first, 2, 0), 2); /* it can still be read */
  assert_int_equal(write(place.fd, "x", 1), -1);
  staged_file_release(&place);
}

TEST(a_directory_appears_by_its_commit, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  put_directory(tree, "python", "one");
  assert_true(tree_has(tree, "python/one"));
  assert_int_equal(tree_count(tree, "."), 1);
}

TEST(a_directory_is_replaced_whole, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  tree_make_directory(tree, "python", 0700); /* an empty one */
  put_directory(tree, "python", "one");
  put_directory(tree, "python", "two");
  assert_true(tree_has(tree, "python/two"));
  assert_false(tree_has(tree, "python/one"));
  assert_int_equal(tree_count(tree, "python"), 2);
  assert_int_equal(tree_count(tree, "."), 1);
}

TEST(kinds_do_not_replace_each_other, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  struct staged_file place;
  tree_make_directory(tree, "agent", 0755);
  begin(&place, tree, "agent", false);
  assert_int_equal(staged_file_seal(&place, 0755), 0);
  assert_int_equal(staged_file_commit(&place), -1);
  assert_int_equal(errno, EISDIR);
  staged_file_release(&place);
  tree_write(tree, "python", "mine", 0644);
  begin(&place, tree, "python", true);
  assert_int_equal(staged_file_seal(&place, 0755), 0);
  assert_int_equal(staged_file_commit(&place), -1);
  assert_int_equal(errno, ENOTDIR);
  staged_file_release(&place);
  tree_expect(tree, "python", "mine", 0644);
  assert_int_equal(tree_count(tree, "."), 2);
}

TEST(what_the_dead_left_is_removed, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  tree_write(tree, ".agent.inject-0000000000000001", "half", 0700);
  tree_make_directory(tree, ".agent.inject-0000000000000002", 0700);
  tree_write(tree, ".agent.inject-0000000000000002/file", "x", 0400);
  tree_write(tree, ".other.inject-0000000000000001", "another's", 0700);
  tree_write(tree, ".agent", "a file like others", 0700);
  put_file(tree, "agent", "new");
  assert_int_equal(tree_count(tree, "."), 3);
}

TEST(what_the_living_make_stays, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  struct staged_file first;
  struct staged_file second;
  begin(&first, tree, "agent", false);
  say(&first, "first");
  begin(&second, tree, "agent", false); /* while it is written */
  assert_int_equal(staged_file_seal(&first, 0755), 0);
  struct staged_file third;
  begin(&third, tree, "agent", true); /* while it is sealed */
  staged_file_release(&third);
  say(&second, "second");
  assert_int_equal(staged_file_seal(&second, 0700), 0);
  assert_int_equal(staged_file_commit(&second), 0);
  assert_int_equal(staged_file_commit(&first), 0);
  staged_file_release(&first);
  staged_file_release(&second);
  tree_expect(tree, "agent", "first", 0755); /* the last one wins */
  assert_int_equal(tree_count(tree, "."), 1);
}

TEST(a_parent_has_to_be_there, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  int descriptors = proc_fd_count(getpid());
  struct staged_file place;
  assert_int_equal(staged_file_begin(&place, "/tmp/no such directory", "agent", false), -1);
  assert_int_equal(errno, ENOENT);
  staged_file_release(&place);
  assert_int_equal(staged_file_begin(&place, "/dev/null", "agent", false), -1);
  assert_int_equal(errno, ENOTDIR);
  staged_file_release(&place);
  char name[251];
  memset(name, 'n', sizeof name);
  name[250] = '\0';
  assert_int_equal(staged_file_begin(&place, tree->path, name, false), -1);
  assert_int_equal(errno, ENAMETOOLONG);
  staged_file_release(&place);
  assert_int_equal(tree_count(tree, "."), 0);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

TEST(anything_can_be_removed, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
  put_directory(tree, "a", "file");
  tree_write(tree, "b", "x", 0);
  assert_int_equal(symlinkat("a", tree->fd, "link"), 0);
  assert_int_equal(staged_file_remove(tree->fd, "link"), 0);
  assert_true(tree_has(tree, "a/file")); /* not through the link */
  assert_int_equal(staged_file_remove(tree->fd, "a"), 0);
  assert_int_equal(staged_file_remove(tree->fd, "b"), 0);
  assert_int_equal(staged_file_remove(tree->fd, "never there"), 0);
  assert_int_equal(tree_count(tree, "."), 0);
}

/* As a user whom a mode can stop; the tests run as root or as one. */
TEST(modes_do_not_keep_from_removing, tree_set_up, tree_tear_down) {
  const struct tree *tree = *state;
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
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}
