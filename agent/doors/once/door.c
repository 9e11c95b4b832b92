#include "agent/doors/once/door.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/standard_io.h"
#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/kinds/kinds.h"
#include "agent/payload_limit.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "wire/json_extent.h"

#define EXIT_READER_GONE (AGENT_EXIT_SIGNAL + SIGPIPE)

/* The state of the step: read from standard input, run, answered. */
enum state { READING, RUNNING, ANSWERED };

struct once_door {
  struct door door; /* first */
  const struct log *log;
  struct standard_io *io;
  enum state state;
  struct buffer input;
  struct json_extent extent;
  int broken;   /* the exit code when standard output takes nothing more; else 0 */
  bool closing; /* close() waits until everything is written */
};

static struct once_door *self_of(struct door *door) {
  return (struct once_door *)door;
}

static const struct once_door *const_self_of(const struct door *door) {
  return (const struct once_door *)door;
}

/* --- output ---------------------------------------------------------------------------------- */

static size_t unwritten(const struct once_door *self) {
  return standard_io_unwritten(self->io);
}

static void close_when_written(struct once_door *self) {
  if (self->closing && (self->broken != 0 || unwritten(self) == 0)) {
    self->closing = false;
    engine_door_closed(&self->door, self->broken);
  }
}

/* The step has no reader any more: it ends, like a command whose pipe is closed. */
static void on_broken(void *owner, int error) {
  struct once_door *self = owner;
  const char *reason = "a closed standard output";
  self->broken = EXIT_READER_GONE;
  if (error != EPIPE) {
    log_line(self->log, LOG_ERROR, NULL, "cannot write to standard output: %s", strerror(error));
    reason = "an error of standard output";
    self->broken = AGENT_EXIT_ERROR;
  }
  engine_leave(&self->door, self->broken, reason);
  close_when_written(self);
}

static void on_written(void *owner) {
  struct once_door *self = owner;
  if (unwritten(self) < ONCE_DOOR_HOLD_BYTES / 2)
    engine_room(&self->door);
  close_when_written(self);
}

static size_t room(const struct door *door) {
  const struct once_door *self = const_self_of(door);
  size_t held = unwritten(self);
  if (held == 0 || self->broken != 0)
    return SIZE_MAX;
  return held < ONCE_DOOR_HOLD_BYTES ? ONCE_DOOR_HOLD_BYTES - held : 0;
}

static void put_event(struct once_door *self, const struct step_event *event) {
  size_t length = step_event_length(event);
  *step_event_write(event, standard_io_space(self->io, length + 1)) = '\n';
}

static void put_result(struct once_door *self, const struct step_result *result) {
  size_t length = step_result_length(result);
  *step_result_write(result, standard_io_space(self->io, length + 1)) = '\n';
}

static void event(struct door *door, const struct run *run, const struct step_event *event) {
  (void)run;
  put_event(self_of(door), event);
}

static void flush(struct door *door) {
  standard_io_flush(self_of(door)->io);
}

/* --- the answer ------------------------------------------------------------------------------ */

static void leave(struct once_door *self, int exit_code) {
  self->state = ANSWERED;
  engine_leave(&self->door, exit_code, "the end of its step");
}

static void result(struct door *door, const struct run *run, const struct step_event *completed,
                   const struct step_result *result) {
  struct once_door *self = self_of(door);
  (void)run;
  put_event(self, completed);
  put_result(self, result);
  int code = result->exit_code >= 0 ? result->exit_code : ONCE_DOOR_EXIT_REFUSED;
  leave(self, result->timed_out ? ONCE_DOOR_EXIT_TIMED_OUT : code);
}

static void refuse(struct once_door *self, int schema_version, const char *step_id,
                   const char *reason) {
  struct step_result result = step_result_of_agent(schema_version, step_id, reason);
  put_result(self, &result);
  standard_io_flush(self->io);
  leave(self, ONCE_DOOR_EXIT_REFUSED);
}

/* --- input ----------------------------------------------------------------------------------- */

static void submit(struct once_door *self) {
  struct error error;
  struct request request = {0};
  const char *bytes = self->input.length > 0 ? self->input.bytes : "";
  self->state = RUNNING;
  if (self->input.length > payload_limit()) {
    payload_limit_error(&error);
    refuse(self, STEP_VERSION_OLDEST, STEP_NIL_ID, error.text);
  } else if (step_parse(&request.step, kinds, bytes, self->input.length, &error) != 0) {
    refuse(self, step_answer_version(&request.step), request.step.step_id, error.text);
  } else if (!step_is_work(&request.step)) {
    (void)error_set(&error, "kind: %s has no meaning with --once", request.step.kind->name);
    refuse(self, step_answer_version(&request.step), request.step.step_id, error.text);
  } else {
    buffer_release(&self->input);
    engine_submit(&self->door, &request);
  }
  step_release(&request.step);
  buffer_release(&self->input);
}

static void on_input_ended(void *owner) {
  submit(owner);
}

static void on_input(void *owner, const char *bytes, size_t length) {
  struct once_door *self = owner;
  size_t taken;
  bool complete = json_extent_take(&self->extent, bytes, length, &taken);
  buffer_add(&self->input, bytes, taken);
  if (complete || self->input.length > payload_limit()) {
    standard_io_read(self->io, false);
    submit(self);
  }
}

static void want(struct door *door, unsigned requests) {
  struct once_door *self = self_of(door);
  standard_io_read(self->io, requests > 0 && self->state == READING);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void begin(struct door *door, struct run *run) {
  standard_io_flush(self_of(door)->io);
  engine_start(run);
}

static void close_door(struct door *door, enum door_close how) {
  struct once_door *self = self_of(door);
  if (how == DOOR_CLOSE_NOW) {
    if (self->broken == 0 && unwritten(self) > 0) {
      log_line(self->log, LOG_ERROR, NULL, "%zu bytes of output were not read", unwritten(self));
      self->broken = EXIT_READER_GONE;
    }
    self->closing = false;
    engine_door_closed(door, self->broken);
    return;
  }
  self->closing = true;
  close_when_written(self);
}

static void dump(const struct door *door) {
  static const char *const states[] = {"reads a step", "runs its step", "has answered"};
  const struct once_door *self = const_self_of(door);
  log_line(self->log, LOG_WARN, NULL, "state: door once: %s, %zu bytes not written",
           states[self->state], unwritten(self));
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
  static const struct standard_io_handler handler = {
      .input = on_input, .input_ended = on_input_ended, .written = on_written, .broken = on_broken};
  struct once_door *self = memory_allocate(sizeof *self);
  *self = (struct once_door){.door = {.type = &once_door_type, .terms = DOOR_TERMS_OF_PROTOCOL},
                             .log = log};
  self->io = standard_io_new(base, &handler, self);
  return &self->door;
}

void once_door_free(struct door *door) {
  struct once_door *self = self_of(door);
  standard_io_free(self->io);
  buffer_release(&self->input);
  free(self);
}
