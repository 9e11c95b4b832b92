#ifndef TESTS_SUPPORT_SAME_STEP_H
#define TESTS_SUPPORT_SAME_STEP_H

#include "wire/step.h"

/* Fails unless it is the step that this JSON means; ignores whether it is for a model. */
void assert_same_step(const struct step *step, const char *json);

#endif
