#include "client/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/error_reply.h"
#include "base/clock.h"
#include "base/printable.h"
#include "client/exit_code.h"
#include "client/redis/job.h"
#include "client/screen/figure.h"

/* --- findings --------------------------------------------------------------------------------- */

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
  (void)fwrite(line.bytes, 1, line.length, stdout);
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

void doctor_find(struct doctor *self, enum finding finding, const char *fix, const char *format,
                 ...) {
  char text[1024];
  va_list arguments;
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

/* --- questions -------------------------------------------------------------------------------- */

struct doctor_query {
  struct doctor *doctor;
  reply_handler *take;
  void *owner;
  enum { QUESTION_OPEN, QUESTION_LOST, QUESTION_REFUSED, QUESTION_ANSWERED } state;
};

static void take_answer(void *context, const redisReply *reply) {
  struct doctor_query *self = context;
  struct doctor *doctor = self->doctor;
  if (reply == NULL) {
    self->state = QUESTION_LOST;
  } else if (reply->type == REDIS_REPLY_ERROR) {
    (void)snprintf(doctor->refusal, sizeof doctor->refusal, "%s", reply->str);
    self->state = QUESTION_REFUSED;
  } else {
    self->take(self->owner, reply);
    self->state = QUESTION_ANSWERED;
  }
}

/* Before it has answered at all the first failure says enough. */
static bool is_lost(const struct doctor_query *self) {
  const struct pipeline *redis = self->doctor->program->redis;
  return pipeline_has_failed(redis) ||
         (!self->doctor->has_answered &&
          (self->state == QUESTION_LOST || pipeline_is_unreachable(redis)));
}

enum answer doctor_ask(struct doctor *self, const char *const *words, reply_handler *take,
                       void *owner) {
  struct pipeline *redis = self->program->redis;
  struct doctor_query question = {.doctor = self, .take = take, .owner = owner};
  const int64_t end_ms = clock_monotonic_ms() + DOCTOR_PATIENCE_MS;
  if (self->is_gone)
    return ANSWER_LOST;
  pipeline_send(redis, words, take_answer, &question);
  while (question.state <= QUESTION_LOST && !is_lost(&question) && clock_monotonic_ms() < end_ms) {
    pipeline_turn(redis);
    if (question.state == QUESTION_LOST && !is_lost(&question)) {
      question.state = QUESTION_OPEN;
      pipeline_send(redis, words, take_answer, &question);
    }
  }
  if (question.state <= QUESTION_LOST) {
    doctor_find_no_connection(self);
    return ANSWER_LOST;
  }
  self->has_answered = true;
  return question.state == QUESTION_REFUSED ? ANSWER_REFUSED : ANSWER_GIVEN;
}

bool doctor_is_denied(const struct doctor *self, bool *of_key) {
  *of_key = strstr(self->refusal, "access") != NULL && strstr(self->refusal, "key") != NULL;
  return strncmp(self->refusal, "NOPERM", 6) == 0;
}

bool doctor_learn(struct doctor *self, const char *const *words, reply_handler *take, void *owner) {
  const enum answer answer = doctor_ask(self, words, take, owner);
  bool of_key;
  if (answer != ANSWER_REFUSED || !doctor_is_denied(self, &of_key) || of_key)
    return answer == ANSWER_GIVEN;
  struct buffer rule = {0};
  buffer_add_string(&rule, " +");
  for (const char *letter = words[0]; *letter != '\0'; letter++) {
    const char lower = *letter >= 'A' && *letter <= 'Z' ? (char)(*letter | 0x20) : *letter;
    buffer_add(&rule, &lower, 1);
  }
  if (self->refused.length == 0 ||
      memmem(self->refused.bytes, self->refused.length, rule.bytes, rule.length) == NULL)
    buffer_add(&self->refused, rule.bytes, rule.length);
  buffer_release(&rule);
  return false;
}

static void find_refused(struct doctor *self) {
  struct buffer fix = {0};
  if (self->refused.length == 0)
    return;
  buffer_add_string(&fix, "ACL SETUSER ");
  doctor_add_word(&fix, self->user);
  buffer_add(&fix, self->refused.bytes, self->refused.length);
  buffer_add(&fix, "", 1);
  doctor_find(self, FINDING_WARNING, fix.bytes,
              "not everything was looked at: that takes more rights");
  buffer_release(&fix);
}

/* --- the command ------------------------------------------------------------------------------ */

/* The job of -j, or the only one that is alive. */
static bool choose_job(struct doctor *self) {
  struct error error;
  if (job_choose(self->program, &error) == 0)
    return true;
  doctor_find(self, FINDING_WARNING, "sandbox -j JOB doctor", "no job was looked at: %s",
              error.text);
  return false;
}

static void print_sum(const struct doctor *self) {
  struct buffer line = {0};
  if (self->problems > 0)
    buffer_add_format(&line, "%zu problem%s", self->problems, self->problems == 1 ? "" : "s");
  if (self->warnings > 0)
    buffer_add_format(&line, "%s%zu warning%s", self->problems > 0 ? ", " : "", self->warnings,
                      self->warnings == 1 ? "" : "s");
  if (line.length > 0)
    (void)printf("%.*s\n", (int)line.length, line.bytes);
  buffer_release(&line);
}

static int doctor(struct program *program, int argc, char **argv) {
  struct doctor self = {.program = program};
  (void)argv;
  if (argc != 1)
    return program_usage(&doctor_command);
  if (doctor_look_at_connection(&self)) {
    doctor_look_at_server(&self);
    const bool has_agent = !self.is_gone && choose_job(&self) && doctor_look_at_job(&self);
    doctor_look_at_rights(&self, has_agent);
    find_refused(&self);
  }
  if (!program->json)
    print_sum(&self);
  buffer_release(&self.refused);
  free(self.info);
  return self.problems > 0 ? EXIT_FOUND : 0;
}

const struct command doctor_command = {.name = "doctor",
                                       .usage = "",
                                       .help = "what is wrong, and the command that repairs it",
                                       .run = doctor};
