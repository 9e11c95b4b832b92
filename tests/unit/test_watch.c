#include "agent/frontends/request_files/watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/loop.h"
#include "tests/support/tree.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

struct trial {
  struct loop loop;
  struct tree *tree;
  struct watch *watch;
  int tools;      /* what is watched, or was */
  char told[512]; /* one word for each call */
  int scans;
};

static void on_changed(void *owner, const char *name, bool written) {
  struct trial *self = owner;
  size_t length = strlen(self->told);
  (void)snprintf(self->told + length, sizeof self->told - length, "%s%s ", written ? "+" : "-",
                 name);
}

static void on_settled(void *owner, bool scan) {
  struct trial *self = owner;
  self->scans += scan;
}

static const struct watch_handler handler = {.changed = on_changed, .settled = on_settled};

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

/* What has this name now. */
static void watch_anew(struct trial *trial) {
  close(trial->tools);
  trial->tools = tree_open(trial->tree, "tools");
  watch_tools(trial->watch, trial->tools);
}

static void expect(struct trial *trial, const char *told) {
  loop_settle(&trial->loop);
  assert_string_equal(trial->told, told);
  trial->told[0] = '\0';
}

/* Its scans will see the next one. */
TRIAL_TEST(of_a_directory_that_is_gone_again_it_keeps_inotify) {
  assert_int_equal(unlinkat(trial->tree->fd, "tools", AT_REMOVEDIR), 0);
  watch_tools(trial->watch, trial->tools);
  assert_true(watch_has_inotify(trial->watch));
  tree_make(trial->tree, "tools/");
  watch_anew(trial);
  loop_settle(&trial->loop);
  trial->told[0] = '\0';
  tree_make(trial->tree, "tools/b");
  expect(trial, "+b ");
}

/* Another one may have got the name since it was opened. */
TRIAL_TEST(what_was_opened_is_watched_and_not_what_has_its_name) {
  assert_int_equal(renameat(trial->tree->fd, "tools", trial->tree->fd, "mine"), 0);
  tree_make(trial->tree, "tools/");
  watch_tools(trial->watch, trial->tools);
  loop_settle(&trial->loop);
  tree_make(trial->tree, "tools/a mine/b");
  expect(trial, "+b ");
}

TRIAL_TEST(a_scan_comes_each_second) {
  virtual_time_pass(&trial->loop, 999);
  assert_int_equal(trial->scans, 0);
  virtual_time_pass(&trial->loop, 2002);
  assert_int_equal(trial->scans, 3);
}

static unsigned long queue_length(void) {
  unsigned long length = 0;
  FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu", &length), 1);
  (void)fclose(file);
  return length;
}

/* Each removal is an event of its own: two that are alike become one. */
TRIAL_TEST(after_more_than_the_kernel_remembers_there_is_a_scan) {
  char name[2][32] = {"tools/a", "tools/b"};
  tree_make(trial->tree, "tools/a");
  for (unsigned long i = 0; i <= queue_length() / 2; i++)
    assert_int_equal(renameat(trial->tree->fd, name[i % 2], trial->tree->fd, name[(i + 1) % 2]), 0);
  loop_settle(&trial->loop);
  assert_int_equal(trial->scans, 1);
}

TRIAL_TEST(without_a_directory_that_can_be_watched_scans_come_each_100_ms) {
  struct watch *watch = watch_new(trial->loop.base, &trial->loop.log, -1, &handler, trial);
  assert_false(watch_has_inotify(watch));
  assert_int_equal(loop_logged(&trial->loop, "looking every 100 ms"), 1);
  virtual_time_pass(&trial->loop, 501);
  assert_int_equal(trial->scans, 5);
  watch_free(watch);
}
