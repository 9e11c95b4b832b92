#include "agent/frontends/stdio/stdio_call.h"

#include <string.h>

#include "base/clock.h"

/* The answer to a call that was cancelled. */
#define CANCELLED TOOL_ERROR "cancelled"

struct stdio_call *stdio_call_of(struct call *call) {
  return (struct stdio_call *)call;
}

bool stdio_control_answer(struct calls *calls, const struct stdio_request *request,
                          const struct tool *tool, const char *version, struct buffer *out) {
  switch (request->method) {
  case STDIO_INFO:
    stdio_answer_info(out, &request->from, tool, &calls->settings, version);
    return true;
  case STDIO_PING:
    stdio_answer_json(out, &request->from, "{}");
    return true;
  case STDIO_CANCEL:
    /* This answer comes before those of the calls. */
    stdio_answer_json(out, &request->from,
                      call_ids_find(&calls->ids, NULL, request->cancelled) != NULL
                          ? "{\"cancelled\":true}"
                          : "{\"cancelled\":false}");
    calls_cancel(calls, NULL, request->cancelled);
    return true;
  default:
    return false;
  }
}

/* Sets the text of an invalid request. */
static void set_error(struct stdio_call *self, const struct calls *calls,
                      const struct stdio_request *request) {
  struct error error = request->error;
  self->code = self->dialect != STDIO_RUNNER ? request->code : 0;
  mask_string(calls->settings.masker, error.text, false);
  buffer_add_string(&self->text, self->code != 0 ? "" : TOOL_ERROR);
  buffer_add_string(&self->text, error.text);
}

struct stdio_call *stdio_call_new(struct calls *calls, const struct stdio_request *request,
                                  size_t bytes) {
  struct call *call = calls_make(sizeof(struct stdio_call), request->from.id, bytes);
  struct stdio_call *self = stdio_call_of(call);
  self->dialect = request->from.dialect;
  call->reports = request->wants_progress && self->dialect == STDIO_PLAIN;
  self->is_shutdown = request->method == STDIO_SHUTDOWN;
  if (request->method == STDIO_CALL)
    (void)calls_make_step(calls, call, request->tool, request->arguments, &self->text);
  else if (request->method == STDIO_INVALID)
    set_error(self, calls, request);
  return self;
}

int64_t stdio_deadline_ms(unsigned seconds, enum stdio_dialect dialect) {
  if (seconds == 0 && dialect != STDIO_PLAIN)
    seconds = STDIO_DEADLINE_SECONDS;
  return (int64_t)seconds * 1000;
}

void stdio_call_set_deadline(struct stdio_call *self, unsigned seconds) {
  int64_t left_ms = stdio_deadline_ms(seconds, self->dialect);
  self->call.deadline_ms = left_ms > 0 ? self->call.arrived_ms + left_ms : 0;
}

void stdio_call_release(struct calls *calls, struct call *call) {
  (void)calls;
  buffer_release(&stdio_call_of(call)->text);
}

bool stdio_call_answer(const struct stdio_call *self, const struct execution_result *end,
                       struct buffer *out) {
  const struct stdio_address to = {.dialect = self->dialect, .id = self->call.id};
  const struct buffer *text = &self->text;
  if (self->is_shutdown)
    stdio_answer_json(out, &to, "null");
  else if (self->code != 0)
    stdio_answer_error(out, &to, self->code, text->bytes, text->length);
  else if (self->call.tool == NULL)
    stdio_answer_refusal(out, &to, text->bytes, text->length);
  else if (end == NULL || end->outcome == EXECUTION_STOPPED)
    stdio_answer_refusal(out, &to, CANCELLED, strlen(CANCELLED));
  else
    return stdio_answer_result(out, &to, self->call.tool, end);
  return true;
}

void stdio_call_report(const struct stdio_call *self, const char *line, size_t length,
                       struct buffer *out) {
  const struct stdio_address to = {.dialect = self->dialect, .id = self->call.id};
  if (self->call.execution == NULL)
    return;
  int64_t elapsed_ms = clock_monotonic_ms() - self->call.begun_ms;
  int64_t percent = elapsed_ms / (10 * (int64_t)self->call.tool->timeout);
  stdio_answer_progress(out, &to, percent < 99 ? (unsigned)percent : 99, line, length);
}
