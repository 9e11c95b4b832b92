#ifndef AGENT_ENGINE_SECRETS_H
#define AGENT_ENGINE_SECRETS_H

#include "base/log.h"
#include "base/mask.h"
#include "wire/step.h"

/*
 * Which values are secret: those of the variables that a step names in `secrets`, and of those whose
 * names match one of --mask-env's patterns, in the agent's own environment or in a step's. Each is
 * masked (base/mask.h) from then on until the agent ends, whichever step prints it.
 */
struct secrets {
  struct masker masker;
  const char *patterns; /* of fnmatch(3), "," between them; borrowed. NULL: none */
};

/* Takes the agent's own variables that match; the log names those that cannot be masked. */
void secrets_init(struct secrets *self, const char *patterns, const struct log *log);
void secrets_release(struct secrets *self);

/* Adds a value. False: it is not masked, and the log says so of `name`. */
bool secrets_add(struct secrets *self, const struct log *log, const char *step_id, const char *name,
                 const char *value);

/* Returns 0, or -1 with the error when a name in the step's `secrets` is no variable, neither of its own
   env nor of the agent's. */
int secrets_check(const struct step *step, struct error *error);

/* Adds those of a step. Returns the names of those that are not masked, as of secrets_add, ended by NULL;
   NULL: all are. The caller ends with secrets_free_names. */
char **secrets_add_step(struct secrets *self, const struct log *log, const struct step *step);
void secrets_free_names(char **names);

#endif
