#include "agent/frontends/request_files/claims.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/as_user.h"
#include "tests/support/quoted.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static struct claims begin(const struct tree *tree) {
  struct claims claims = CLAIMS_NONE;
  claims_open(&claims, tree->fd);
  assert_true(claims.lock >= 0);
  return claims;
}

/* As SIGKILL does: the lock is free, its file stays. */
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

TREE_TEST(one_of_two_gets_it) {
  struct claims a = begin(tree), b = begin(tree);
  assert_string_not_equal(a.instance, b.instance);
  assert_int_equal(claims_take(&a, "1"), CLAIM_TAKEN);
  assert_int_equal(claims_take(&b, "1"), CLAIM_FOREIGN);
  assert_int_equal(owner(&a, "1"), CLAIM_OF_SELF);
  assert_int_equal(owner(&b, "1"), CLAIM_OF_AGENT);
  assert_int_equal(owner(&b, "2"), CLAIM_OF_NOBODY);
  claims_drop(&b, "1");
  assert_true(tree_has(tree, ".claim-1"));
  claims_drop(&a, "1");
  assert_false(tree_has(tree, ".claim-1"));
  claims_close(&a);
  claims_close(&b);
  assert_int_equal(tree_count(tree, "."), 0);
}

/* The directory of a script is empty: a rename(2) would replace it. */
TREE_TEST(a_script_s_is_left_alone) {
  struct claims claims = begin(tree);
  tree_make(tree,
            ".claim-1/ .claim-2/ .claim-2/owner=nobody .claim-3/ .claim-3/owner>.claim-2/owner "
            ".claim-4/ .claim-4/owner|");
  for (const char *id = "1\0002\0003\0004\0"; *id != '\0'; id += 2) {
    assert_int_equal(claims_take(&claims, id), CLAIM_FOREIGN);
    assert_int_equal(owner(&claims, id), CLAIM_OF_SCRIPT);
    claims_drop(&claims, id);
  }
  assert_int_equal(tree_count(tree, ".claim-1"), 0);
  assert_true(tree_has(tree, ".claim-4/owner"));
  claims_close(&claims);
}

TREE_TEST(what_its_place_is_taken_by_is_no_claim_of_ours) {
  struct claims claims = begin(tree);
  tree_make(tree, ".claim-1=text .claim-2>nowhere");
  assert_int_equal(claims_take(&claims, "1"), CLAIM_FOREIGN);
  assert_int_equal(claims_take(&claims, "2"), CLAIM_FOREIGN);
  assert_int_equal(owner(&claims, "1"), CLAIM_OF_SCRIPT);
  assert_int_equal(tree_count(tree, "."), 3);
  claims_close(&claims);
}

TREE_TEST(without_a_rename_that_replaces_nothing_it_is_made_in_place) {
  struct claims a = begin(tree), b = begin(tree);
  a.plain_mkdir = b.plain_mkdir = true;
  assert_int_equal(claims_take(&a, "1"), CLAIM_TAKEN);
  assert_int_equal(claims_take(&b, "1"), CLAIM_FOREIGN);
  assert_int_equal(owner(&b, "1"), CLAIM_OF_AGENT);
  claims_close(&a);
  claims_close(&b);
}

TREE_TEST(one_of_the_dead_is_known_and_removed) {
  struct claims dead = begin(tree), claims = begin(tree);
  assert_int_equal(claims_take(&dead, "1"), CLAIM_TAKEN);
  assert_int_equal(claims_take(&dead, "2"), CLAIM_TAKEN);
  die(&dead);
  int lock, again;
  assert_int_equal(claims_owner(&claims, "1", &lock), CLAIM_OF_DEAD);
  assert_true(lock >= 0);
  struct claims third = begin(tree);
  assert_int_equal(claims_owner(&third, "1", &again), CLAIM_OF_AGENT); /* somebody judges it */
  ipc_directory_close_entry(lock);
  claims_drop(&claims, "1");
  assert_false(tree_has(tree, ".claim-1"));
  assert_int_equal(unlinkat(tree->fd, lock_name(&dead), 0), 0);
  assert_int_equal(owner(&claims, "2"), CLAIM_OF_DEAD); /* also without its lock */
  claims_close(&third);
  claims_close(&claims);
}

TREE_TEST(a_sweep_removes_what_the_dead_have_left) {
  struct claims dead = begin(tree), claims = begin(tree), other = begin(tree);
  tree_write(tree, claims_make_name(&dead).text, "half a result", 0600);
  struct ipc_name name = claims_make_name(&dead);
  tree_make_directory(tree, name.text, 0700);
  tree_write(tree, formatted("%s/owner", name.text), "", 0600);
  assert_int_equal(claims_take(&dead, "1"), CLAIM_TAKEN);
  die(&dead);
  sweep(&claims); /* finds it */
  sweep(&claims); /* its claim is still there */
  assert_true(tree_has(tree, lock_name(&dead)));
  assert_int_equal(tree_count(tree, "."), 4); /* with two that live */
  claims_drop(&claims, "1");
  sweep(&claims);
  assert_false(tree_has(tree, lock_name(&dead)));
  assert_true(tree_has(tree, lock_name(&other)));
  assert_int_equal(tree_count(tree, "."), 2);
  claims_close(&other);
  claims_close(&claims);
}

/* It takes one after the other, also when there is nothing to be removed of one. */
TREE_TEST(sweeps_come_to_each_of_the_dead) {
  struct claims supervisor = begin(tree), claims = begin(tree);
  assert_int_equal(claims_take(&supervisor, "1"), CLAIM_TAKEN);
  die(&supervisor);
  for (int i = 0; i < 9; i++) {
    struct claims dead = begin(tree);
    die(&dead);
  }
  for (int i = 0; i < 11; i++)
    sweep(&claims);
  assert_int_equal(tree_count(tree, "."), 3); /* the claim and its lock, and one that lives */
  claims_close(&claims);
}

/* Under a name of a dead agent there may be anything: what no agent makes is left alone. */
TREE_TEST(a_sweep_removes_nothing_that_no_agent_makes) {
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

TREE_TEST(a_lock_that_is_no_regular_file_is_not_opened) {
  struct claims claims = begin(tree);
  tree_make(tree, ".agent-0123456789abcdef| .agent-0123456789abcdee>nowhere");
  sweep(&claims);
  sweep(&claims);
  assert_true(tree_has(tree, ".agent-0123456789abcdef"));
  claims_close(&claims);
}

TREE_TEST(a_lock_that_somebody_removed_is_made_again) {
  struct claims claims = begin(tree), other = begin(tree);
  assert_int_equal(claims_take(&claims, "1"), CLAIM_TAKEN);
  assert_int_equal(unlinkat(tree->fd, lock_name(&claims), 0), 0);
  assert_int_equal(claims_renew(&claims), 0);
  assert_true(tree_has(tree, lock_name(&claims)));
  assert_int_equal(owner(&other, "1"), CLAIM_OF_AGENT);
  claims_close(&claims);
  claims_close(&other);
}

static int take_as_nobody(void *context, struct error *error) {
  const struct tree *tree = context;
  struct claims claims = CLAIMS_NONE;
  claims_open(&claims, tree->fd);
  enum claim claim = claims_take(&claims, "1");
  return error_set(error, "%d %d", (int)claim, errno);
}

TREE_TEST(what_the_system_refuses_is_told) {
  struct error error;
  char expected[32];
  assert_int_equal(chmod(tree->path, 0755), 0);
  (void)as_user(NOBODY, NOBODY, take_as_nobody, tree, &error);
  (void)snprintf(expected, sizeof expected, "%d %d", (int)CLAIM_REFUSED, EACCES);
  assert_string_equal(error.text, expected);
}

static int drop_without_rights(void *context, struct error *error) {
  const struct tree *tree = context;
  struct claims claims = CLAIMS_NONE;
  int lock;
  claims_open(&claims, tree->fd);
  enum claim claim = claims_take(&claims, "1");
  (void)fchmod(tree->fd, 0555);
  claims_drop(&claims, "1");
  enum claim_owner owner = claims_owner(&claims, "1", &lock);
  return claim == CLAIM_TAKEN && owner == CLAIM_OF_SELF
             ? 0
             : error_set(error, "%d %d", (int)claim, (int)owner);
}

/* Else it would be taken for a script's, and never removed. */
TREE_TEST(one_that_cannot_be_removed_keeps_its_owner) {
  struct error error = {.text = ""};
  assert_int_equal(fchown(tree->fd, NOBODY, NOBODY), 0);
  int dropped = as_user(NOBODY, NOBODY, drop_without_rights, tree, &error);
  assert_string_equal(error.text, "");
  assert_int_equal(dropped, 0);
  assert_int_equal(fchmod(tree->fd, 0700), 0);
}

/* Who may write in the directory may remove a claim in it. */
TREE_TEST(a_claim_has_the_mode_of_its_directory) {
  struct stat file;
  assert_int_equal(chmod(tree->path, 02775), 0);
  struct claims claims = begin(tree);
  assert_int_equal(claims_take(&claims, "1"), CLAIM_TAKEN);
  assert_int_equal(fstatat(tree->fd, ".claim-1", &file, 0), 0);
  assert_int_equal(file.st_mode & 0777, 0775);
  assert_int_equal(fstatat(tree->fd, ".claim-1/owner", &file, 0), 0);
  assert_int_equal(file.st_mode & 0777, 0644);
  claims_close(&claims);
}
