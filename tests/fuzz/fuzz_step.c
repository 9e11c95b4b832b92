/*
 * Any bytes as a payload. A step that is taken keeps the promises of wire/step.h; one that is
 * refused has an id to answer with and one short line that says why.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/step.h"
#include "wire/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool promise) {
  if (!promise)
    abort();
}

static void check_text(const char *text, size_t shortest) {
  size_t length = strlen(text);
  demand(length >= shortest);
  demand(utf8_valid_prefix(text, length) == length);
}

static void check_run(const struct step *step) {
  check_text(step->command, 1);
  for (char **arg = step->args; *arg != NULL; arg++)
    check_text(*arg, 0);
  for (char **variable = step->env; *variable != NULL; variable++) {
    check_text(*variable, 2);
    demand(strchr(*variable, '=') > *variable);
  }
  if (step->working_directory != NULL)
    check_text(step->working_directory, 1);
  demand(step->timeout_seconds >= 1 && step->timeout_seconds <= STEP_TIMEOUT_MAX_SECONDS);
}

static void check_error(const struct error *error) {
  const char *text = error->text;
  demand(strstr(text, ": ") != NULL && strlen(text) < 200);
  for (; *text != '\0'; text++)
    demand(*text >= ' ' && *text <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct step step;
  struct error error = {""};
  int result = step_parse(&step, kinds, (const char *)data, size, &error);
  check_text(step.step_id, 1);
  demand(strlen(step.step_id) <= STEP_ID_MAX);
  if (result != 0)
    check_error(&error);
  else if (step.kind == STEP_RUN)
    check_run(&step);
  else
    demand((step.kind == STEP_SHUTDOWN || step.kind == STEP_CANCEL) && step.command == NULL);
  step_release(&step);
  return 0;
}
