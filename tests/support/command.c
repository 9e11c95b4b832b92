#include "tests/support/command.h"

#include "tests/test.h"

void command_build(const char *name, const char *flags, const char *path) {
  char command[1024];
  const char *compiler = getenv("CC");
  snprintf(command, sizeof command,
           "%s -O1 -D_GNU_SOURCE -pthread %s -o '%s' tests/integration/%s_command.c",
           compiler == NULL || *compiler == '\0' ? "cc" : compiler, flags, path, name);
  if (system(command) != 0)
    fail_msg("`%s` failed", command);
}
