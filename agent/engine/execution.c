#include "agent/engine/execution.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/engine/batcher.h"
#include "agent/engine/capture.h"
#include "agent/engine/lines.h"
#include "agent/engine/step_policy.h"
#include "agent/kinds/kind.h"
#include "base/buffer.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/json_string.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/printable.h"

/*
 * Each arrow is the only way from one state to the next:
 *
 *   NEW --start--> RUNNING --command over, pipes open--> DRAINING --pipes drained--> ENDED --> DONE
 *    |                `---------command over, pipes drained--------------------------^
 *    `--stop, or no process could be made--------------------------------------------^
 *
 * In ENDED lines may still wait for capacity in the frontend.
 */
enum execution_state { NEW, RUNNING, DRAINING, ENDED, DONE };

static const char *const waits_for[] = {
    [NEW] = "waits until its start is acknowledged",
    [RUNNING] = "waits for its process",
    [DRAINING] = "waits for the end of its pipes",
    [ENDED] = "waits for capacity for its last output",
    [DONE] = "is over",
};

/* Where the output goes. */
enum execution_output {
  OUTPUT_LINES,   /* of a command: each line is an event, and a part is kept */
  OUTPUT_BYTES,   /* of a command with `raw`: each piece is an event, and the end is kept */
  OUTPUT_RAW,     /* of a command if the frontend's terms have output_bytes: the ends are kept */
  OUTPUT_CONTENT, /* of a file kind: stdout is its content, lines of stderr are events and kept */
};

struct execution {
  const struct execution_context *context;
  struct frontend *frontend;
  void *user_data;
  struct step step;
  struct log log; /* the engine's, with the trace of the step */
  char tag[128];
  enum execution_state state;
  enum execution_output output;
  struct process *process; /* NULL before it is made, and when it is over */
  /* The outcome is set from ENDED on, the error when it is known, and the rest at the end. */
  struct execution_result end;
  enum step_cause stop_cause;
  struct process_outcome process_outcome;
  struct memory_before before;
  struct buffer message;             /* of a command that a limit ended; else empty */
  struct mask_stream masks[2];       /* mask the bytes as they are read */
  struct line_splitter splitters[2]; /* not of OUTPUT_RAW */
  struct capture capture;
  struct batcher batcher;
  uint64_t stdout_bytes; /* so far, as the command has written them */
  uint64_t events;       /* so far, which is the seq of the last one */
  struct event *timer;   /* flushes lines that wait; in ENDED ends the execution */
  struct step_secrets secrets;
  char *step_id_json;
  size_t step_id_json_length;
  int64_t made_ms; /* monotonic */
  int64_t now_ms;  /* UTC; read once per callback */
  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  struct step_policy policy;
  bool was_started; /* by execution_start */
  bool was_stopped; /* by engine_stop */
  bool is_paused;   /* the pipes are not read because the frontend has no capacity */
  bool ignores_capacity;
  char *subject; /* of the result, with its secrets masked; NULL if nothing is masked */
};
/* For a larger block, musl's malloc maps memory for each step and unmaps it. */
static_assert(sizeof(struct execution) <= 2704, "a step costs no system call for its memory");

static void read_clock(struct execution *self) {
  int64_t now_ms = clock_unix_ms();
  if (now_ms <= self->now_ms)
    return; /* a step's timestamps never go back, even if the clock is set back */
  self->now_ms = now_ms;
  step_event_timestamp(self->timestamp, now_ms);
}

static struct step_event event_after(const struct execution *self, enum step_event_kind kind,
                                     const struct line *line) {
  return (struct step_event){.schema_version = step_answer_version(&self->step),
                             .kind = kind,
                             .step_id = self->step_id_json,
                             .step_id_length = self->step_id_json_length,
                             .line = line->text,
                             .line_length = line->length,
                             .partial = line->partial,
                             .is_base64 = line->is_raw,
                             .timestamp = self->timestamp,
                             .seq = self->events + 1};
}

static void emit_event(struct execution *self, const struct step_event *event) {
  static const char *const names[] = {"started", "stdout", "stderr", "completed"};
  self->events++;
  if (self->frontend->type->event != NULL)
    self->frontend->type->event(self->frontend, self, event);
  if (self->log.least <= LOG_DEBUG)
    log_line(&self->log, LOG_DEBUG, self->step.step_id, "%s: %.*s", names[event->kind],
             (int)event->line_length, event->line);
  batcher_add(&self->batcher, self->now_ms);
}

static bool has_capacity(const struct execution *self, size_t bytes) {
  return self->ignores_capacity || self->frontend->type->capacity == NULL ||
         self->frontend->type->capacity(self->frontend) > bytes;
}

static void flush_frontend(const struct execution *self) {
  if (self->frontend->type->flush != NULL)
    self->frontend->type->flush(self->frontend);
}

static void flush(struct execution *self) {
  batcher_flushed(&self->batcher, self->now_ms);
  if (self->state != ENDED)
    (void)evtimer_del(self->timer);
  flush_frontend(self);
}

static void flush_when_due(struct execution *self) {
  int64_t wait_ms = batcher_due_in_ms(&self->batcher, self->now_ms);
  if (wait_ms == 0) {
    flush(self);
  } else if (wait_ms > 0 && !evtimer_pending(self->timer, NULL)) {
    loop_timer_start(self->timer, wait_ms);
  }
}

/* Passes on the lines that are complete. Returns false if the frontend has no capacity. */
static bool pass_lines(struct execution *self, enum process_stream stream) {
  const enum step_event_kind kind =
      stream == PROCESS_STDOUT ? STEP_EVENT_STDOUT : STEP_EVENT_STDERR;
  struct line line;
  while (has_capacity(self, 0)) {
    if (!line_splitter_next(&self->splitters[stream], &line))
      return true;
    const struct step_event event = event_after(self, kind, &line);
    emit_event(self, &event);
    capture_add(&self->capture, stream == PROCESS_STDOUT && !line.is_raw, line.text, line.length,
                line.partial || line.is_raw);
    /* One read may give thousands of lines: the frontend gets them batch by batch. */
    if (self->batcher.lines % BATCHER_LINES == 0)
      flush_frontend(self);
  }
  return false;
}

static bool is_command(const struct execution *self) {
  return kind_of(&self->step)->work == NULL;
}

static bool has_lines(const struct execution *self, enum process_stream stream) {
  return self->output == OUTPUT_LINES || self->output == OUTPUT_BYTES ||
         (self->output == OUTPUT_CONTENT && stream == PROCESS_STDERR);
}

/* Returns space for `before` bytes and, behind them, `size` bytes to read into. */
static char *make_space(struct execution *self, enum process_stream stream, size_t before,
                        size_t *size) {
  if (has_lines(self, stream))
    return line_splitter_space(&self->splitters[stream], before, size);
  if (self->output == OUTPUT_CONTENT)
    return capture_content_space(&self->capture, before, size);
  *size = CAPTURE_READ;
  return capture_raw_space(&self->capture, before);
}

/* The space has `length` bytes now, with secrets masked. */
static void keep(struct execution *self, enum process_stream stream, size_t length, bool was_full) {
  if (has_lines(self, stream))
    line_splitter_filled(&self->splitters[stream], length, was_full);
  else if (self->output == OUTPUT_CONTENT)
    capture_content_filled(&self->capture, length);
  else
    capture_raw_filled(&self->capture, stream == PROCESS_STDERR, length);
}

/* Removes each NUL byte. Returns the new length. */
static size_t drop_nul(char *bytes, size_t length) {
  char *out = memchr(bytes, '\0', length);
  if (out == NULL)
    return length;
  for (const char *at = out; at < bytes + length; at++)
    if (*at != '\0')
      *out++ = *at;
  return (size_t)(out - bytes);
}

static void read_stream(struct execution *self, enum process_stream stream) {
  struct mask_stream *mask = &self->masks[stream];
  const size_t held = mask_stream_held(mask);
  size_t size;
  char *space = make_space(self, stream, held, &size);
  ssize_t count = process_read(self->process, stream, space + held, size);
  if (count <= 0)
    return;
  size_t length = (size_t)count;
  const bool was_full = length == size;
  self->stdout_bytes += stream == PROCESS_STDOUT ? length : 0;
  if (self->output == OUTPUT_RAW)
    length = drop_nul(space + held, length); /* before secrets are searched */
  keep(self, stream, mask_stream_put(mask, space, length), was_full);
}

/* Nothing more is read: the bytes that the mask held back are a whole secret, or none. */
static void end_stream(struct execution *self, enum process_stream stream) {
  struct mask_stream *mask = &self->masks[stream];
  const size_t held = mask_stream_held(mask);
  size_t size;
  if (held > 0)
    keep(self, stream, mask_stream_end(mask, make_space(self, stream, held, &size)), false);
  line_splitter_end(&self->splitters[stream]);
}

static void on_readable(void *owner, enum process_stream stream) {
  struct execution *self = owner;
  if (!has_lines(self, stream)) {
    read_stream(self, stream);
    return;
  }
  read_clock(self);
  read_stream(self, stream);
  if (pass_lines(self, stream)) {
    flush_when_due(self);
    return;
  }
  self->is_paused = true;
  process_pause(self->process, true);
  flush(self); /* only sent events free capacity */
  if (self->state == DRAINING)
    engine_execution_stalled(self);
}

static void report_ending(void *owner) {
  struct execution *self = owner;
  if (self->frontend->type->ending != NULL)
    self->frontend->type->ending(self->frontend, self, self->state >= DRAINING);
}

static void on_remains(void *owner) {
  struct execution *self = owner;
  self->state = DRAINING;
  report_ending(self);
  if (self->is_paused)
    engine_execution_stalled(self);
}

static enum execution_outcome outcome_of(const struct execution *self,
                                         const struct process_outcome *process) {
  static const enum execution_outcome failures[] = {
      [EXEC_DONE] = EXECUTION_EXITED,           [EXEC_NO_DIRECTORY] = EXECUTION_NO_DIRECTORY,
      [EXEC_NOT_FOUND] = EXECUTION_NOT_FOUND,   [EXEC_NOT_EXECUTABLE] = EXECUTION_NOT_EXECUTABLE,
      [EXEC_NO_PROCESS] = EXECUTION_NO_PROCESS, [EXEC_REFUSED] = EXECUTION_REFUSED,
  };
  switch (process->end) {
  case PROCESS_EXITED:
    return WIFSIGNALED(process->report.status) ? EXECUTION_SIGNALED : EXECUTION_EXITED;
  case PROCESS_NOT_STARTED:
    return failures[process->report.stage];
  case PROCESS_TIMED_OUT:
    return EXECUTION_TIMED_OUT;
  case PROCESS_STOPPED:
    break;
  }
  return self->stop_cause == STEP_CAUSE_MEMORY_LIMIT    ? EXECUTION_MEMORY_LIMIT
         : self->stop_cause == STEP_CAUSE_PROCESS_LIMIT ? EXECUTION_PROCESS_LIMIT
                                                        : EXECUTION_STOPPED;
}

/* The exit code and the cause of each outcome. */
static const struct {
  int exit_code;
  enum step_cause cause;
} ends[] = {
    [EXECUTION_EXITED] = {0, STEP_CAUSE_EXITED}, /* the command has its own exit code */
    [EXECUTION_SIGNALED] = {128, STEP_CAUSE_SIGNAL},
    [EXECUTION_TIMED_OUT] = {EXECUTION_EXIT_TIMED_OUT, STEP_CAUSE_TIMEOUT},
    [EXECUTION_STOPPED] = {EXECUTION_EXIT_NOT_RUN, STEP_CAUSE_CANCELLED}, /* or stop_cause */
    [EXECUTION_MEMORY_LIMIT] = {128 + SIGKILL, STEP_CAUSE_MEMORY_LIMIT},
    [EXECUTION_PROCESS_LIMIT] = {128 + SIGKILL, STEP_CAUSE_PROCESS_LIMIT},
    [EXECUTION_NO_DIRECTORY] = {EXECUTION_EXIT_NOT_RUN, STEP_CAUSE_NOT_STARTED},
    [EXECUTION_NOT_FOUND] = {EXECUTION_EXIT_NOT_FOUND, STEP_CAUSE_NOT_STARTED},
    [EXECUTION_NOT_EXECUTABLE] = {EXECUTION_EXIT_NOT_EXECUTABLE, STEP_CAUSE_NOT_STARTED},
    [EXECUTION_NO_PROCESS] = {EXECUTION_EXIT_NOT_RUN, STEP_CAUSE_NOT_STARTED},
    [EXECUTION_REFUSED] = {EXECUTION_EXIT_NOT_RUN, STEP_CAUSE_REFUSED},
};

static void set_output(struct execution *self, struct execution_result *end) {
  if (self->output == OUTPUT_RAW)
    end->errors = capture_stream(&self->capture, true);
  else
    end->errors.bytes = capture_errors(&self->capture, &end->errors.length);
  if (self->output != OUTPUT_CONTENT || execution_result_is_success(end))
    end->output = capture_stream(&self->capture, false);
  if (end->output.length == 0)
    end->output.bytes = NULL;
}

static struct result_end make_cost(const struct execution *self) {
  const struct process_outcome *process = &self->process_outcome;
  const bool is_stopped = self->end.outcome == EXECUTION_STOPPED;
  struct result_end cost = {.cause = is_stopped ? self->stop_cause : ends[self->end.outcome].cause};
  if (!self->was_started || cost.cause == STEP_CAUSE_NOT_STARTED ||
      cost.cause == STEP_CAUSE_REFUSED)
    return cost;
  cost = (struct result_end){.cause = cost.cause,
                             .usage = &process->report.usage,
                             .oom_kills = -1,
                             .memory_peak_bytes = -1,
                             .survivors = process->survivors,
                             .holder = process->holder.pid,
                             .holder_command = process->holder.command,
                             .alive = process->report.alive,
                             .alive_count = process->report.alive_count};
  if (cost.cause == STEP_CAUSE_SIGNAL) {
    cost.signal = WTERMSIG(process->report.status);
    cost.signal_name = printable_signal(cost.signal);
    cost.core_dumped = WCOREDUMP(process->report.status);
  }
  memory_before_compare(
      &self->before,
      self->end.outcome == EXECUTION_EXITED && WEXITSTATUS(process->report.status) == 0, &cost);
  if (cost.cause == STEP_CAUSE_SIGNAL)
    cost.cause = execution_result_signal_cause(&cost, &self->policy.plan.limits);
  return cost;
}

static void complete_result(struct execution *self) {
  struct execution_result *end = &self->end;
  const struct process_outcome *process = &self->process_outcome;
  self->subject = execution_result_set_subject(
      end,
      end->outcome == EXECUTION_NO_DIRECTORY ? self->step.working_directory : self->step.target,
      &self->context->options->secrets->masker);
  end->exit_code = ends[end->outcome].exit_code;
  if (end->outcome == EXECUTION_EXITED)
    end->exit_code = WEXITSTATUS(process->report.status);
  if (end->outcome == EXECUTION_SIGNALED)
    end->exit_code += end->signal = WTERMSIG(process->report.status);
  end->duration_ms = process->duration_ms;
  end->process = process;
  end->cost = make_cost(self);
  set_output(self, end);
}

void execution_step_end(const struct execution *self, const struct execution_result *end,
                        struct step_end *out) {
  out->result = execution_result_step_result(end, &self->step, &out->line);
  out->result.event_count = (int64_t)self->events + 1;
  out->result.is_raw = self->output == OUTPUT_BYTES;
  out->result.fence = step_policy_result(&self->policy);
  if (out->result.is_raw)
    out->result.output_bytes = self->stdout_bytes;
  int length = snprintf(out->text, sizeof out->text, "exit=%d timedOut=%s", out->result.exit_code,
                        out->result.timed_out ? "True" : "False");
  const struct line line = {.text = out->text, .length = (size_t)length};
  out->completed = event_after(self, STEP_EVENT_COMPLETED, &line);
}

static void finish(struct execution *self) {
  complete_result(self);
  step_policy_find_denials(&self->policy, &self->context->options->kind, &self->step, &self->end);
  if (is_command(self) || self->end.outcome == EXECUTION_SIGNALED) /* else it has its own error */
    execution_result_explain(&self->end, &self->policy.plan.limits, &self->message);
  read_clock(self);
  self->state = DONE;
  engine_execution_done(self, &self->end);
}

/* The result repeats the captured output, which must not be added to a full frontend. */
static bool check_result_capacity(struct execution *self) {
  if (self->output == OUTPUT_RAW)
    return has_capacity(self, 0);
  const struct captured_stream output = capture_stream(&self->capture, false);
  return has_capacity(self, output.length + output.tail_length);
}

/* The process is over: the rest of its output is in the splitter, or the mask holds it back. */
static bool pass_rest(struct execution *self, enum process_stream stream) {
  if (!pass_lines(self, stream))
    return false;
  end_stream(self, stream);
  return pass_lines(self, stream);
}

static void finish_or_wait(struct execution *self) {
  if (pass_rest(self, PROCESS_STDOUT) && pass_rest(self, PROCESS_STDERR) &&
      check_result_capacity(self)) {
    finish(self);
  } else {
    flush(self);
    engine_execution_stalled(self);
  }
}

/* Frees the process at once: the next execution, which may begin before this one is done, gets its
   supervisor. */
static void on_ended(void *owner, struct process_outcome *outcome) {
  struct execution *self = owner;
  struct masker *masker = &self->context->options->secrets->masker;
  self->state = ENDED;
  report_ending(self);
  (void)evtimer_del(self->timer);
  self->end.outcome = outcome_of(self, outcome);
  if (outcome->end == PROCESS_NOT_STARTED)
    execution_result_mask_reason(&self->end.error, &outcome->report, masker);
  execution_result_mask_processes(outcome, masker);
  self->process_outcome = *outcome;
  outcome->report = (struct supervisor_report){0};
  process_free(self->process);
  self->process = NULL;
  read_clock(self);
  finish_or_wait(self);
}

LOOP_CALLBACK(on_timer, struct execution *self) {
  read_clock(self);
  if (self->state == ENDED)
    finish_or_wait(self);
  else
    flush(self);
}

static void emit_started(struct execution *self) {
  struct secrets *secrets = self->context->options->secrets;
  self->secrets = secrets_add_step(secrets, &self->log, &self->step);
  char *title = kind_title(&self->step, &secrets->masker);
  const struct line line = {.text = title, .length = strlen(title)};
  struct step_event event = event_after(self, STEP_EVENT_STARTED, &line);
  event.not_masked = self->secrets.not_masked;
  event.fence = step_policy_started(&self->policy);
  emit_event(self, &event);
  free(title);
}

struct execution *execution_new(const struct execution_context *context, struct frontend *frontend,
                                struct request *request, uint64_t number) {
  struct execution *self = memory_allocate(sizeof *self);
  *self = (struct execution){.context = context,
                             .frontend = frontend,
                             .user_data = request->user_data,
                             .step = request->step,
                             .log = *context->options->log,
                             .made_ms = clock_monotonic_ms()};
  request->step = (struct step){0};
  self->log.traceparent = run_kind_trace(&self->step);
  self->timer = loop_timer_new(context->process.base, on_timer, self);
  self->output = !is_command(self)                  ? OUTPUT_CONTENT
                 : frontend->terms.output_bytes > 0 ? OUTPUT_RAW
                 : run_kind_is_raw(&self->step)     ? OUTPUT_BYTES
                                                    : OUTPUT_LINES;
  for (int i = 0; i < 2; i++) {
    mask_stream_init(&self->masks[i], &context->options->secrets->masker);
    line_splitter_init(&self->splitters[i], context->options->line_bytes);
    if (self->output == OUTPUT_BYTES)
      line_splitter_set_raw(&self->splitters[i]);
  }
  capture_init(&self->capture, frontend->terms.output_bytes, frontend->terms.tail_bytes);
  const size_t id_length = strlen(self->step.step_id);
  self->step_id_json_length = json_string_length(self->step.step_id, id_length);
  self->step_id_json = memory_allocate(self->step_id_json_length);
  (void)json_string_write(self->step_id_json, self->step.step_id, id_length);
  (void)snprintf(self->tag, sizeof self->tag, "%s-%llu", context->agent_tag,
                 (unsigned long long)number);
  step_policy_init(&self->policy, &context->options->kind, &self->step, &self->end.error);
  read_clock(self);
  batcher_init(&self->batcher, self->now_ms);
  emit_started(self);
  step_policy_log(&self->policy, &self->log, &self->step);
  batcher_flushed(&self->batcher, self->now_ms); /* begin() decides when it is sent */
  return self;
}

/* There will be no process: the execution ends, from the event loop. */
static void end_without_process(struct execution *self) {
  self->state = ENDED;
  self->end.outcome = self->was_stopped         ? EXECUTION_STOPPED
                      : self->policy.is_refused ? EXECUTION_REFUSED
                                                : EXECUTION_NO_PROCESS;
  loop_timer_start_now(self->timer);
}

static const struct process_handler process_handler = {
    .readable = on_readable, .timed_out = report_ending, .remains = on_remains, .ended = on_ended};

static void make_process(struct execution *self, bool waits) {
  struct process_spec spec =
      kind_process_spec(&self->context->options->kind, &self->step, &self->policy.plan, self->tag);
  self->process =
      process_new(&self->context->process, &spec, waits, &process_handler, self, &self->end.error);
  buffer_release(&spec.body);
  if (self->process == NULL) {
    end_without_process(self);
    return;
  }
  kind_release_input(&self->step);
  self->before = memory_before_read();
}

void execution_prepare(struct execution *self) {
  if (self->state == NEW && !self->was_stopped && !self->policy.is_refused && is_command(self))
    make_process(self, true);
}

void execution_start(struct execution *self) {
  if (self->state != NEW || self->was_stopped)
    return;
  self->state = RUNNING;
  self->was_started = true;
  if (self->process != NULL)
    process_go(self->process);
  else if (self->policy.is_refused)
    end_without_process(self);
  else
    make_process(self, false);
}

void execution_free(struct execution *self) {
  if (self->process != NULL)
    process_free(self->process);
  event_free(self->timer);
  secrets_end_step(self->context->options->secrets, &self->secrets);
  for (int i = 0; i < 2; i++) {
    mask_stream_release(&self->masks[i]);
    line_splitter_release(&self->splitters[i]);
  }
  capture_release(&self->capture);
  free(self->step_id_json);
  free(self->subject);
  supervisor_report_release(&self->process_outcome.report);
  step_policy_release(&self->policy);
  buffer_release(&self->message);
  step_release(&self->step);
  free(self);
}

const struct log *execution_log(const struct execution *self) {
  return &self->log;
}

const struct step *execution_step(const struct execution *self) {
  return &self->step;
}

uint64_t execution_output_total(const struct execution *self) {
  return self->capture.total;
}

size_t execution_last_line(const struct execution *self, char *out, size_t size) {
  return self->output == OUTPUT_RAW ? capture_last_line(&self->capture, out, size) : 0;
}

void *execution_user_data(const struct execution *self) {
  return self->user_data;
}

struct frontend *execution_frontend(const struct execution *self) {
  return self->frontend;
}

void execution_resume(struct execution *self) {
  if (self->state == ENDED) {
    loop_timer_start_now(self->timer);
    return;
  }
  if (!self->is_paused)
    return;
  read_clock(self);
  if (pass_lines(self, PROCESS_STDOUT) && pass_lines(self, PROCESS_STDERR)) {
    self->is_paused = false;
    process_pause(self->process, false);
    flush_when_due(self);
  } else {
    flush(self);
  }
}

bool execution_is_stalled(const struct execution *self) {
  return self->state >= ENDED || (self->state == DRAINING && self->is_paused);
}

void execution_finish_stalled(struct execution *self) {
  if (!execution_is_stalled(self))
    return;
  self->ignores_capacity = true;
  execution_resume(self);
}

void engine_stop(struct execution *self, int64_t grace_ms, enum step_cause cause,
                 const char *reason) {
  if (self->state != DONE)
    report_ending(self);
  if (self->state == ENDED || self->state == DONE)
    return;
  if (!self->was_stopped) {
    self->stop_cause = cause;
    (void)error_set(&self->end.error, "%s", reason);
  }
  self->was_stopped = true;
  if (self->process != NULL)
    process_stop(self->process, grace_ms);
  else
    end_without_process(self);
}

int64_t execution_memory(const struct execution *self) {
  return self->process != NULL && self->was_started ? process_memory(self->process) : 0;
}

int64_t execution_processes(const struct execution *self) {
  return self->process != NULL && self->was_started ? process_count(self->process) : 0;
}

bool execution_was_started(const struct execution *self) {
  return self->was_started;
}

const struct policy_limits *execution_limits(const struct execution *self) {
  return &self->policy.plan.limits;
}

void execution_describe(const struct execution *self, char *out, size_t size) {
  const char *wait = self->is_paused ? "waits for capacity for its output" : waits_for[self->state];
  pid_t pid = self->process != NULL ? process_pid(self->process) : 0;
  (void)snprintf(out, size, "%s, pid %d, age %.1f s, %llu events: %s", self->step.kind->name,
                 (int)pid, (double)(clock_monotonic_ms() - self->made_ms) / 1000,
                 (unsigned long long)self->events, wait);
}
