/*
 * Any bytes as a request file. One that is ready is a step; one that is not says why in a short
 * line; and none looks broken before it is whole.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/files/exec_request.h"
#include "agent/doors/files/json_prefix.h"
#include "agent/kinds/kinds.h"
#include "wire/step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool promise) {
  if (!promise)
    abort();
}

static void check_ready(const struct exec_request *request) {
  struct buffer payload = {0}, env = {0};
  struct step step;
  struct error error;
  demand(request->timeout_seconds >= 1 && request->timeout_seconds <= 120);
  demand(request->directory != NULL && request->directory[0] != '\0');
  demand(request->argv != NULL || (request->command != NULL && request->command[0] != '\0'));
  exec_request_add_step(request, "id", "sh", NULL, &env, &payload);
  demand(step_parse(&step, kinds, payload.bytes, payload.length, &error) == 0);
  demand(step.timeout_seconds == request->timeout_seconds);
  step_release(&step);
  buffer_release(&payload);
}

/* Every beginning of a text that may become JSON may become it, too. */
static void check_beginnings(const char *text, size_t length) {
  size_t at;
  for (size_t beginning = length; beginning > 0; beginning /= 2)
    demand(json_prefix_scan(text, beginning, &at) != JSON_PREFIX_BROKEN && at <= beginning);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct exec_request_defaults defaults = {
      .directory = EXEC_REQUEST_DIRECTORY, .timeout_seconds = 30, .timeout_max_seconds = 120};
  const char *text = size > 0 ? (const char *)data : "";
  struct exec_request request;
  struct error error = {{0}};
  size_t at;
  enum exec_request_state state = exec_request_parse(&request, text, size, "id", &defaults, &error);
  if (state == EXEC_REQUEST_READY)
    check_ready(&request);
  else
    demand(error.text[0] != '\0' && strchr(error.text, '\n') == NULL);
  demand(request.target != NULL || (state != EXEC_REQUEST_READY && state != EXEC_REQUEST_REFUSED));
  if (json_prefix_scan(text, size, &at) != JSON_PREFIX_BROKEN)
    check_beginnings(text, size);
  exec_request_release(&request);
  return 0;
}
