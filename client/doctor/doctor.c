#include "client/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/printable.h"
#include "client/screen/figure.h"

/* If clocks differ by more, timestamps are hard to compare. */
#define CLOCKS_MS 2000

static void print_json(struct terminal *terminal, enum finding finding, const char *text,
                       const char *fix) {
  static const char *const levels[] = {"ok", "warning", "problem"};
  struct buffer json = {0};
  buffer_add_string(&json, "{");
  figure_add_json_text(&json, "level", levels[finding]);
  figure_add_json_text(&json, "text", text);
  figure_add_json_text(&json, "fix", fix);
  buffer_add_string(&json, "}");
  (void)terminal_put_json(terminal, json.bytes, json.length);
  buffer_release(&json);
}

static void print_text(struct terminal *terminal, enum finding finding, const char *text,
                       const char *fix) {
  static const char *const marks[] = {"✓", "!", "✗"};
  static const enum terminal_color colors[] = {COLOR_GREEN, COLOR_YELLOW, COLOR_RED};
  struct buffer line = {0};
  buffer_add_format(&line, "%s%s%s ", terminal_color(terminal, false, colors[finding]),
                    marks[finding], terminal_color(terminal, false, COLOR_NONE));
  printable_add(&line, text, strlen(text));
  if (fix != NULL) {
    buffer_add_string(&line, "   → ");
    printable_add(&line, fix, strlen(fix));
  }
  buffer_add_string(&line, "\n");
  (void)terminal_put(terminal, false, line.bytes, line.length);
  buffer_release(&line);
}

void doctor_add_word(struct buffer *fix, const char *name) {
  static const char plain[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:{}-";
  if (name[strspn(name, plain)] == '\0') {
    buffer_add_string(fix, name);
    return;
  }
  buffer_add_string(fix, "'");
  for (const char *at = name; *at != '\0'; at++)
    if (*at == '\'')
      buffer_add_string(fix, "'\\''");
    else
      buffer_add(fix, at, 1);
  buffer_add_string(fix, "'");
}

struct buffer doctor_fix(const char *text, const char *name, const char *rest) {
  struct buffer fix = {0};
  buffer_add_string(&fix, text);
  doctor_add_word(&fix, name);
  buffer_add(&fix, rest, strlen(rest) + 1);
  return fix;
}

void doctor_add_rule(struct buffer *rules, const char *command) {
  buffer_add_string(rules, " +");
  for (const char *letter = command; *letter != '\0'; letter++) {
    const char lower = *letter >= 'A' && *letter <= 'Z' ? (char)(*letter | 0x20) : *letter;
    buffer_add(rules, &lower, 1);
  }
}

bool doctor_add_clock(struct buffer *text, const char *whose, int64_t ahead_ms) {
  const int64_t apart_ms = ahead_ms < 0 ? -ahead_ms : ahead_ms;
  buffer_add_format(text, "%s clock is %.1fs %s that of Redis", whose, (double)apart_ms / 1000,
                    ahead_ms < 0 ? "behind" : "ahead of");
  return apart_ms > CLOCKS_MS;
}

void doctor_report(struct doctor *self, enum finding finding, const char *fix, const char *format,
                   ...) {
  char text[1024];
  va_list arguments;
  if (self->is_gone)
    return;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  self->warnings += finding == FINDING_WARNING;
  self->problems += finding == FINDING_PROBLEM;
  if (self->program->json)
    print_json(&self->program->terminal, finding, text, fix);
  else
    print_text(&self->program->terminal, finding, text, fix);
  (void)terminal_flush(&self->program->terminal);
}

/* Until Redis has answered once, the first failure is enough. */
enum pipeline_answer doctor_query(struct doctor *self, const char *const *words,
                                  reply_handler *handler, void *owner) {
  struct pipeline *redis = self->program->redis;
  struct error error;
  const int64_t end_ms = clock_monotonic_ms() + DOCTOR_TIMEOUT_MS;
  enum pipeline_answer answer = PIPELINE_NO_ANSWER;
  if (self->is_gone)
    return answer;
  pipeline_fail_fast(redis, !self->has_answered);
  do
    answer = pipeline_ask(redis, words, handler, owner, end_ms - clock_monotonic_ms(), &error);
  while (answer == PIPELINE_LOST && self->has_answered);
  self->has_answered |= answer == PIPELINE_ANSWERED || answer == PIPELINE_REFUSED;
  if (answer == PIPELINE_REFUSED)
    (void)snprintf(self->refusal, sizeof self->refusal, "%s", error.text);
  else if (answer != PIPELINE_ANSWERED)
    doctor_report_no_connection(self, &error);
  return answer;
}

bool doctor_is_denied(const struct doctor *self) {
  return strncmp(self->refusal, "NOPERM", 6) == 0;
}

bool doctor_is_key_denied(const struct doctor *self) {
  return doctor_is_denied(self) && strstr(self->refusal, "access") != NULL &&
         strstr(self->refusal, "key") != NULL;
}

bool doctor_query_optional(struct doctor *self, const char *const *words, reply_handler *handler,
                           void *owner) {
  const enum pipeline_answer answer = doctor_query(self, words, handler, owner);
  if (answer != PIPELINE_REFUSED || !doctor_is_denied(self) || doctor_is_key_denied(self))
    return answer == PIPELINE_ANSWERED;
  struct buffer rule = {0};
  doctor_add_rule(&rule, words[0]);
  if (self->refused.length == 0 ||
      memmem(self->refused.bytes, self->refused.length, rule.bytes, rule.length) == NULL)
    buffer_add(&self->refused, rule.bytes, rule.length);
  buffer_release(&rule);
  return false;
}

void doctor_report_refused(struct doctor *self) {
  if (self->refused.length == 0)
    return;
  buffer_add(&self->refused, "", 1);
  struct buffer fix = doctor_fix("ACL SETUSER ", self->user, self->refused.bytes);
  doctor_report(self, FINDING_WARNING, fix.bytes,
                "some checks were skipped: they need more rights");
  buffer_release(&fix);
}
