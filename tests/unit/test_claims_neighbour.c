/* Claims while another program gives their names to other files, at every possible moment: before
   the first system call with a name, before the second one, and so on. */

#include "agent/frontends/request_files/claims.h"

#include <dirent.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "base/descriptor.h"

#include "tests/support/tree.h"
#include "tests/test.h"

#define EXCHANGE (1U << 1) /* RENAME_EXCHANGE */

/* --- the neighbour --------------------------------------------------------------------------- */

static struct {
  int directory; /* -1: it does nothing */
  int wait;      /* it ignores this number of calls */
  int acts;      /* then it acts before this number of calls */
  int exchanged;
  bool takes_over;      /* it is another agent, which takes over the claim `1` */
  enum claim taken[50]; /* the results of that */
  int takeovers;
} neighbour = {.directory = -1};

/* A claim of an agent, at its place or under its hidden name. */
static bool is_prey(const char *name) {
  return strncmp(name, ".claim-", 7) == 0 || strcmp(name, "tools") == 0 ||
         strncmp(name, ".agent-new-", 11) == 0;
}

static void exchange(int directory) {
  int fd = (int)syscall(SYS_openat, directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *names = fdopendir(fd);
  assert_non_null(names);
  for (const struct dirent *entry; (entry = readdir(names)) != NULL;)
    if (is_prey(entry->d_name) &&
        syscall(SYS_renameat2, directory, entry->d_name, directory, "bait", EXCHANGE) == 0)
      neighbour.exchanged++;
  closedir(names);
}

static void take_over(int directory) {
  struct ipc_directory ipc = {.top = -1, .tools = directory};
  int lock = -1;
  assert_true(neighbour.takeovers < (int)(sizeof neighbour.taken / sizeof *neighbour.taken));
  neighbour.taken[neighbour.takeovers++] = claims_take_over(&ipc, "1", &lock);
  descriptor_close(lock);
}

static void act(void) {
  int directory = neighbour.directory;
  if (directory < 0 || neighbour.wait-- > 0)
    return;
  neighbour.directory = -1;
  if (neighbour.takes_over)
    take_over(directory);
  else
    exchange(directory);
  if (--neighbour.acts > 0) {
    neighbour.directory = directory;
    neighbour.wait = 0;
  }
}

/* These replace the C library's functions. */

int openat(int directory, const char *name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  act();
  return (int)syscall(SYS_openat, directory, name, flags, mode);
}

int mkdirat(int directory, const char *name, mode_t mode) {
  act();
  return (int)syscall(SYS_mkdirat, directory, name, mode);
}

int unlinkat(int directory, const char *name, int flags) {
  act();
  return (int)syscall(SYS_unlinkat, directory, name, flags);
}

int renameat(int from, const char *old, int to, const char *new) {
  act();
  return (int)syscall(SYS_renameat2, from, old, to, new, 0);
}

int fchmodat(int directory, const char *name, mode_t mode, int flags) {
  (void)flags;
  act();
  return (int)syscall(SYS_fchmodat, directory, name, mode);
}

int fchmod(int fd, mode_t mode) {
  act();
  return (int)syscall(SYS_fchmod, fd, mode);
}

int flock(int fd, int how) {
  act();
  return (int)syscall(SYS_flock, fd, how);
}

ssize_t write(int fd, const void *bytes, size_t length) {
  act();
  return syscall(SYS_write, fd, bytes, length);
}

/* --- files outside --------------------------------------------------------------------------- */

enum { CALLS = 60, ACTS_MAX = 7 }; /* more calls than a round has */

static void make_victims(const struct tree *tree) {
  tree_make_directory(tree, "empty", 0700);
  tree_make_directory(tree, "guarded", 0700);
  tree_write(tree, "guarded/state", "me", 0600);
  tree_write(tree, "file", "text", 0600);
}

static void expect_mode(int fd, const char *name, mode_t mode) {
  struct stat file;
  assert_int_equal(fstatat(fd, name, &file, AT_SYMLINK_NOFOLLOW), 0);
  assert_int_equal(file.st_mode & 07777, mode);
}

static void expect_victims(const struct tree *tree) {
  assert_int_equal(tree_count(tree, "empty"), 0);
  assert_int_equal(tree_count(tree, "guarded"), 1);
  tree_expect(tree, "guarded/state", "me", 0600);
  tree_expect(tree, "file", "text", 0600);
  expect_mode(tree->fd, "empty", 0700);
  expect_mode(tree->fd, "guarded", 0700);
}

/* A directory of another user, which the neighbour may move within the shared one. Its inode number
   identifies it, whatever its name is. */
static void expect_unchanged(const struct tree *tree, const char *in, ino_t inode) {
  int fd = tree_open(tree, in);
  DIR *names = fdopendir(fd);
  int found = 0;
  assert_non_null(names);
  for (const struct dirent *entry; (entry = readdir(names)) != NULL;)
    if (entry->d_ino == inode) {
      char state[300];
      (void)snprintf(state, sizeof state, "%s/%s/state", in, entry->d_name);
      expect_mode(fd, entry->d_name, 0700);
      tree_expect(tree, state, "me", 0600);
      found++;
    }
  closedir(names);
  assert_int_equal(found, 1);
}

/* --- the agent ------------------------------------------------------------------------------- */

/* Acquires the claim, and closes its lock as a dead agent does. */
static void claim_and_die(struct ipc_directory *ipc, const char *id) {
  int lock = -1;
  (void)claims_acquire(ipc, id, &lock);
  descriptor_close(lock);
}

static void take_over_and_remove(const struct ipc_directory *ipc, const char *id) {
  int lock = -1;
  (void)claims_take_over(ipc, id, &lock);
  if (lock >= 0)
    (void)claims_remove(ipc, id, &lock);
  descriptor_close(lock);
}

static void serve(int directory) {
  static const struct buffer result = {.bytes = (char *)(uintptr_t) "{}", .length = 2};
  struct ipc_directory ipc = {.top = -1, .tools = directory};
  int lock = -1;
  claim_and_die(&ipc, "1");
  take_over_and_remove(&ipc, "1");
  (void)claims_acquire(&ipc, "2", &lock);
  (void)ipc_directory_write(&ipc, "exec-result-2.json", &result);
  if (lock >= 0)
    claims_close_answered(&lock);
  take_over_and_remove(&ipc, "2");
  ipc.plain_mkdir = true;
  claim_and_die(&ipc, "3");
  take_over_and_remove(&ipc, "3");
}

static void watch(int directory, int wait, int acts) {
  neighbour.directory = directory;
  neighbour.wait = wait;
  neighbour.acts = acts;
}

/* `to` is the target of the bait; NULL: the bait is a directory of another user. */
static void attack(struct tree *tree, const char *to) {
  make_victims(tree);
  neighbour.exchanged = 0;
  for (int i = 0; i < CALLS * 2; i++) {
    char name[16], bait[32], state[48];
    struct stat file = {0};
    (void)snprintf(name, sizeof name, "t%d", i);
    (void)snprintf(bait, sizeof bait, "%s/bait", name);
    (void)snprintf(state, sizeof state, "%s/state", bait);
    tree_make_directory(tree, name, 0777);
    if (to != NULL) {
      assert_int_equal(symlinkat(to, tree->fd, bait), 0);
    } else {
      tree_make_directory(tree, bait, 0700);
      tree_write(tree, state, "me", 0600);
      assert_int_equal(fstatat(tree->fd, bait, &file, 0), 0);
    }
    int fd = tree_open(tree, name);
    watch(fd, i / 2, i % 2 == 0 ? 1 : ACTS_MAX);
    serve(fd);
    watch(-1, 0, 0);
    close(fd);
    expect_victims(tree);
    if (to == NULL)
      expect_unchanged(tree, name, file.st_ino);
  }
  print_message("%d exchanges\n", neighbour.exchanged);
  assert_true(neighbour.exchanged > CALLS);
}

TREE_TEST(no_file_is_created_in_a_directory_behind_a_link) {
  attack(tree, "../empty");
}

TREE_TEST(no_file_is_removed_from_a_directory_behind_a_link) {
  attack(tree, "../guarded");
}

TREE_TEST(no_file_behind_a_link_is_changed) {
  attack(tree, "../file");
}

TREE_TEST(no_directory_of_another_user_is_changed) {
  attack(tree, NULL);
}

static void expect_unclaimed_by_others(int directory, bool plain_mkdir) {
  struct ipc_directory ipc = {.top = -1, .tools = directory, .plain_mkdir = plain_mkdir};
  int lock = -1;
  neighbour.takes_over = true;
  neighbour.takeovers = 0;
  watch(directory, 0, CALLS);
  assert_int_equal(claims_acquire(&ipc, "1", &lock), CLAIM_ACQUIRED);
  watch(-1, 0, 0);
  neighbour.takes_over = false;
  assert_true(neighbour.takeovers > 3);
  for (int i = 0; i < neighbour.takeovers; i++)
    assert_int_equal(neighbour.taken[i], CLAIM_FOREIGN);
  assert_int_equal(claims_remove(&ipc, "1", &lock), 0);
}

/* Otherwise it would answer for a dead agent, although the request will run. */
TREE_TEST(no_other_agent_takes_over_a_claim_that_is_being_made) {
  expect_unclaimed_by_others(tree->fd, false);
  expect_unclaimed_by_others(tree->fd, true);
}

/* `tools` is also made in a shared directory. */
TREE_TEST(a_directory_that_replaces_tools_keeps_its_mode) {
  for (int i = 0; i < 8; i++) {
    char name[16], bait[32];
    struct ipc_directory ipc = IPC_DIRECTORY_NONE;
    struct error error;
    struct stat file;
    (void)snprintf(name, sizeof name, "t%d", i);
    (void)snprintf(bait, sizeof bait, "%s/bait", name);
    tree_make_directory(tree, name, 0777);
    tree_make_directory(tree, bait, 0700);
    assert_int_equal(fstatat(tree->fd, bait, &file, 0), 0);
    int fd = tree_open(tree, name);
    assert_int_equal(ipc_directory_open(&ipc, tree_path(tree, name), &error), 0);
    neighbour.exchanged = 0;
    watch(fd, i, 1);
    (void)ipc_directory_find_tools(&ipc, &error);
    watch(-1, 0, 0);
    ipc_directory_close(&ipc);
    expect_mode(fd, neighbour.exchanged > 0 ? "tools" : "bait", 0700);
    close(fd);
  }
}
