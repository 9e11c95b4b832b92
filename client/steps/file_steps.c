#include "client/steps/file_steps.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "client/exit_code.h"
#include "client/redis/json_field.h"
#include "wire/json.h"

static void on_event(void *owner, const struct event_view *view, uint64_t missed) {
  struct file_steps *self = owner;
  (void)missed;
  if (view->kind != STEP_EVENT_STDERR)
    return;
  buffer_add(&self->notes, view->line, view->line_length);
  if (!view->partial)
    buffer_add_string(&self->notes, "\n");
}

static const struct exchange_handler handler = {.event = on_event};

int file_steps_begin(struct file_steps *self, struct program *program) {
  struct error error;
  *self = (struct file_steps){.program = program};
  exchange_begin(&self->exchange, program, &handler, self);
  int result = program->access->read_agent(program, &self->agent, &error);
  if (result == 0 && !self->agent.is_alive)
    result = error_set(&error, "no agent for %.100s: no heartbeat", program->job);
  if (result == 0)
    return 0;
  terminal_error(&program->terminal, "%s", error.text);
  exchange_end(&self->exchange);
  job_agent_release(&self->agent);
  return EXIT_CLIENT;
}

static void release_answer(struct file_steps *self) {
  free(self->answer.content);
  free(self->answer.raw);
  free(self->answer.message);
  self->answer = (struct file_answer){.code = EXIT_CLIENT};
}

int file_steps_end(struct file_steps *self, int code) {
  if (code != 0 && self->exchange.first_signal != 0)
    code = 128 + self->exchange.first_signal;
  terminal_status(&self->program->terminal, "");
  exchange_end(&self->exchange);
  job_agent_release(&self->agent);
  buffer_release(&self->json);
  buffer_release(&self->notes);
  release_answer(self);
  return code;
}

bool file_steps_can(const struct file_steps *self, const char *feature) {
  return job_agent_can(&self->agent, feature);
}

bool file_steps_require(struct file_steps *self, const char *feature) {
  bool can = file_steps_can(self, feature);
  if (!can)
    terminal_error(&self->program->terminal, "needs an agent with %s", feature);
  return can;
}

void file_steps_new(struct file_steps *self, const char *kind) {
  release_answer(self);
  self->json.length = 0;
  step_id_make(self->id);
  step_text_begin(&self->json, self->id, kind);
}

bool file_steps_add(struct file_steps *self, const char *name, const char *text) {
  const size_t length = strlen(text);
  bool is_text = utf8_valid_prefix(text, length) == length;
  if (is_text)
    step_text_string(&self->json, name, text);
  else
    file_steps_error(self, "not UTF-8: %s", text);
  return is_text;
}

static void read_result(struct file_answer *answer, const char *result) {
  struct error ignored;
  struct json_member raw;
  const size_t length = strlen(result);
  cJSON *tree = json_tree_parse(result, length, &ignored);
  answer->has_result = true;
  if (json_member_find(result, length, "outputContent", &raw))
    answer->raw = memory_copy(raw.text, raw.length);
  cJSON *content = cJSON_GetObjectItemCaseSensitive(tree, "outputContent");
  if (cJSON_IsString(content)) {
    answer->length = json_tree_unmark_nul(content->valuestring);
    answer->content = memory_copy(content->valuestring, answer->length);
  }
  const char *message = json_field_text(tree, "errorMessage", NULL);
  answer->message = message != NULL ? memory_copy(message, strlen(message)) : NULL;
  cJSON_Delete(tree);
}

int file_steps_do(struct file_steps *self) {
  struct file_answer *answer = &self->answer;
  struct exchange *exchange = &self->exchange;
  self->notes.length = 0;
  step_text_end(&self->json);
  answer->code = exchange_step(exchange, self->id, self->json.bytes);
  self->is_lost |= answer->code >= 0 && (exchange->first_signal == 0 || exchange->interrupts >= 3);
  if (answer->code >= 0)
    return answer->code;
  answer->code = exchange->outcome.code;
  if (exchange->result != NULL)
    read_result(answer, exchange->result);
  if (answer->code != 0 && answer->message == NULL)
    answer->message = memory_copy(exchange->outcome.text, strlen(exchange->outcome.text));
  return answer->code;
}

void file_steps_error(struct file_steps *self, const char *format, ...) {
  struct terminal *terminal = &self->program->terminal;
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0)
    memory_exhausted("a message");
  (void)terminal_flush(terminal);
  (void)terminal_put(terminal, true, "sandbox: ", 9);
  (void)terminal_put(terminal, true, text, (size_t)length);
  (void)terminal_put(terminal, true, "\n", 1);
  (void)terminal_flush(terminal);
  free(text);
}

void file_steps_complain(struct file_steps *self) {
  const bool is_cancelled = self->exchange.first_signal != 0; /* the user knows */
  if (self->answer.code != 0 && self->answer.message != NULL && !is_cancelled)
    file_steps_error(self, "%s", self->answer.message);
}

void file_steps_show_notes(struct file_steps *self) {
  struct terminal *terminal = &self->program->terminal;
  if (self->notes.length == 0)
    return;
  (void)terminal_flush(terminal);
  (void)terminal_put(terminal, true, self->notes.bytes, self->notes.length);
  (void)terminal_flush(terminal);
}
