#include "agent/frontends/request_files/watch.h"

#include "tests/support/loop.h"
#include "tests/support/tree.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

struct trial {
  struct loop loop;
  struct tree *tree;
  struct watch *watch;
  int tools;      /* the watched directory */
  char seen[512]; /* one word for each call of changed() */
  int scans;
};

static void on_changed(void *owner, const char *name, bool written) {
  struct trial *self = owner;
  size_t length = strlen(self->seen);
  (void)snprintf(self->seen + length, sizeof self->seen - length, "%s%s ", written ? "+" : "-",
                 name);
}

static void on_changes_read(void *owner, bool scan) {
  struct trial *self = owner;
  self->scans += scan;
}

static const struct watch_handler handler = {.changed = on_changed,
                                             .changes_read = on_changes_read};

static int set_up(void **state) {
  struct trial *self = calloc(1, sizeof *self);
  assert_non_null(self);
  void *tree;
  assert_int_equal(tree_set_up(&tree), 0);
  self->tree = tree;
  tree_make(self->tree, "tools/");
  loop_init(&self->loop);
  self->watch = watch_new(self->loop.base, &self->loop.log, self->tree->fd, &handler, self);
  self->tools = tree_open(self->tree, "tools");
  watch_tools(self->watch, self->tools);
  assert_true(watch_has_inotify(self->watch));
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct trial *self = *state;
  watch_free(self->watch);
  close(self->tools);
  loop_release(&self->loop);
  void *tree = self->tree;
  assert_int_equal(tree_tear_down(&tree), 0);
  free(self);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

/* Watches the directory that has the name now. */
static void watch_again(struct trial *trial) {
  close(trial->tools);
  trial->tools = tree_open(trial->tree, "tools");
  watch_tools(trial->watch, trial->tools);
}

static void expect(struct trial *trial, const char *expected) {
  loop_settle(&trial->loop);
  assert_string_equal(trial->seen, expected);
  trial->seen[0] = '\0';
}

/* The next scan finds the next directory. */
TRIAL_TEST(inotify_is_kept_when_a_directory_is_gone_already) {
  assert_int_equal(unlinkat(trial->tree->fd, "tools", AT_REMOVEDIR), 0);
  watch_tools(trial->watch, trial->tools);
  assert_true(watch_has_inotify(trial->watch));
  tree_make(trial->tree, "tools/");
  watch_again(trial);
  loop_settle(&trial->loop);
  trial->seen[0] = '\0';
  tree_make(trial->tree, "tools/b");
  expect(trial, "+b ");
}

/* Another directory may have the name since this one was opened. */
TRIAL_TEST(the_opened_directory_is_watched_and_not_the_one_with_its_name) {
  assert_int_equal(renameat(trial->tree->fd, "tools", trial->tree->fd, "mine"), 0);
  tree_make(trial->tree, "tools/");
  watch_tools(trial->watch, trial->tools);
  loop_settle(&trial->loop);
  tree_make(trial->tree, "tools/a mine/b");
  expect(trial, "+b ");
}

static unsigned long queue_length(void) {
  unsigned long length = 0;
  FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu", &length), 1);
  (void)fclose(file);
  return length;
}

/* Renames alternate, because the kernel merges two equal events. */
TRIAL_TEST(an_overflow_of_the_queue_causes_a_scan) {
  char name[2][32] = {"tools/a", "tools/b"};
  tree_make(trial->tree, "tools/a");
  for (unsigned long i = 0; i <= queue_length() / 2; i++)
    assert_int_equal(renameat(trial->tree->fd, name[i % 2], trial->tree->fd, name[(i + 1) % 2]), 0);
  loop_settle(&trial->loop);
  assert_int_equal(trial->scans, 1);
}
