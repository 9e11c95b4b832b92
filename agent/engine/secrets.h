#ifndef AGENT_ENGINE_SECRETS_H
#define AGENT_ENGINE_SECRETS_H

#include <stddef.h>

#include "base/log.h"
#include "base/mask.h"
#include "wire/step.h"

/*
 * Decides which values are secret, and has the masker (base/mask.h) that replaces them in all
 * output and in the log. Secret are the variables that a step names in `secrets`, and those whose
 * names match one of --mask-env's patterns (fnmatch(3), separated by commas or spaces), in the
 * agent's environment or in a step's `env`. A value is masked whichever step prints it: one of
 * secrets_init or secrets_add until the agent ends, one of a step until the step ends and its space
 * is needed.
 */
struct secrets {
  struct masker masker;
  const char *patterns; /* borrowed; NULL: none */
};

/* Adds the agent's own variables that match. `bytes_max` limits the bytes of all values; NULL: the
   limit of base/mask.h. Logs the names of those that are not masked. */
void secrets_init(struct secrets *self, const char *patterns, size_t (*bytes_max)(void),
                  const struct log *log);
void secrets_release(struct secrets *self);

/* Adds a value. If it cannot be masked, logs its `name`. */
void secrets_add(struct secrets *self, const struct log *log, const char *name, const char *value);

/* Returns 0, or -1 with the error if a name in the step's `secrets` is a variable neither of the
   step's env nor of the agent's. */
int secrets_check(const struct step *step, struct error *error);

/* Adds the values of a step until secrets_end_step. Returns and logs the names of those that cannot
   be masked, terminated by NULL; NULL if there are none. The caller frees them with
   secrets_free_names. */
char **secrets_add_step(struct secrets *self, const struct log *log, const struct step *step);
void secrets_free_names(char **names);

/* The step is over. Its values, except those of `not_masked` (see secrets_add_step), stay masked
   until their space is needed. */
void secrets_end_step(struct secrets *self, const struct step *step, char *const *not_masked);

/* Masks the error of a rejected step, including the values that its payload names, as far as the
   payload is valid. */
void secrets_mask_rejected(struct secrets *self, const char *payload, size_t length,
                           struct error *error);

#endif
