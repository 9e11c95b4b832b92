#include "client/steps/outcome.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "client/exit_code.h"
#include "client/redis/json_field.h"
#include "client/screen/figure.h"
#include "wire/json.h"

/* A command that was not started has no exit code. Only the message says why. */
static int code_of_not_started(const char *message) {
  if (strstr(message, "working directory") != NULL)
    return EXIT_CLIENT;
  if (strstr(message, "not found") != NULL || strstr(message, "no such file") != NULL)
    return EXIT_NOT_FOUND;
  return strstr(message, "cannot run") != NULL ? EXIT_NOT_EXECUTABLE : EXIT_CLIENT;
}

/* Keeps the first line. */
static void set_message(struct outcome *self, const char *message) {
  (void)snprintf(self->text, sizeof self->text, "%.*s", (int)strcspn(message, "\n"), message);
}

/* Explains an exit code of -1 by the first line of the message. */
static void explain(struct outcome *self, const cJSON *result, bool was_cancelled) {
  const char *message = json_field_text(result, "errorMessage", "");
  const char *cause = json_field_text(cJSON_GetObjectItemCaseSensitive(result, "end"), "cause", "");
  const bool is_cancelled =
      strncmp(message, "cancelled", 9) == 0 || (result == NULL && was_cancelled);
  self->code = EXIT_CLIENT;
  self->was_ended = is_cancelled;
  if (is_cancelled)
    self->code = EXIT_CANCELLED;
  else if (strcmp(cause, "notStarted") == 0 || cause[0] == '\0')
    self->code = code_of_not_started(message);
  if (message[0] == '\0')
    message = is_cancelled ? "cancelled" : "not run";
  set_message(self, message);
}

/* Whether a limit of the step or of its container has ended it: "memoryLimit", "cpuLimit", … The
   message then says which one. */
static bool is_limit(const char *cause) {
  static const char end[] = "Limit";
  const size_t length = strlen(cause), end_length = sizeof end - 1;
  return length > end_length && strcmp(cause + length - end_length, end) == 0;
}

struct outcome outcome_make(const char *result, struct completion completion, bool was_cancelled) {
  struct outcome self = {.code = completion.exit_code, .has_result = result != NULL};
  struct error ignored;
  cJSON *tree = result != NULL ? json_tree_parse(result, strlen(result), &ignored) : NULL;
  const cJSON *end = cJSON_GetObjectItemCaseSensitive(tree, "end");
  if (tree != NULL) {
    self.code = (int)json_field_number(tree, "exitCode", -1);
    completion.timed_out = json_field_is_true(tree, "timedOut");
  }
  self.seconds = json_field_number(tree, "durationSeconds", -1);
  self.max_rss_bytes = json_field_number(end, "maxRssBytes", -1);
  self.cpu_seconds = json_field_number(end, "userCpuSeconds", -1);
  if (self.cpu_seconds >= 0)
    self.cpu_seconds += json_field_number(end, "systemCpuSeconds", 0);
  self.notes = json_field_is_true(end, "oomKilled") ? ", out of memory" : "";
  const char *signal_name = json_field_text(end, "signalName", "");
  const bool is_limited = is_limit(json_field_text(end, "cause", ""));
  if (self.code > 255) /* no process exits with it: exit(3) would turn 256 into 0 */
    self.code = -1;
  if (completion.timed_out) {
    self.code = EXIT_TIMED_OUT;
    (void)snprintf(self.text, sizeof self.text, "timed out");
  } else if (self.code < 0) {
    explain(&self, tree, was_cancelled);
  } else if (is_limited) {
    set_message(&self, json_field_text(tree, "errorMessage", "a limit was exceeded"));
  } else if (signal_name[0] != '\0') {
    (void)snprintf(self.text, sizeof self.text, "killed by %s", signal_name);
  } else {
    (void)snprintf(self.text, sizeof self.text, "exit %d", self.code);
  }
  self.was_ended |= completion.timed_out || is_limited || signal_name[0] != '\0' ||
                    json_field_is_true(end, "oomKilled");
  cJSON_Delete(tree);
  return self;
}

void outcome_say(struct program *program, const char *id, const struct outcome *outcome) {
  struct buffer text = {0};
  if (!program->terminal.is_tty[1] && !outcome->was_ended)
    return;
  buffer_add_format(&text, "%s %s %s", outcome->code == 0 ? "✓" : "✗", id, outcome->text);
  if (outcome->seconds >= 0)
    buffer_add_format(&text, " after %s", figure_elapsed(outcome->seconds).text);
  if (outcome->cpu_seconds >= 0)
    buffer_add_format(&text, ", %s CPU", figure_elapsed(outcome->cpu_seconds).text);
  if (outcome->max_rss_bytes >= 0)
    buffer_add_format(&text, ", %.0f MiB", outcome->max_rss_bytes / (1024 * 1024));
  buffer_add_string(&text, outcome->notes);
  terminal_say(&program->terminal, outcome->code == 0 ? COLOR_GREEN : COLOR_RED, "%.*s",
               (int)text.length, text.bytes);
  buffer_release(&text);
}
