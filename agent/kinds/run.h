#ifndef AGENT_KINDS_RUN_H
#define AGENT_KINDS_RUN_H

/*
 * The fields of a `run` beside the command, which is the target. The step executes the command with
 * these arguments, unchanged, and with `env` added over the agent's own environment.
 */
struct run_fields {
  char **args; /* what follows the command, NULL-terminated */
  char **env;  /* "NAME=value", NULL-terminated, each name once */
};

#endif
