#include "tests/support/changes.h"

#include "tests/test.h"

static void change(int directory) {
  char name[16];
  for (int i = 0; i < 50; i++) {
    (void)snprintf(name, sizeof name, "d/%d", i);
    (void)mkdirat(directory, name, 0700);
    (void)unlinkat(directory, name, AT_REMOVEDIR);
    (void)symlinkat("..", directory, name);
    (void)unlinkat(directory, name, 0);
    (void)mknodat(directory, name, S_IFREG | 0600, 0);
  }
  (void)renameat(directory, "d", directory, "e");
  (void)renameat(directory, "e", directory, "d");
  for (int i = 0; i < 50; i++) {
    (void)snprintf(name, sizeof name, "d/%d", i);
    (void)unlinkat(directory, name, 0);
  }
}

pid_t changes_start(const struct tree *tree) {
  pid_t parent = getpid();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child > 0)
    return child;
  while (getppid() == parent)
    change(tree->fd);
  _exit(0);
}

void changes_stop(pid_t changes) {
  assert_int_equal(kill(changes, SIGKILL), 0);
  assert_int_equal(waitpid(changes, NULL, 0), changes);
}
