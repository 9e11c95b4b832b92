#include <sys/resource.h>

#include "agent/files/tree/walk.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* All entries with a letter for their type, separated by spaces. */
struct listing {
  char text[4096];
};

static void add(struct listing *self, const struct walk_entry *entry) {
  size_t length = strlen(self->text);
  int added = snprintf(self->text + length, sizeof self->text - length, "%s%c:%s",
                       length > 0 ? " " : "", entry->type == DT_DIR ? 'd' : 'f', entry->path);
  assert_in_range(added, 1, (int)(sizeof self->text - length) - 1);
}

/* The entry changes before the walk enters it. */
TREE_TEST(entries_that_change_during_a_walk_are_no_error) {
  tree_make(tree, "gone/ linked/ piped/ stays/ stays/x");
  struct error error;
  struct walk *walk = walk_new(tree->path, true, &error);
  struct listing listing = {.text = ""};
  struct walk_entry entry;
  while (walk_next(walk, &entry)) {
    add(&listing, &entry);
    if (entry.type != DT_DIR || strcmp(entry.name, "stays") == 0)
      continue;
    assert_int_equal(unlinkat(tree->fd, entry.name, AT_REMOVEDIR), 0);
    if (strcmp(entry.name, "linked") == 0)
      assert_int_equal(symlinkat("stays", tree->fd, "linked"), 0);
    if (strcmp(entry.name, "piped") == 0)
      assert_int_equal(mkfifoat(tree->fd, "piped", 0600), 0);
  }
  assert_string_equal(listing.text, "d:gone d:linked d:piped d:stays f:stays/x");
  const char *first;
  assert_int_equal(walk_unread(walk, &first), 0);
  walk_free(walk);
}

/* Slightly more than WALK_NAMES_MAX. */
TREE_TEST(too_many_names_are_sorted_in_portions) {
  enum { LENGTH = 250 };
  const size_t cost = LENGTH + 2 + sizeof(char *);
  const int portion = (int)((WALK_NAMES_MAX + cost - 1) / cost);
  const int count = portion + 1000;
  char name[LENGTH + 12];
  memset(name, 'n', LENGTH);
  char first[sizeof name];
  for (int i = 0; i < count; i++) {
    (void)snprintf(name + LENGTH - 6, 18, "%06d", i);
    if (i % 60000 != 0) { /* hard links are faster to create than files */
      assert_int_equal(linkat(tree->fd, first, tree->fd, name, 0), 0);
      continue;
    }
    tree_write(tree, name, "", 0600);
    memcpy(first, name, sizeof first);
  }
  char *seen = calloc(1, (size_t)count);
  assert_non_null(seen);
  struct error error;
  struct walk *walk = walk_new(tree->path, true, &error);
  struct walk_entry entry;
  int at = 0;
  int last = -1;
  for (; walk_next(walk, &entry); at++) {
    int number = (int)strtol(entry.name + LENGTH - 6, NULL, 10);
    assert_false(seen[number]);
    seen[number] = 1;
    assert_true(number > last || at == portion);
    last = number;
  }
  assert_int_equal(at, count);
  free(seen);
  walk_free(walk);
}

/* Each level needs a descriptor, so the deepest levels are missed. */
TREE_TEST(directories_without_a_descriptor_are_counted) {
  tree_make(tree, "a/ a/b/ a/b/c/");
  struct error error;
  struct walk *walk = walk_new(tree->path, true, &error);
  struct walk_entry entry;
  assert_true(walk_next(walk, &entry));
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  /* The next free descriptor is lower than the root's. */
  struct rlimit few = {.rlim_cur = (rlim_t)entry.parent + 1, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  int count = 1;
  while (walk_next(walk, &entry))
    count++;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(count, 2); /* a and a/b */
  const char *first;
  assert_int_equal(walk_unread(walk, &first), 1);
  assert_string_equal(first, "a/b");
  walk_free(walk);
}
