#include "agent/doors/once/door.h"

#include <signal.h>
#include <stdlib.h>

#include "agent/doors/speaker.h"
#include "agent/engine/engine.h"
#include "agent/engine/secrets.h"
#include "agent/exit_code.h"
#include "agent/kinds/kind.h"
#include "agent/payload_limit.h"
#include "base/memory.h"

/* The state of the step: read from standard input, run, answered. */
enum state { READING, RUNNING, ANSWERED };

struct once_door {
  struct door door; /* first */
  struct speaker speaker;
  enum state state;
};

static struct once_door *self_of(struct door *door) {
  return (struct once_door *)door;
}

/* --- output ---------------------------------------------------------------------------------- */

static size_t room(const struct door *door) {
  const struct once_door *self = (const struct once_door *)door;
  size_t held = speaker_unread(&self->speaker);
  if (held == 0)
    return SIZE_MAX;
  return held < ONCE_DOOR_HOLD_BYTES ? ONCE_DOOR_HOLD_BYTES - held : 0;
}

static void go_on(struct door *door) {
  struct once_door *self = self_of(door);
  if (speaker_unread(&self->speaker) < ONCE_DOOR_HOLD_BYTES / 2)
    engine_room(door);
}

static void put_event(struct once_door *self, const struct step_event *event) {
  size_t length = step_event_length(event);
  *step_event_write(event, speaker_space(&self->speaker, length + 1)) = '\n';
}

static void put_result(struct once_door *self, const struct step_result *result) {
  size_t length = step_result_length(result);
  *step_result_write(result, speaker_space(&self->speaker, length + 1)) = '\n';
}

static void event(struct door *door, const struct run *run, const struct step_event *event) {
  (void)run;
  put_event(self_of(door), event);
}

static void flush(struct door *door) {
  speaker_flush(&self_of(door)->speaker);
}

/* --- the answer ------------------------------------------------------------------------------ */

static void leave_answered(struct once_door *self, int exit_code) {
  self->state = ANSWERED;
  engine_leave(&self->door, exit_code, "the end of its step");
}

static void result(struct door *door, const struct run *run, const struct run_end *end) {
  struct once_door *self = self_of(door);
  struct step_end answer;
  run_step_end(run, end, &answer);
  put_event(self, &answer.completed);
  put_result(self, &answer.result);
  int code = run_end_has_code(end) ? end->exit_code : ONCE_DOOR_EXIT_REFUSED;
  leave_answered(self, end->how == RUN_TIMED_OUT ? ONCE_DOOR_EXIT_TIMED_OUT : code);
}

/* The step was parsed, or is all zeros. */
static void refuse_step(struct once_door *self, const struct step *step,
                        const struct error *reason) {
  struct step_result result = step_result_of_agent(
      step->step_id != NULL ? step_answer_version(step) : STEP_VERSION_OLDEST,
      step->step_id != NULL ? step->step_id : STEP_NIL_ID, STEP_CAUSE_REFUSED, reason->text);
  put_result(self, &result);
  speaker_flush(&self->speaker);
  leave_answered(self, ONCE_DOOR_EXIT_REFUSED);
}

/* --- input ----------------------------------------------------------------------------------- */

static void take_value(struct door *door, const char *bytes, size_t length) {
  struct once_door *self = self_of(door);
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
    engine_submit(door, &request);
  } else {
    engine_mask_rejected(door, bytes, length <= payload_limit() ? length : 0, &error);
    refuse_step(self, &request.step, &error);
  }
  step_release(&request.step);
}

static void want(struct door *door, unsigned requests) {
  struct once_door *self = self_of(door);
  if (requests > 0 && self->state == READING)
    speaker_go_on(&self->speaker);
  else
    speaker_stop(&self->speaker);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void begin(struct door *door, struct run *run) {
  flush(door);
  engine_start(run);
}

static void close_door(struct door *door, enum door_close how) {
  speaker_close(&self_of(door)->speaker, how, -1);
}

static void dump(const struct door *door) {
  static const char *const states[] = {"reads a step", "runs its step", "has answered"};
  const struct once_door *self = (const struct once_door *)door;
  log_line(self->speaker.log, LOG_WARN, NULL, "state: door once: %s, %zu bytes not read",
           states[self->state], speaker_unread(&self->speaker));
}

static const struct door_type once_door_type = {.name = "once",
                                                .want = want,
                                                .begin = begin,
                                                .room = room,
                                                .event = event,
                                                .flush = flush,
                                                .result = result,
                                                .close = close_door,
                                                .dump = dump};

struct door *once_door_new(struct event_base *base, const struct log *log) {
  static const struct speaker_type speaker_type = {
      .value = take_value, .go_on = go_on, .gone = AGENT_EXIT_SIGNAL + SIGPIPE};
  struct once_door *self = memory_allocate(sizeof *self);
  *self = (struct once_door){.door = {.type = &once_door_type, .terms = DOOR_TERMS_OF_PROTOCOL}};
  speaker_init(&self->speaker, base, log, &self->door, &speaker_type);
  return &self->door;
}

void once_door_free(struct door *door) {
  struct once_door *self = self_of(door);
  speaker_release(&self->speaker);
  free(self);
}
