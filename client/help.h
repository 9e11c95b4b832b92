#pragma once

#include <stddef.h>

#include "client/commands/command.h"

/* Lists the commands of `sandbox` with their help. main.c finds a command here, and `sandbox help`
   and --help print its text. */
struct command {
  const char *name, *summary;
  command_function *run;
  const char *help; /* the usage, the options with units and defaults, and examples */
};

/* Returns the command of this name, or NULL if there is none. */
const struct command *help_find(const char *name);

/* Writes the help of a command, or of `sandbox` for NULL. */
void help_print(struct terminal *terminal, bool to_stderr, const struct command *command);
