#include "agent/frontends/request_files/claims.h"

#include "base/descriptor.h"
#include "tests/support/as_user.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static struct ipc_directory begin(const struct tree *tree) {
  return (struct ipc_directory){.top = -1, .tools = tree->fd};
}

/* Acquires the claim of a request; the test closes the lock. */
static int acquire(struct ipc_directory *ipc, const char *id) {
  int lock = -1;
  assert_int_equal(claims_acquire(ipc, id, &lock), CLAIM_ACQUIRED);
  assert_true(lock >= 0);
  return lock;
}

/* Expects that the claim belongs to another process or, if it does not, is removed. */
static void expect_foreign(struct ipc_directory *ipc, const char *id) {
  int lock = -1;
  assert_int_equal(claims_acquire(ipc, id, &lock), CLAIM_FOREIGN);
  assert_int_equal(claims_take_over(ipc, id, &lock), CLAIM_FOREIGN);
  assert_int_equal(lock, -1);
}

static int take_over(struct ipc_directory *ipc, const char *id, enum claim expected) {
  int lock = -1;
  assert_int_equal(claims_take_over(ipc, id, &lock), expected);
  return lock;
}

TREE_TEST(other_entries_with_the_name_of_a_claim_are_foreign) {
  struct ipc_directory ipc = begin(tree);
  tree_make(tree, ".claim-1=text .claim-2>nowhere .claim-3/ .claim-4/ .claim-4/state=mine "
                  ".claim-5/ .claim-5/state|");
  for (int i = 1; i <= 5; i++)
    expect_foreign(&ipc, formatted("%d", i));
  assert_int_equal(tree_count(tree, "."), 5);
}

TREE_TEST(a_claim_is_foreign_until_its_agent_is_dead) {
  struct ipc_directory ipc = begin(tree);
  int lock = acquire(&ipc, "1");
  expect_foreign(&ipc, "1");
  close(lock); /* as the kernel does it then */
  lock = take_over(&ipc, "1", CLAIM_OF_DEAD);
  expect_foreign(&ipc, "1");
  assert_int_equal(claims_remove(&ipc, "1", &lock), 0);
  assert_int_equal(lock, -1);
  assert_int_equal(take_over(&ipc, "1", CLAIM_FOREIGN), -1); /* there is none */
  assert_int_equal(tree_count(tree, "."), 0);
}

TREE_TEST(an_answered_claim_stays_without_a_lock) {
  struct ipc_directory ipc = begin(tree);
  int lock = acquire(&ipc, "1");
  claims_close_answered(&lock);
  assert_int_equal(lock, -1);
  lock = take_over(&ipc, "1", CLAIM_ANSWERED);
  assert_int_equal(claims_remove(&ipc, "1", &lock), 0);
  assert_int_equal(tree_count(tree, "."), 0);
}

static int remove_without_rights(void *context, struct error *error) {
  const struct tree *tree = context;
  struct ipc_directory ipc = begin(tree);
  int lock = -1;
  enum claim claim = claims_acquire(&ipc, "1", &lock);
  (void)fchmod(tree->fd, 0555);
  int removed = claims_remove(&ipc, "1", &lock);
  bool is_held = lock >= 0;
  descriptor_close(lock);
  enum claim again = claims_take_over(&ipc, "1", &lock);
  return claim == CLAIM_ACQUIRED && removed != 0 && is_held && again == CLAIM_OF_DEAD
             ? 0
             : error_set(error, "%d %d %d", (int)claim, removed, (int)again);
}

/* A claim without its state would look like the claim of a script and would never be removed. */
TREE_TEST(a_claim_that_cannot_be_removed_keeps_its_state) {
  struct error error = {.text = ""};
  assert_int_equal(fchown(tree->fd, NOBODY, NOBODY), 0);
  int removed = as_user(NOBODY, NOBODY, remove_without_rights, tree, &error);
  assert_string_equal(error.text, "");
  assert_int_equal(removed, 0);
  assert_int_equal(fchmod(tree->fd, 0700), 0);
}

/* Every user who may write in the directory may remove a claim. */
TREE_TEST(a_claim_has_the_mode_of_its_directory) {
  struct stat file;
  assert_int_equal(chmod(tree->path, 02775), 0);
  struct ipc_directory ipc = begin(tree);
  int lock = acquire(&ipc, "1");
  assert_int_equal(fstatat(tree->fd, ".claim-1", &file, 0), 0);
  assert_int_equal(file.st_mode & 0777, 0775);
  assert_int_equal(fstatat(tree->fd, ".claim-1/state", &file, 0), 0);
  assert_int_equal(file.st_mode & 0777, 0644);
  close(lock);
}
