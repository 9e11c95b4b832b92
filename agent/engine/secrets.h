#ifndef AGENT_ENGINE_SECRETS_H
#define AGENT_ENGINE_SECRETS_H

#include <stddef.h>

#include "base/log.h"
#include "base/mask.h"
#include "wire/step.h"

/*
 * Which values are secret: those of the variables that a step names in `secrets`, and of those
 * whose names match one of --mask-env's patterns (fnmatch(3), with commas or blanks between them),
 * in the agent's own environment or in a step's. Each is masked (base/mask.h) from then on,
 * whichever step prints it: what secrets_init and secrets_add take until the agent ends, what a
 * step names until the step ends, and after that until the room is needed.
 */
struct secrets {
  struct masker masker;
  const char *patterns; /* borrowed; NULL: none */
};

/* Takes the agent's own variables that match, and up to `bytes_max` bytes of values in all (NULL:
   as many as base/mask.h allows). The log names those that are not masked. */
void secrets_init(struct secrets *self, const char *patterns, size_t (*bytes_max)(void),
                  const struct log *log);
void secrets_release(struct secrets *self);

/* Adds a value; where it is not masked the log says so of `name`. */
void secrets_add(struct secrets *self, const struct log *log, const char *name, const char *value);

/* Returns 0, or -1 with the error when a name in the step's `secrets` is no variable, neither of
   its own env nor of the agent's. */
int secrets_check(const struct step *step, struct error *error);

/* Adds those of a step, and holds them until secrets_end_step. Returns the names of those that are
   not masked, as the log says, ended by NULL; NULL: all are. The caller ends with
   secrets_free_names. */
char **secrets_add_step(struct secrets *self, const struct log *log, const struct step *step);
void secrets_free_names(char **names);

/* Nothing more is said of the step. Its values, except those of `not_masked` (see
   secrets_add_step), are masked until their room is needed. */
void secrets_end_step(struct secrets *self, const struct step *step, char *const *not_masked);

/* Adds the values that a rejected step names, as far as its payload can be read, and masks the
   error. */
void secrets_mask_rejected(struct secrets *self, const char *payload, size_t length,
                           struct error *error);

#endif
