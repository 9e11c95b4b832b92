#ifndef AGENT_KINDS_RUN_H
#define AGENT_KINDS_RUN_H

/*
 * The fields of a `run` beside the command, which is the subject. It executes the command: its
 * arguments as they are, its environment over the agent's own, in its working directory.
 */
struct run_fields {
  char **args; /* what follows the command, NULL-terminated */
  char **env;  /* "NAME=value", NULL-terminated, each name once */
};

#endif
