#include "agent/engine/run_log.h"

#include <ctype.h>
#include <stdbool.h>
#include <strings.h>

#include "agent/kinds/kind.h"

/* How much of a refused payload is shown. */
#define PAYLOAD_SHOWN 200

void run_log_done(const struct log *log, const struct step *step, const struct run_report *report) {
  const struct step_result *result = &report->result;
  char command[400];
  kind_describe(step, command, sizeof command);
  /* The agent's own word on a step; a command's own last words are in the stream. */
  bool own = result->exit_code == -1 || kind_of(step)->work != NULL;
  bool tell = own && result->error_message != NULL;
  log_line(log, result->exit_code == 0 ? LOG_INFO : LOG_WARN, step->step_id,
           "exit=%d in %lldms `%s`%s%.*s", result->exit_code, (long long)result->duration_ms,
           command, tell ? ": " : "", tell ? (int)result->error_message_length : 0,
           tell ? result->error_message : "");
  if (report->holder[0] != '\0')
    log_line(log, LOG_WARN, step->step_id,
             "%s still holds its output in the background; what it prints from now on is dropped",
             report->holder);
  if (report->survivors > 0)
    log_line(log, LOG_WARN, step->step_id, "%zu processes survive SIGKILL", report->survivors);
}

static bool is_word(char byte) {
  return isalnum((unsigned char)byte) || byte == '_';
}

/* The word `env`, however it is quoted: what is refused need not be JSON. */
static bool is_env(const char *payload, size_t length, size_t at) {
  return length - at >= 3 && strncasecmp(payload + at, "env", 3) == 0 &&
         (at == 0 || !is_word(payload[at - 1])) && (length - at == 3 || !is_word(payload[at + 3]));
}

/* A letter written as \u0065: nobody needs to, and it may spell `env`. */
static bool is_escaped_letter(const char *payload, size_t length, size_t at) {
  return length - at >= 6 && strncasecmp(payload + at, "\\u00", 4) == 0 && payload[at + 4] >= '4' &&
         payload[at + 4] <= '7';
}

/* The values of a step's `env` may be secrets: what is shown ends before them. */
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
