#include "agent/frontends/once/frontend.h"

#include <signal.h>
#include <stdlib.h>

#include "agent/engine/engine.h"
#include "agent/engine/secrets.h"
#include "agent/exit_code.h"
#include "agent/frontends/stdio_channel.h"
#include "agent/kinds/kind.h"
#include "agent/payload_limit.h"
#include "base/memory.h"

/* The state of the step. */
enum once_state { READING, RUNNING, ANSWERED };

struct once_frontend {
  struct frontend frontend; /* first */
  struct stdio_channel stdio_channel;
  enum once_state state;
};

static struct once_frontend *self_of(struct frontend *frontend) {
  return (struct once_frontend *)frontend;
}

static size_t capacity(const struct frontend *frontend) {
  const struct once_frontend *self = (const struct once_frontend *)frontend;
  size_t held = stdio_channel_unread(&self->stdio_channel);
  if (held == 0)
    return SIZE_MAX;
  return held < ONCE_FRONTEND_HOLD_BYTES ? ONCE_FRONTEND_HOLD_BYTES - held : 0;
}

static void go_on(struct frontend *frontend) {
  struct once_frontend *self = self_of(frontend);
  if (stdio_channel_unread(&self->stdio_channel) < ONCE_FRONTEND_HOLD_BYTES / 2)
    engine_capacity_freed(frontend);
}

static void write_event(struct once_frontend *self, const struct step_event *event) {
  size_t length = step_event_length(event);
  *step_event_write(event, stdio_channel_space(&self->stdio_channel, length + 1)) = '\n';
}

static void write_result(struct once_frontend *self, const struct step_result *result) {
  size_t length = step_result_length(result);
  *step_result_write(result, stdio_channel_space(&self->stdio_channel, length + 1)) = '\n';
}

static void event(struct frontend *frontend, const struct execution *execution,
                  const struct step_event *event) {
  (void)execution;
  write_event(self_of(frontend), event);
}

static void flush(struct frontend *frontend) {
  stdio_channel_flush(&self_of(frontend)->stdio_channel);
}

static void leave_answered(struct once_frontend *self, int exit_code) {
  self->state = ANSWERED;
  engine_leave(&self->frontend, exit_code, "the end of its step");
}

static void result(struct frontend *frontend, const struct execution *execution,
                   const struct execution_result *end) {
  struct once_frontend *self = self_of(frontend);
  struct step_end answer;
  execution_step_end(execution, end, &answer);
  write_event(self, &answer.completed);
  write_result(self, &answer.result);
  int code = execution_result_was_executed(end) ? end->exit_code : ONCE_FRONTEND_EXIT_REFUSED;
  leave_answered(self, end->outcome == EXECUTION_TIMED_OUT ? ONCE_FRONTEND_EXIT_TIMED_OUT : code);
}

/* Answers a step that was parsed, or is all zeros. */
static void refuse_step(struct once_frontend *self, const struct step *step,
                        const struct error *reason) {
  struct step_result result = step_result_of_agent(
      step->step_id != NULL ? step_answer_version(step) : STEP_VERSION_OLDEST,
      step->step_id != NULL ? step->step_id : STEP_NIL_ID, STEP_CAUSE_REFUSED, reason->text);
  write_result(self, &result);
  stdio_channel_flush(&self->stdio_channel);
  leave_answered(self, ONCE_FRONTEND_EXIT_REFUSED);
}

static void handle_value(struct frontend *frontend, const char *bytes, size_t length) {
  struct once_frontend *self = self_of(frontend);
  struct error error;
  struct request request = {0};
  int refused = -1;
  self->state = RUNNING;
  if (length > payload_limit()) {
    payload_limit_error(&error);
  } else {
    refused = step_parse(&request.step, kinds, bytes, length, &error);
    if (refused == 0)
      refused = secrets_check(&request.step, &error);
    if (refused == 0 && !step_is_work(&request.step))
      refused = error_set(&error, "kind: %s has no meaning with --once", request.step.kind->name);
  }
  if (refused == 0) {
    engine_submit(frontend, &request);
  } else {
    engine_mask_rejected(frontend, bytes, length <= payload_limit() ? length : 0, &error);
    refuse_step(self, &request.step, &error);
  }
  step_release(&request.step);
}

static void want(struct frontend *frontend, unsigned requests) {
  struct once_frontend *self = self_of(frontend);
  if (requests > 0 && self->state == READING)
    stdio_channel_go_on(&self->stdio_channel);
  else
    stdio_channel_stop(&self->stdio_channel);
}

static void begin(struct frontend *frontend, struct execution *execution) {
  flush(frontend);
  engine_start(execution);
}

static void close_frontend(struct frontend *frontend, enum frontend_close how) {
  stdio_channel_close(&self_of(frontend)->stdio_channel, how, -1);
}

static void dump(const struct frontend *frontend) {
  static const char *const states[] = {"reads a step", "runs its step", "has answered"};
  const struct once_frontend *self = (const struct once_frontend *)frontend;
  log_line(self->stdio_channel.log, LOG_WARN, NULL, "state: frontend once: %s, %zu bytes not read",
           states[self->state], stdio_channel_unread(&self->stdio_channel));
}

static void free_frontend(struct frontend *frontend) {
  struct once_frontend *self = self_of(frontend);
  stdio_channel_release(&self->stdio_channel);
  free(self);
}

static const struct frontend_type once_frontend_type = {.name = "once",
                                                        .want = want,
                                                        .begin = begin,
                                                        .capacity = capacity,
                                                        .event = event,
                                                        .flush = flush,
                                                        .result = result,
                                                        .close = close_frontend,
                                                        .dump = dump,
                                                        .free = free_frontend};

struct frontend *once_frontend_new(struct event_base *base, const struct log *log) {
  static const struct stdio_channel_type stdio_channel_type = {
      .value = handle_value, .go_on = go_on, .gone = AGENT_EXIT_SIGNAL + SIGPIPE};
  struct once_frontend *self = memory_allocate(sizeof *self);
  *self = (struct once_frontend){
      .frontend = {.type = &once_frontend_type, .terms = FRONTEND_TERMS_OF_PROTOCOL}};
  stdio_channel_init(&self->stdio_channel, base, log, &self->frontend, &stdio_channel_type);
  return &self->frontend;
}
