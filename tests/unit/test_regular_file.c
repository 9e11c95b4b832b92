#include <sys/inotify.h>
#include <sys/prctl.h>

#include "agent/files/access/regular_file.h"
#include "tests/support/as_user.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/tree.h"
#include "tests/test.h"

static int open_file(const struct tree *tree, const char *name) {
  struct error error = {.text = ""};
  int fd = regular_file_open(tree->fd, name, &error);
  assert_string_equal(error.text, "");
  assert_true(fd >= 0);
  return fd;
}

static void expect_refused(const struct tree *tree, const char *name, const char *text) {
  struct error error = {.text = ""};
  int descriptors = proc_fd_count(getpid());
  assert_int_equal(regular_file_open(tree->fd, name, &error), -1);
  assert_string_equal(error.text, text);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}

/* Closes the descriptor. */
static void expect_content(int fd, const char *expected) {
  struct buffer content = {0};
  assert_int_equal(regular_file_fill(fd, -1, 16, &content), 0);
  assert_int_equal(content.length, strlen(expected));
  assert_memory_equal(content.bytes, expected, content.length);
  buffer_release(&content);
  close(fd);
}

/* The descriptor does not depend on the name any more. */
TREE_TEST(the_descriptor_stays_that_of_the_opened_file) {
  tree_write(tree, "text", "old", 0644);
  int fd = open_file(tree, "text");
  int flags = fcntl(fd, F_GETFL);
  assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
  assert_int_equal(flags & (O_ACCMODE | O_NONBLOCK | O_PATH), O_RDONLY | O_NONBLOCK);
  assert_int_equal(unlinkat(tree->fd, "text", 0), 0);
  tree_write(tree, "text", "new", 0644);
  /* A link in /proc leads to the open file, even without a name. */
  expect_content(open_file(tree, formatted("/proc/self/fd/%d", fd)), "old");
  expect_content(fd, "old");
}

struct opening {
  const struct tree *tree;
  const char *name;
};

/* Like the agent, which is not dumpable and may see less of itself in /proc. */
static int open_it(void *context, struct error *error) {
  const struct opening *self = context;
  assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
  return regular_file_open(self->tree->fd, self->name, error) >= 0 ? 0 : -1;
}

TREE_TEST(missing_permission_is_reported) {
  tree_write(tree, "secret", "x", 0600);
  tree_write(tree, "open", "x", 0644);
  assert_int_equal(fchmod(tree->fd, 0755), 0);
  struct error error = {.text = ""};
  struct opening opening = {tree, "secret"};
  assert_int_equal(as_user(NOBODY, NOBODY, open_it, &opening, &error), -1);
  assert_string_equal(error.text, "cannot read file (Permission denied): secret");
  opening.name = "open";
  assert_int_equal(as_user(NOBODY, NOBODY, open_it, &opening, &error), 0);
}

/* A writer that waits for a reader must not be woken. */
TREE_TEST(a_fifo_is_not_opened) {
  char events[512];
  tree_make(tree, "fifo| text=x");
  int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  assert_true(inotify_add_watch(watch, tree_path(tree, "fifo"), IN_OPEN) >= 0);
  expect_refused(tree, "fifo", "is a FIFO, not a regular file: fifo");
  assert_int_equal(read(watch, events, sizeof events), -1);
  assert_true(inotify_add_watch(watch, tree_path(tree, "text"), IN_OPEN) >= 0);
  close(open_file(tree, "text"));
  assert_true(read(watch, events, sizeof events) > 0);
  close(watch);
}
