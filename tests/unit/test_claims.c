#include "agent/frontends/request_files/claims.h"

#include <dirent.h>

#include "tests/support/as_user.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static struct claims begin(const struct tree *tree) {
  struct claims claims = CLAIMS_NONE;
  claims_open(&claims, tree->fd);
  assert_true(claims.lock >= 0);
  return claims;
}

/* Like SIGKILL: the lock is free, and its file stays. */
static void die(struct claims *self) {
  close(self->lock);
  self->lock = -1;
}

static enum claim_owner owner(const struct claims *self, const char *id) {
  int lock;
  enum claim_owner found = claims_owner(self, id, &lock);
  ipc_directory_close_entry(lock);
  return found;
}

static void sweep(struct claims *self) {
  DIR *names = opendir(formatted("/proc/self/fd/%d", self->directory));
  assert_non_null(names);
  claims_sweep_begin(self);
  for (const struct dirent *entry; (entry = readdir(names)) != NULL;)
    (void)claims_sweep_name(self, entry->d_name);
  claims_sweep_end(self);
  closedir(names);
}

static char *lock_name(const struct claims *self) {
  static char name[64];
  (void)snprintf(name, sizeof name, ".agent-%s", self->instance);
  return name;
}

TREE_TEST(other_entries_with_the_name_of_a_claim_are_foreign) {
  struct claims claims = begin(tree);
  tree_make(tree, ".claim-1=text .claim-2>nowhere");
  assert_int_equal(claims_acquire(&claims, "1"), CLAIM_FOREIGN);
  assert_int_equal(claims_acquire(&claims, "2"), CLAIM_FOREIGN);
  assert_int_equal(owner(&claims, "1"), CLAIM_OF_SCRIPT);
  assert_int_equal(tree_count(tree, "."), 3);
  claims_close(&claims);
}

TREE_TEST(a_sweep_removes_the_files_of_a_dead_agent) {
  struct claims dead = begin(tree), claims = begin(tree), other = begin(tree);
  tree_write(tree, claims_make_name(&dead).text, "half a result", 0600);
  struct ipc_name name = claims_make_name(&dead);
  tree_make_directory(tree, name.text, 0700);
  tree_write(tree, formatted("%s/owner", name.text), "", 0600);
  assert_int_equal(claims_acquire(&dead, "1"), CLAIM_ACQUIRED);
  die(&dead);
  sweep(&claims); /* finds the dead agent */
  sweep(&claims); /* its claim is still there */
  assert_true(tree_has(tree, lock_name(&dead)));
  assert_int_equal(tree_count(tree, "."), 4); /* two of them are locks of live agents */
  claims_drop(&claims, "1");
  sweep(&claims);
  assert_false(tree_has(tree, lock_name(&dead)));
  assert_true(tree_has(tree, lock_name(&other)));
  assert_int_equal(tree_count(tree, "."), 2);
  claims_close(&other);
  claims_close(&claims);
}

/* Each sweep handles another dead agent, even if the last one could not remove any file. */
TREE_TEST(successive_sweeps_reach_every_dead_agent) {
  struct claims holder = begin(tree), claims = begin(tree);
  assert_int_equal(claims_acquire(&holder, "1"), CLAIM_ACQUIRED);
  die(&holder);
  for (int i = 0; i < 9; i++) {
    struct claims dead = begin(tree);
    die(&dead);
  }
  for (int i = 0; i < 11; i++)
    sweep(&claims);
  assert_int_equal(tree_count(tree, "."),
                   3); /* the claim and its lock, and that of the live agent */
  claims_close(&claims);
}

/* Other processes may use the names of a dead agent for anything. */
TREE_TEST(a_sweep_removes_only_files_that_agents_make) {
  struct claims claims = begin(tree);
  tree_make(tree, ".agent-0123456789abcdef .agent-0123456789abcdef.1/ .agent-0123456789abcdef.1/x "
                  ".agent-0123456789abcdef.2/ .agent-0123456789abcdef.2/owner=me "
                  ".agent-0123456789abcdef.3>.agent-0123456789abcdef.2 "
                  ".agent-0123456789abcdef.4| .agent-0123456789abcdef.5/ "
                  ".agent-0123456789abcdef.5/owner=0123456789abcdef");
  assert_int_equal(fchmodat(tree->fd, ".agent-0123456789abcdef.1", 0500, 0), 0);
  for (int i = 0; i < 2; i++)
    sweep(&claims);
  assert_false(tree_has(tree, ".agent-0123456789abcdef"));
  assert_int_equal(tree_count(tree, "."), 3);
  assert_true(tree_has(tree, ".agent-0123456789abcdef.1/x"));
  tree_expect(tree, ".agent-0123456789abcdef.2/owner", "me", 0644);
  claims_close(&claims);
}

TREE_TEST(a_lock_that_is_not_a_regular_file_is_not_opened) {
  struct claims claims = begin(tree);
  tree_make(tree, ".agent-0123456789abcdef| .agent-0123456789abcdee>nowhere");
  sweep(&claims);
  sweep(&claims);
  assert_true(tree_has(tree, ".agent-0123456789abcdef"));
  claims_close(&claims);
}

TREE_TEST(a_removed_lock_is_made_again) {
  struct claims claims = begin(tree), other = begin(tree);
  assert_int_equal(claims_acquire(&claims, "1"), CLAIM_ACQUIRED);
  assert_int_equal(unlinkat(tree->fd, lock_name(&claims), 0), 0);
  assert_int_equal(claims_renew(&claims), 0);
  assert_true(tree_has(tree, lock_name(&claims)));
  assert_int_equal(owner(&other, "1"), CLAIM_OF_AGENT);
  claims_close(&claims);
  claims_close(&other);
}

static int drop_without_rights(void *context, struct error *error) {
  const struct tree *tree = context;
  struct claims claims = CLAIMS_NONE;
  int lock;
  claims_open(&claims, tree->fd);
  enum claim claim = claims_acquire(&claims, "1");
  (void)fchmod(tree->fd, 0555);
  claims_drop(&claims, "1");
  enum claim_owner owner = claims_owner(&claims, "1", &lock);
  return claim == CLAIM_ACQUIRED && owner == CLAIM_OF_SELF
             ? 0
             : error_set(error, "%d %d", (int)claim, (int)owner);
}

/* A claim without its owner would look like the claim of a script and would never be removed. */
TREE_TEST(a_claim_that_cannot_be_removed_keeps_its_owner) {
  struct error error = {.text = ""};
  assert_int_equal(fchown(tree->fd, NOBODY, NOBODY), 0);
  int dropped = as_user(NOBODY, NOBODY, drop_without_rights, tree, &error);
  assert_string_equal(error.text, "");
  assert_int_equal(dropped, 0);
  assert_int_equal(fchmod(tree->fd, 0700), 0);
}

/* Every user who may write in the directory may remove a claim. */
TREE_TEST(a_claim_has_the_mode_of_its_directory) {
  struct stat file;
  assert_int_equal(chmod(tree->path, 02775), 0);
  struct claims claims = begin(tree);
  assert_int_equal(claims_acquire(&claims, "1"), CLAIM_ACQUIRED);
  assert_int_equal(fstatat(tree->fd, ".claim-1", &file, 0), 0);
  assert_int_equal(file.st_mode & 0777, 0775);
  assert_int_equal(fstatat(tree->fd, ".claim-1/owner", &file, 0), 0);
  assert_int_equal(file.st_mode & 0777, 0644);
  claims_close(&claims);
}
