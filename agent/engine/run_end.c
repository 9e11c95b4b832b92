#include "agent/engine/run_end.h"

#include <string.h>

#include "agent/kinds/kind.h"
#include "base/printable.h"
#include "base/utf8.h"

struct run_stream run_stream_shown(struct run_stream self, size_t max) {
  while (!self.truncated && self.length > 0 && self.bytes[self.length - 1] == '\n')
    self.length--;
  if (self.length > max) {
    self.length = utf8_cut(self.bytes, max);
    self.truncated = true;
  }
  return self;
}

bool run_end_is_success(const struct run_end *self) {
  return self->how == RUN_EXITED && self->exit_code == 0;
}

bool run_end_is_own(const struct run_end *self) {
  return self->how == RUN_EXITED || self->how == RUN_SIGNALED;
}

bool run_end_was_executed(const struct run_end *self) {
  return run_end_is_own(self) || self->how == RUN_TIMED_OUT;
}

struct run_stream run_end_message(const struct run_end *self, unsigned timeout_seconds,
                                  struct error *line) {
  if (run_end_is_own(self) && self->errors.length > 0)
    return self->errors;
  switch (self->how) {
  case RUN_EXITED:
    (void)error_set(line, "exited with code %d and wrote nothing", self->exit_code);
    break;
  case RUN_SIGNALED:
    (void)error_set(line, "killed by signal %d (%s)", self->signal, printable_signal(self->signal));
    break;
  case RUN_TIMED_OUT:
    (void)error_set(line, "timed out after %us", timeout_seconds);
    break;
  case RUN_STOPPED:
  case RUN_NO_DIRECTORY:
  case RUN_NOT_FOUND:
  case RUN_NOT_EXECUTABLE:
  case RUN_NO_PROCESS:
    *line = self->error;
    break;
  }
  return (struct run_stream){.bytes = line->text, .length = strlen(line->text)};
}

/* A command's output is shown however it ended. */
struct step_result run_end_step_result(const struct run_end *self, const struct step *step,
                                       struct error *line) {
  struct step_result result = {.schema_version = step_answer_version(step),
                               .step_id = step->step_id,
                               .exit_code = run_end_is_own(self) ? self->exit_code : -1,
                               .timed_out = self->how == RUN_TIMED_OUT,
                               .duration_ms = self->duration_ms,
                               .output_content = self->output.bytes,
                               .output_content_length = self->output.length};
  bool succeeded = run_end_is_success(self);
  if (result.output_content == NULL && kind_of(step)->has_content && succeeded)
    result.output_content = "";
  if (succeeded)
    return result;
  const struct run_stream message = run_end_message(self, step->timeout_seconds, line);
  result.error_message = message.bytes;
  result.error_message_length = message.length;
  return result;
}
