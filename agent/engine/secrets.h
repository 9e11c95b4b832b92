#pragma once

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

/* The secret variables of a step. */
struct step_secrets {
  struct secret_variable *all;
  size_t count;
  const char *
      *not_masked; /* names of those that cannot be masked, ended by NULL; NULL if all are */
};

/* Adds the values of a step, which must outlive them, and logs the names of the first
   STEP_SECRETS_MAX that cannot be masked, and how many more there are. */
struct step_secrets secrets_add_step(struct secrets *self, const struct log *log,
                                     const struct step *step);

/* Ends the use of a step's values. They stay masked until their space is needed. */
void secrets_end_step(struct secrets *self, struct step_secrets *added);

/* Masks the error of a rejected step, including the values that its payload names, as far as the
   payload is valid. */
void secrets_mask_rejected(struct secrets *self, const char *payload, size_t length,
                           struct error *error);
