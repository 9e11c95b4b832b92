#pragma once

#include <stddef.h>

#include "client/commands/command.h"

/* The commands of `sandbox`, and their help. */
struct command {
  const char *name, *summary;
  command_function *run;
  const char *help; /* the usage, the options with units and defaults, and examples */
};

/* Returns NULL if there is none. */
const struct command *help_find(const char *name);

/* Writes the help of a command, or of `sandbox` for NULL. */
void help_print(struct terminal *terminal, bool to_stderr, const struct command *command);
