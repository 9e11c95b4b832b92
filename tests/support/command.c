#include "tests/support/command.h"

#include "tests/support/directory.h"

static struct directory directory;

void command_build(const char *name, const char *flags, const char *path) {
  char command[1024];
  const char *compiler = getenv("CC");
  snprintf(command, sizeof command,
           "%s -O1 -D_GNU_SOURCE -pthread %s -o '%s' tests/integration/%s_command.c",
           compiler == NULL || *compiler == '\0' ? "cc" : compiler, flags, path, name);
  if (system(command) != 0)
    fail_msg("`%s` failed", command);
}

void command_begin_group(void) {
  directory_init(&directory);
  assert_int_equal(chmod(directory.path, 0755), 0);
}

int command_end_group(void **state) {
  (void)state;
  directory_release(&directory);
  return 0;
}

const char *command_path(const char *name) {
  return directory_path(&directory, name);
}
