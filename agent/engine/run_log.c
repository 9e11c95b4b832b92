#include "agent/engine/run_log.h"

#include <ctype.h>
#include <stdbool.h>
#include <strings.h>

#include "agent/kinds/kind.h"

/* Bytes of a refused payload that are logged. */
#define PAYLOAD_SHOWN 200

void run_log_done(const struct log *log, const struct step *step, const struct run_end *end,
                  bool quiet) {
  bool succeeded = run_end_is_success(end);
  enum log_level failure = quiet ? LOG_DEBUG : LOG_WARN;
  char command[400];
  kind_describe(step, command, sizeof command);
  /* Only a message of the agent's own: what a command wrote is in the stream. */
  bool own = !run_end_is_own(end) || kind_of(step)->work != NULL;
  bool has_message = own && !succeeded;
  struct error line;
  struct run_stream message = {.bytes = ""};
  if (has_message)
    message = run_end_message(end, step->timeout_seconds, &line);
  log_line(log, succeeded && !quiet ? LOG_INFO : failure, step->step_id,
           "exit=%d in %lldms `%s`%s%.*s", run_end_is_own(end) ? end->exit_code : -1,
           (long long)end->duration_ms, command, has_message ? ": " : "", (int)message.length,
           message.bytes);
  if (end->holder[0] != '\0')
    log_line(log, failure, step->step_id,
             "%s still holds its output in the background; what it prints from now on is dropped",
             end->holder);
  if (end->survivors > 0)
    log_line(log, LOG_WARN, step->step_id, "%zu processes survive SIGKILL", end->survivors);
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

void run_log_refused(const struct log *log, const char *step_id, const struct error *error,
                     const char *payload, size_t length) {
  size_t shown = shown_length(payload, length);
  log_line(log, LOG_WARN, step_id, "refused: %s; payload: %.*s%s", error->text, (int)shown, payload,
           shown < length ? "..." : "");
}
