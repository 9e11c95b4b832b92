#include "agent/engine/run_end.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "agent/kinds/kind.h"
#include "base/printable.h"

bool run_end_is_success(const struct run_end *self) {
  return self->how == RUN_EXITED && self->exit_code == 0;
}

bool run_end_is_own(const struct run_end *self) {
  return self->how == RUN_EXITED || self->how == RUN_SIGNALED;
}

bool run_end_has_code(const struct run_end *self) {
  return run_end_is_own(self) || self->how == RUN_MEMORY_LIMIT;
}

bool run_end_was_executed(const struct run_end *self) {
  return run_end_has_code(self) || self->how == RUN_TIMED_OUT;
}

struct run_stream run_end_message(const struct run_end *self, unsigned timeout_seconds,
                                  struct error *line) {
  if (self->message.length > 0)
    return self->message;
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
  case RUN_MEMORY_LIMIT:
  case RUN_NO_DIRECTORY:
  case RUN_NOT_FOUND:
  case RUN_NOT_EXECUTABLE:
  case RUN_NO_PROCESS:
    *line = self->error;
    break;
  }
  return (struct run_stream){.bytes = line->text, .length = strlen(line->text)};
}

static void add_bytes(struct buffer *out, int64_t bytes) {
  static const char units[] = "KMGT";
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && bytes % 1024 == 0 && unit < sizeof units - 2; unit++)
    bytes /= 1024;
  buffer_add_format(out, "%lld %ciB", (long long)bytes, units[unit]);
}

void run_end_tell_memory(struct run_end *self, struct buffer *text) {
  if (!self->cost.oom_killed || !run_end_is_own(self))
    return;
  if (self->how == RUN_SIGNALED)
    buffer_add_format(text, "killed by signal %d (%s)", self->signal,
                      printable_signal(self->signal));
  else
    buffer_add_format(text, "exited with code %d", self->exit_code);
  buffer_add_string(text, ": out of memory");
  if (self->cost.memory_limit_bytes >= 0) {
    buffer_add_string(text, ", the container has ");
    add_bytes(text, self->cost.memory_limit_bytes);
  }
  if (self->errors.length > 0) {
    buffer_add_string(text, "\n");
    buffer_add(text, self->errors.bytes, self->errors.length);
  }
  self->message = (struct run_stream){.bytes = text->bytes, .length = text->length};
}

/* A command's output is shown however it ended. */
struct step_result run_end_step_result(const struct run_end *self, const struct step *step,
                                       struct error *line) {
  struct step_result result = {.schema_version = step_answer_version(step),
                               .step_id = step->step_id,
                               .exit_code = run_end_has_code(self) ? self->exit_code : -1,
                               .timed_out = self->how == RUN_TIMED_OUT,
                               .duration_ms = self->duration_ms,
                               .output_content = self->output.bytes,
                               .output_content_length = self->output.length,
                               .end = self->cost};
  if (self->output.truncated) {
    result.output_bytes = self->output.total;
    result.output_tail = self->output.tail;
    result.output_tail_length = self->output.tail_length;
  }
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

/* Bytes of a refused payload that are logged. */
#define PAYLOAD_SHOWN 200

void run_end_log(const struct run_end *self, const struct log *log, const struct step *step,
                 bool quiet) {
  bool succeeded = run_end_is_success(self);
  enum log_level failure = quiet ? LOG_DEBUG : LOG_WARN;
  char command[400];
  kind_describe(step, log->masker, command, sizeof command);
  /* Only a message of the agent's own: what a command wrote is in the stream. */
  bool own = !run_end_is_own(self) || kind_of(step)->work != NULL;
  bool has_message = own && !succeeded;
  struct error line;
  struct run_stream message = {.bytes = ""};
  if (has_message)
    message = run_end_message(self, step->timeout_seconds, &line);
  log_line(log, succeeded && !quiet ? LOG_INFO : failure, step->step_id,
           "exit=%d in %lldms `%s`%s%.*s", run_end_has_code(self) ? self->exit_code : -1,
           (long long)self->duration_ms, command, has_message ? ": " : "", (int)message.length,
           message.bytes);
  if (self->holder.pid != 0)
    log_line(log, failure, step->step_id,
             "pid %d (%s) still holds its output in the background; what it prints from now on is "
             "dropped",
             (int)self->holder.pid, self->holder.name);
  if (self->unkillable > 0)
    log_line(log, LOG_WARN, step->step_id, "%zu processes survive SIGKILL", self->unkillable);
}

static bool is_word(char byte) {
  return isalnum((unsigned char)byte) || byte == '_';
}

/* True at the word `env`, quoted or not: a refused payload need not be JSON. */
static bool is_env(const char *payload, size_t length, size_t at) {
  return length - at >= 3 && strncasecmp(payload + at, "env", 3) == 0 &&
         (at == 0 || !is_word(payload[at - 1])) && (length - at == 3 || !is_word(payload[at + 3]));
}

/* True at a letter that is written as \u0065: it may be part of `env`. */
static bool is_escaped_letter(const char *payload, size_t length, size_t at) {
  return length - at >= 6 && strncasecmp(payload + at, "\\u00", 4) == 0 && payload[at + 4] >= '4' &&
         payload[at + 4] <= '7';
}

/* What is logged ends before the word `env`, whose values may be secrets. */
static size_t shown_length(const char *payload, size_t length) {
  size_t shown = length < PAYLOAD_SHOWN ? length : PAYLOAD_SHOWN;
  for (size_t i = 0; i < shown; i++)
    if (is_env(payload, length, i) || is_escaped_letter(payload, length, i))
      return i;
  return shown;
}

void run_end_log_refused(const struct log *log, const char *step_id, const struct error *error,
                         const char *payload, size_t length) {
  char text[PAYLOAD_SHOWN + 1];
  const size_t shown = shown_length(payload, length);
  (void)snprintf(text, sizeof text, "%.*s", (int)shown, payload);
  mask_string(log->masker, text, shown < length);
  log_line(log, LOG_WARN, step_id, "refused: %s; payload: %s%s", error->text, text,
           shown < length ? "..." : "");
}
