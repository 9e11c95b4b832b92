#include "client/steps/outcome.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "client/exit_code.h"
#include "wire/json.h"

static double number_of(const cJSON *object, const char *name, double fallback) {
  const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(number) ? number->valuedouble : fallback;
}

static const char *text_of(const cJSON *object, const char *name) {
  const cJSON *text = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsString(text) ? text->valuestring : "";
}

static bool is_true(const cJSON *object, const char *name) {
  return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}

/* A step that was not executed has no code of its own; why not is in the message alone. */
static int code_of_not_started(const char *message) {
  if (strstr(message, "working directory") != NULL)
    return EXIT_CLIENT;
  if (strstr(message, "not found") != NULL || strstr(message, "no such file") != NULL)
    return EXIT_NOT_FOUND;
  return strstr(message, "cannot run") != NULL ? EXIT_NOT_EXECUTABLE : EXIT_CLIENT;
}

/* The first line, as it fits. */
static void set_message(struct outcome *self, const char *message) {
  (void)snprintf(self->what, sizeof self->what, "%.*s", (int)strcspn(message, "\n"), message);
}

/* Of an exit code of -1. */
static void explain(struct outcome *self, const cJSON *result, bool was_cancelled) {
  const char *message = text_of(result, "errorMessage");
  const char *cause = text_of(cJSON_GetObjectItemCaseSensitive(result, "end"), "cause");
  bool is_cancelled = strncmp(message, "cancelled", 9) == 0 || (result == NULL && was_cancelled);
  self->code = strcmp(cause, "notStarted") == 0 || cause[0] == '\0' ? code_of_not_started(message)
                                                                    : EXIT_CLIENT;
  if (is_cancelled)
    self->code = EXIT_CANCELLED;
  set_message(self, message[0] != '\0' ? message : is_cancelled ? "cancelled" : "not run");
}

struct outcome outcome_make(const char *result, int exit_code, bool timed_out, bool was_cancelled) {
  struct outcome self = {.code = exit_code, .is_known = result != NULL};
  struct error ignored;
  cJSON *tree = result != NULL ? json_tree_parse(result, strlen(result), &ignored) : NULL;
  const cJSON *end = cJSON_GetObjectItemCaseSensitive(tree, "end");
  if (tree != NULL) {
    self.code = (int)number_of(tree, "exitCode", -1);
    timed_out = is_true(tree, "timedOut");
  }
  self.seconds = number_of(tree, "durationSeconds", -1);
  self.max_rss_bytes = number_of(end, "maxRssBytes", -1);
  self.cpu_seconds = number_of(end, "userCpuSeconds", -1);
  if (self.cpu_seconds >= 0)
    self.cpu_seconds += number_of(end, "systemCpuSeconds", 0);
  self.was_cut = is_true(tree, "outputTruncated");
  self.is_oom = is_true(end, "oomKilled");
  const char *signal_name = text_of(end, "signalName");
  if (self.code > 255) /* of no process: exit(3) would make another one of it, as 0 of 256 */
    self.code = -1;
  if (timed_out) {
    self.code = EXIT_TIMED_OUT;
    (void)snprintf(self.what, sizeof self.what, "timed out");
  } else if (self.code < 0) {
    explain(&self, tree, was_cancelled);
  } else if (signal_name[0] != '\0') {
    (void)snprintf(self.what, sizeof self.what, "killed by %s", signal_name);
  } else {
    (void)snprintf(self.what, sizeof self.what, "exit %d", self.code);
  }
  cJSON_Delete(tree);
  return self;
}

/* 12.4s, 4m12s, 3h05m */
static void add_duration(struct buffer *out, double seconds) {
  const unsigned whole = (unsigned)seconds;
  if (seconds < 60)
    buffer_add_format(out, "%.1fs", seconds);
  else if (whole < 3600)
    buffer_add_format(out, "%um%02us", whole / 60, whole % 60);
  else
    buffer_add_format(out, "%uh%02um", whole / 3600, whole / 60 % 60);
}

void outcome_say(struct program *program, const char *id, const struct outcome *outcome) {
  struct buffer text = {0};
  if (!program->terminal.err_is_tty || program->terminal.quiet)
    return;
  buffer_add_format(&text, "%s %s %s", outcome->code == 0 ? "✓" : "✗", id, outcome->what);
  if (outcome->seconds >= 0) {
    buffer_add_string(&text, " after ");
    add_duration(&text, outcome->seconds);
  }
  if (outcome->cpu_seconds >= 0) {
    buffer_add_string(&text, ", ");
    add_duration(&text, outcome->cpu_seconds);
    buffer_add_string(&text, " CPU");
  }
  if (outcome->max_rss_bytes >= 0)
    buffer_add_format(&text, ", %.0f MiB", outcome->max_rss_bytes / (1024 * 1024));
  buffer_add_string(&text, outcome->is_oom ? ", out of memory" : "");
  buffer_add_string(&text, outcome->was_cut ? ", output was cut" : "");
  terminal_say(&program->terminal, outcome->code == 0 ? COLOR_GREEN : COLOR_RED, "%.*s",
               (int)text.length, text.bytes);
  buffer_release(&text);
}
