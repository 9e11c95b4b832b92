#ifndef AGENT_KINDS_RUN_H
#define AGENT_KINDS_RUN_H

#include "wire/step_field.h"

/* The fields of a `run` beside the command, which is the target. The step executes the command with
   these arguments, unchanged, and with `env` added over the agent's own environment. */
struct run_fields {
  char **args;             /* what follows the command, NULL-terminated */
  char **env;              /* "NAME=value", NULL-terminated, each name once */
  struct step_bytes input; /* what it reads from standard input; absent: nothing */
};

#endif
