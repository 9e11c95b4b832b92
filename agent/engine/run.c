#include "agent/engine/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/engine/batcher.h"
#include "agent/engine/capture.h"
#include "agent/engine/lines.h"
#include "agent/engine/outcome.h"
#include "agent/engine/raw_output.h"
#include "agent/engine/run_result.h"
#include "agent/kinds/kind.h"
#include "base/clock.h"
#include "base/json_string.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"

struct run {
  const struct run_context *context;
  struct door *door;
  void *ticket;
  struct step step;
  const char *payload; /* see struct request */
  size_t payload_length;
  char tag[128];
  enum run_state state;
  struct process *process; /* NULL: there is none, or none could be made */
  struct process_outcome outcome;
  struct line_splitter splitters[2];
  struct batcher batcher;
  uint64_t events; /* so far: the last one's seq */
  struct event *flush_timer;
  struct event *finishing; /* calls finish_or_wait from the loop */
  struct capture capture;
  struct raw_output *raw; /* of a command whose output is no events; else NULL */
  char *step_id_json;
  size_t step_id_json_length;
  int64_t made_ms; /* monotonic */
  int64_t now_ms;  /* UTC; read once per turn of the loop */
  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  bool was_stopped;   /* by run_stop */
  bool has_standby;   /* its process is the standby */
  bool paused;        /* the pipes are not read: the door has no room */
  bool ignores_room;  /* see run_ignore_room */
  struct error error; /* why it was not started, was stopped or was ended by a signal */
};

static void read_clock(struct run *self) {
  int64_t now_ms = clock_unix_ms();
  if (now_ms <= self->now_ms)
    return; /* within a step timestamps do not go back, even where the clock is set */
  self->now_ms = now_ms;
  step_event_timestamp(self->timestamp, now_ms);
}

static struct step_event make_event(struct run *self, enum step_event_kind kind,
                                    const struct line *line) {
  return (struct step_event){.schema_version = step_answer_version(&self->step),
                             .kind = kind,
                             .step_id = self->step_id_json,
                             .step_id_length = self->step_id_json_length,
                             .line = line->text,
                             .line_length = line->length,
                             .partial = line->partial,
                             .timestamp = self->timestamp,
                             .seq = ++self->events};
}

static void log_event(const struct run *self, const struct step_event *event) {
  static const char *const names[] = {"started", "stdout", "stderr", "completed"};
  if (self->context->log->least <= LOG_DEBUG)
    log_line(self->context->log, LOG_DEBUG, self->step.step_id, "%s: %.*s", names[event->kind],
             (int)event->line_length, event->line);
}

static void emit(struct run *self, enum step_event_kind kind, const struct line *line) {
  struct step_event event = make_event(self, kind, line);
  self->door->type->event(self->door, self, &event);
  log_event(self, &event);
  batcher_add(&self->batcher, self->now_ms);
}

static bool has_room(const struct run *self, size_t bytes) {
  return self->ignores_room || self->door->type->room(self->door) > bytes;
}

static void flush(struct run *self) {
  batcher_flushed(&self->batcher, self->now_ms);
  (void)evtimer_del(self->flush_timer);
  self->door->type->flush(self->door);
}

static void flush_when_due(struct run *self) {
  int64_t wait_ms = batcher_due_in_ms(&self->batcher, self->now_ms);
  if (wait_ms == 0) {
    flush(self);
  } else if (wait_ms > 0 && !evtimer_pending(self->flush_timer, NULL)) {
    loop_timer_start(self->flush_timer, wait_ms);
  }
}

static void on_flush_timer(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  read_clock(context);
  flush(context);
}

/* Hands on the lines that are there; false when the door has no room. */
static bool take_lines(struct run *self, enum process_stream stream) {
  struct line line;
  while (has_room(self, 0)) {
    if (!line_splitter_next(&self->splitters[stream], &line))
      return true;
    emit(self, stream == PROCESS_STDOUT ? STEP_EVENT_STDOUT : STEP_EVENT_STDERR, &line);
    capture_add(&self->capture, stream == PROCESS_STDOUT, line.text, line.length, line.partial);
    /* What was read with it leaves with it; but the door need not wait for that. */
    if (self->batcher.lines % BATCHER_LINES == 0)
      self->door->type->flush(self->door);
  }
  return false;
}

static bool is_command(const struct run *self) {
  return kind_of(&self->step)->work == NULL;
}

/* The standard output of a file kind is the step's outputContent, not lines. */
static bool is_content(const struct run *self, enum process_stream stream) {
  return stream == PROCESS_STDOUT && !is_command(self);
}

static void read_content(struct run *self) {
  size_t size;
  char *space = capture_content_space(&self->capture, &size);
  ssize_t length = process_read(self->process, PROCESS_STDOUT, space, size);
  if (length > 0)
    capture_content_filled(&self->capture, (size_t)length);
}

static void read_raw(struct run *self, enum process_stream stream) {
  char *space = raw_output_space(self->raw);
  ssize_t length = process_read(self->process, stream, space, RAW_OUTPUT_READ);
  if (length > 0)
    raw_output_filled(self->raw, stream == PROCESS_STDERR, (size_t)length);
}

static void repeat(struct run *self);

static void stall(struct run *self) {
  engine_run_stalled(self->door->engine, self);
}

static void on_readable(void *owner, enum process_stream stream) {
  struct run *self = owner;
  if (is_content(self, stream)) {
    read_content(self);
    return;
  }
  if (self->raw != NULL) {
    read_raw(self, stream);
    return;
  }
  read_clock(self);
  struct line_splitter *splitter = &self->splitters[stream];
  size_t size;
  char *space = line_splitter_space(splitter, &size);
  ssize_t length = process_read(self->process, stream, space, size);
  if (length > 0)
    line_splitter_filled(splitter, (size_t)length);
  if (take_lines(self, stream)) {
    flush_when_due(self);
    return;
  }
  self->paused = true;
  process_pause(self->process);
  flush(self); /* only what has left makes room */
  if (self->state == RUN_DRAINING)
    stall(self);
}

static void on_remains(void *owner) {
  struct run *self = owner;
  self->state = RUN_DRAINING;
  if (self->paused)
    stall(self);
}

static void finish(struct run *self) {
  struct run_report report = {.holder = self->outcome.holder, .survivors = self->outcome.survivors};
  outcome_result(&report.result, &self->step, self->process != NULL ? &self->outcome : NULL,
                 &self->capture, &self->error);
  char text[64];
  int length = snprintf(text, sizeof text, "exit=%d timedOut=%s", report.result.exit_code,
                        report.result.timed_out ? "True" : "False");
  read_clock(self);
  struct line line = {.text = text, .length = (size_t)length};
  report.completed = make_event(self, STEP_EVENT_COMPLETED, &line);
  report.result.event_count = (int64_t)self->events;
  self->state = RUN_DONE;
  engine_run_done(self->door->engine, self, &report);
}

/* The result repeats what is kept of the output; it must not come on top of a full door. */
static bool has_room_for_result(const struct run *self) {
  size_t length;
  (void)capture_head(&self->capture, &length);
  return has_room(self, length);
}

/* The process is over: what is left is in the splitters. */
static void finish_or_wait(struct run *self) {
  if (take_lines(self, PROCESS_STDOUT) && take_lines(self, PROCESS_STDERR) &&
      has_room_for_result(self)) {
    finish(self);
  } else {
    flush(self);
    stall(self);
  }
}

/* The standby did not become this program after all; or somebody killed it, who may have done so
   before there was this step for it. */
static bool is_to_be_repeated(const struct run *self, const struct process_outcome *outcome) {
  size_t length;
  (void)capture_head(&self->capture, &length);
  bool killed = outcome->end == PROCESS_EXITED && WIFSIGNALED(outcome->status);
  return self->has_standby && (outcome->end == PROCESS_NOT_STARTED || killed) &&
         self->events == 1 && length == 0;
}

static void on_ended(void *owner, const struct process_outcome *outcome) {
  struct run *self = owner;
  if (is_to_be_repeated(self, outcome)) {
    if (outcome->end == PROCESS_NOT_STARTED)
      standby_release(self->context->standby); /* nor will the next one */
    repeat(self);
    return;
  }
  self->state = RUN_ENDED;
  self->outcome = *outcome;
  line_splitter_end(&self->splitters[PROCESS_STDOUT]);
  line_splitter_end(&self->splitters[PROCESS_STDERR]);
  read_clock(self);
  finish_or_wait(self);
}

static void on_finishing(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct run *self = context;
  read_clock(self);
  finish_or_wait(self);
}

static void make_step_id_json(struct run *self) {
  size_t length = strlen(self->step.step_id);
  self->step_id_json_length = json_string_length(self->step.step_id, length);
  self->step_id_json = memory_allocate(self->step_id_json_length);
  (void)json_string_write(self->step_id_json, self->step.step_id, length);
}

struct run *run_new(const struct run_context *context, struct door *door, struct request *request,
                    uint64_t number) {
  struct run *self = memory_allocate(sizeof *self);
  *self = (struct run){.context = context,
                       .door = door,
                       .ticket = request->ticket,
                       .step = request->step,
                       .payload = request->payload,
                       .payload_length = request->payload_length,
                       .made_ms = clock_monotonic_ms()};
  request->step = (struct step){0};
  self->outcome.status = -1;
  self->flush_timer = loop_timer_new(context->process.base, on_flush_timer, self);
  self->finishing = loop_timer_new(context->process.base, on_finishing, self);
  line_splitter_init(&self->splitters[PROCESS_STDOUT], context->line_bytes);
  line_splitter_init(&self->splitters[PROCESS_STDERR], context->line_bytes);
  capture_init(&self->capture);
  if (door->terms.output_bytes > 0 && is_command(self))
    self->raw = raw_output_new(door->terms.output_bytes);
  make_step_id_json(self);
  (void)snprintf(self->tag, sizeof self->tag, "%s-%llu", context->agent_tag,
                 (unsigned long long)number);
  read_clock(self);
  batcher_init(&self->batcher, self->now_ms);
  char *title = kind_title(&self->step);
  emit(self, STEP_EVENT_STARTED, &(struct line){.text = title, .length = strlen(title)});
  batcher_flushed(&self->batcher, self->now_ms); /* it leaves when begin() says so */
  free(title);
  return self;
}

/* There will be no process: the run ends, from the loop. */
static void end_without_process(struct run *self) {
  self->state = RUN_ENDED;
  loop_timer_start_now(self->finishing);
}

static const struct process_handler process_handler = {
    .readable = on_readable, .remains = on_remains, .ended = on_ended};

typedef struct process *process_maker(const struct process_context *context,
                                      const struct process_spec *spec,
                                      const struct process_handler *handler, void *owner,
                                      struct error *error);

static void make_process(struct run *self, process_maker *make) {
  const struct process_spec spec = kind_process_spec(&self->context->kind, &self->step, self->tag);
  self->process = make(&self->context->process, &spec, &process_handler, self, &self->error);
  if (self->process != NULL)
    kind_release_input(&self->step);
  else
    end_without_process(self);
}

static void repeat(struct run *self) {
  process_free(self->process);
  self->process = NULL;
  self->has_standby = false;
  self->state = RUN_RUNNING;
  make_process(self, process_start);
}

/* Only what may be executed twice, see is_to_be_repeated. */
static bool take_standby(struct run *self) {
  if (kind_of(&self->step)->read_only && self->payload != NULL)
    self->process = standby_take(self->context->standby, &self->step, self->payload,
                                 self->payload_length, &process_handler, self);
  self->has_standby = self->process != NULL;
  return self->has_standby;
}

void run_prepare(struct run *self) {
  if (self->state == RUN_NEW && !self->was_stopped && is_command(self))
    make_process(self, process_prepare);
}

void run_start(struct run *self) {
  if (self->state != RUN_NEW || self->was_stopped)
    return;
  self->state = RUN_RUNNING;
  if (self->process != NULL)
    process_go(self->process);
  else if (!take_standby(self))
    make_process(self, process_start);
}

void run_free(struct run *self) {
  if (self->process != NULL)
    process_free(self->process);
  event_free(self->flush_timer);
  event_free(self->finishing);
  line_splitter_release(&self->splitters[PROCESS_STDOUT]);
  line_splitter_release(&self->splitters[PROCESS_STDERR]);
  capture_release(&self->capture);
  raw_output_free(self->raw);
  free(self->step_id_json);
  step_release(&self->step);
  free(self);
}

const struct step *run_step(const struct run *self) {
  return &self->step;
}

uint64_t run_output_total(const struct run *self) {
  return self->raw != NULL ? raw_output_total(self->raw) : 0;
}

size_t run_last_line(const struct run *self, char *out, size_t size) {
  return self->raw != NULL ? raw_output_last_line(self->raw, out, size) : 0;
}

static enum run_failure failure_of(const struct run *self) {
  static const enum run_failure failures[] = {[SPAWN_DONE] = RUN_EXECUTED,
                                              [SPAWN_NO_DIRECTORY] = RUN_NO_DIRECTORY,
                                              [SPAWN_NOT_FOUND] = RUN_NOT_FOUND,
                                              [SPAWN_NOT_EXECUTABLE] = RUN_NOT_EXECUTABLE,
                                              [SPAWN_NO_CHILD] = RUN_NO_PROCESS};
  if (self->process == NULL)
    return self->was_stopped ? RUN_STOPPED : RUN_NO_PROCESS;
  return self->outcome.end == PROCESS_STOPPED ? RUN_STOPPED : failures[self->outcome.failure];
}

static int exit_code_of(enum run_failure failure, const struct step_result *result) {
  if (failure == RUN_NOT_FOUND)
    return RUN_EXIT_NOT_FOUND;
  if (failure == RUN_NOT_EXECUTABLE)
    return RUN_EXIT_NOT_EXECUTABLE;
  if (failure != RUN_EXECUTED)
    return RUN_EXIT_NOT_RUN;
  return result->timed_out ? RUN_EXIT_TIMED_OUT : result->exit_code;
}

void run_result_get(const struct run *self, const struct step_result *result,
                    struct run_result *out) {
  enum run_failure failure = failure_of(self);
  *out = (struct run_result){.failure = failure,
                             .exit_code = exit_code_of(failure, result),
                             .timed_out = result->timed_out,
                             .duration_ms = result->duration_ms};
  if (self->raw != NULL) {
    out->output = raw_output_stream(self->raw, false);
    out->errors = raw_output_stream(self->raw, true);
  } else {
    out->output.bytes = capture_head(&self->capture, &out->output.length);
    out->errors.bytes = capture_tail(&self->capture, &out->errors.length);
  }
  if (result->exit_code != 0 && (failure != RUN_EXECUTED || !is_command(self))) {
    out->reason = result->error_message;
    out->reason_length = result->error_message_length;
  } else {
    out->reason = "";
  }
}

void *run_ticket(const struct run *self) {
  return self->ticket;
}

struct door *run_door(const struct run *self) {
  return self->door;
}

enum run_state run_state(const struct run *self) {
  return self->state;
}

bool run_is_busy(const struct run *self) {
  return self->state == RUN_RUNNING || (self->state == RUN_DRAINING && !self->paused);
}

void run_child_ended(struct run *self, pid_t pid) {
  if (self->process != NULL)
    process_child_ended(self->process, pid);
}

bool run_reaped(struct run *self, pid_t pid, int status) {
  return self->process != NULL && process_reaped(self->process, pid, status);
}

void run_resume(struct run *self) {
  if (self->state == RUN_ENDED) {
    loop_timer_start_now(self->finishing);
    return;
  }
  if (!self->paused)
    return;
  read_clock(self);
  if (take_lines(self, PROCESS_STDOUT) && take_lines(self, PROCESS_STDERR)) {
    self->paused = false;
    process_resume(self->process);
    flush_when_due(self);
  } else {
    flush(self);
  }
}

void run_ignore_room(struct run *self) {
  self->ignores_room = true;
  run_resume(self);
}

void run_stop(struct run *self, int64_t grace_ms, const char *reason) {
  if (self->state == RUN_ENDED || self->state == RUN_DONE)
    return;
  if (!self->was_stopped)
    (void)error_set(&self->error, "%s", reason);
  self->was_stopped = true;
  if (self->process != NULL)
    process_stop(self->process, grace_ms);
  else
    end_without_process(self);
}

void run_describe(const struct run *self, char *out, size_t size) {
  static const char *const waits[] = {
      [RUN_NEW] = "waits until its start is acknowledged",
      [RUN_RUNNING] = "waits for its process",
      [RUN_DRAINING] = "waits for the end of its pipes",
      [RUN_ENDED] = "waits for room for its last output",
      [RUN_DONE] = "is over",
  };
  const char *what = self->paused ? "waits for room for its output" : waits[self->state];
  pid_t pid = self->process != NULL ? process_pid(self->process) : 0;
  (void)snprintf(out, size, "%s, pid %d, age %.1f s, %llu events: %s", self->step.kind->name,
                 (int)pid, (double)(clock_monotonic_ms() - self->made_ms) / 1000,
                 (unsigned long long)self->events, what);
}
