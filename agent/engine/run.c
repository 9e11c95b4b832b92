#include "agent/engine/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/engine/batcher.h"
#include "agent/engine/capture.h"
#include "agent/engine/lines.h"
#include "agent/engine/outcome.h"
#include "agent/kinds/kind.h"
#include "base/clock.h"
#include "base/json_string.h"
#include "base/loop.h"
#include "base/memory.h"

struct run {
  const struct run_context *context;
  const struct run_handler *handler;
  void *owner;
  struct step step;
  char tag[128];
  bool started;
  struct process *process; /* NULL: it was not, or could not be started */
  struct process_outcome outcome;
  struct line_splitter splitters[2];
  struct batcher batcher;
  uint64_t events; /* so far: the last one's seq */
  struct event *flush_timer;
  struct event *finishing; /* calls maybe_finish from the loop */
  struct capture capture;
  char *step_id_json;
  size_t step_id_json_length;
  int64_t now_ms; /* UTC; read once per turn of the loop */
  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  bool paused;
  bool remains;       /* the command is over, its pipes are not */
  bool ended;         /* the process is over; lines may still wait in the splitters */
  struct error error; /* why it was not started, stopped or ended by a signal */
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
  return (struct step_event){.kind = kind,
                             .step_id = self->step_id_json,
                             .step_id_length = self->step_id_json_length,
                             .line = line->text,
                             .line_length = line->length,
                             .partial = line->partial,
                             .timestamp = self->timestamp,
                             .seq = ++self->events};
}

static void emit(struct run *self, enum step_event_kind kind, const struct line *line) {
  struct step_event event = make_event(self, kind, line);
  self->handler->event(self->owner, &event);
  batcher_add(&self->batcher, self->now_ms);
}

static void flush(struct run *self) {
  batcher_flushed(&self->batcher);
  (void)evtimer_del(self->flush_timer);
  self->handler->flush(self->owner);
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
  flush(context);
}

/* Hands on the lines that are there; false when the owner is full. */
static bool take_lines(struct run *self, enum process_stream stream) {
  struct line line;
  while (!self->handler->full(self->owner, 0)) {
    if (!line_splitter_next(&self->splitters[stream], &line))
      return true;
    emit(self, stream == PROCESS_STDOUT ? STEP_EVENT_STDOUT : STEP_EVENT_STDERR, &line);
    capture_add(&self->capture, stream == PROCESS_STDOUT, line.text, line.length, line.partial);
    /* What was read with it leaves with it; but the owner need not wait for that. */
    if (self->batcher.lines % BATCHER_LINES == 0)
      self->handler->flush(self->owner);
  }
  return false;
}

/* What the kind made is not lines but the step's outputContent. */
static bool is_content(const struct run *self, enum process_stream stream) {
  return stream == PROCESS_STDOUT && kind_of(&self->step)->work != NULL;
}

static void read_content(struct run *self) {
  size_t size;
  char *space = capture_content_space(&self->capture, &size);
  ssize_t length = process_read(self->process, PROCESS_STDOUT, space, size);
  if (length > 0)
    capture_content_filled(&self->capture, (size_t)length);
}

static void on_readable(void *owner, enum process_stream stream) {
  struct run *self = owner;
  if (is_content(self, stream)) {
    read_content(self);
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
  flush(self); /* room only comes from what has left */
  if (self->remains)
    self->handler->waits(self->owner);
}

static void on_remains(void *owner) {
  struct run *self = owner;
  self->remains = true;
  if (self->paused)
    self->handler->waits(self->owner);
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
  self->handler->done(self->owner, &report);
}

/* The result repeats what is kept of the output; it is not to come on top of a full owner. */
static bool has_room_for_result(struct run *self) {
  size_t length;
  (void)capture_head(&self->capture, &length);
  return !self->handler->full(self->owner, length);
}

/* The process is over: what is left is in the splitters. */
static void finish_or_wait(struct run *self) {
  if (take_lines(self, PROCESS_STDOUT) && take_lines(self, PROCESS_STDERR) &&
      has_room_for_result(self)) {
    finish(self);
  } else {
    flush(self);
    self->handler->waits(self->owner);
  }
}

static void on_ended(void *owner, const struct process_outcome *outcome) {
  struct run *self = owner;
  self->ended = true;
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

static void prepare_step_id(struct run *self) {
  size_t length = strlen(self->step.step_id);
  self->step_id_json_length = json_string_length(self->step.step_id, length);
  self->step_id_json = memory_allocate(self->step_id_json_length);
  (void)json_string_write(self->step_id_json, self->step.step_id, length);
}

struct run *run_new(const struct run_context *context, struct step *step, uint64_t number,
                    const struct run_handler *handler, void *owner) {
  struct run *self = memory_allocate(sizeof *self);
  *self = (struct run){.context = context, .handler = handler, .owner = owner, .step = *step};
  *step = (struct step){0};
  self->outcome.status = -1;
  self->flush_timer = loop_timer_new(context->process.base, on_flush_timer, self);
  self->finishing = loop_timer_new(context->process.base, on_finishing, self);
  line_splitter_init(&self->splitters[PROCESS_STDOUT]);
  line_splitter_init(&self->splitters[PROCESS_STDERR]);
  capture_init(&self->capture);
  prepare_step_id(self);
  (void)snprintf(self->tag, sizeof self->tag, "%s-%llu", context->agent_tag,
                 (unsigned long long)number);
  read_clock(self);
  batcher_init(&self->batcher, self->now_ms);
  char *title = kind_title(&self->step);
  emit(self, STEP_EVENT_STARTED, &(struct line){.text = title, .length = strlen(title)});
  flush(self);
  free(title);
  return self;
}

/* It will have no process: it is over, from the loop. */
static void end_without_process(struct run *self) {
  self->ended = true;
  loop_timer_start_now(self->finishing);
}

void run_start(struct run *self) {
  static const struct process_handler process_handler = {
      .readable = on_readable, .remains = on_remains, .ended = on_ended};
  if (self->started || self->ended)
    return;
  self->started = true;
  const struct process_spec spec = kind_process_spec(self->context, &self->step, self->tag);
  self->process =
      process_start(&self->context->process, &spec, &process_handler, self, &self->error);
  if (self->process == NULL)
    end_without_process(self);
}

void run_free(struct run *self) {
  if (self->process != NULL)
    process_free(self->process);
  event_free(self->flush_timer);
  event_free(self->finishing);
  line_splitter_release(&self->splitters[PROCESS_STDOUT]);
  line_splitter_release(&self->splitters[PROCESS_STDERR]);
  capture_release(&self->capture);
  free(self->step_id_json);
  step_release(&self->step);
  free(self);
}

const struct step *run_step(const struct run *self) {
  return &self->step;
}

bool run_reaped(struct run *self, pid_t pid, int status) {
  return self->process != NULL && process_reaped(self->process, pid, status);
}

void run_resume(struct run *self) {
  if (!self->paused && !self->ended)
    return;
  if (self->ended) {
    loop_timer_start_now(self->finishing);
    return;
  }
  read_clock(self);
  if (take_lines(self, PROCESS_STDOUT) && take_lines(self, PROCESS_STDERR)) {
    self->paused = false;
    process_resume(self->process);
    flush_when_due(self);
  } else {
    flush(self);
  }
}

void run_stop(struct run *self, int64_t grace_ms, const char *reason) {
  if (self->ended)
    return;
  if (self->error.text[0] == '\0')
    (void)error_set(&self->error, "%s", reason);
  if (self->process != NULL)
    process_stop(self->process, grace_ms);
  else
    end_without_process(self);
}
