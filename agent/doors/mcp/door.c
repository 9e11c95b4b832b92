/*
 * A call waits in `calls`, in the order in which it came, until the engine wants a request; then it
 * has a run, whose ticket it is. Its answer leaves with the run's result, unless it was cancelled.
 * All that is known before a tool runs is decided by mcp_session_take, and answered at once.
 *
 * What is held is bounded: unwritten output by not reading and not beginning calls; calls that wait
 * by refusing more of them, so that a ping and a cancel are answered at any time.
 */
#include "agent/doors/mcp/door.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/call_ids.h"
#include "agent/doors/line_reader.h"
#include "agent/doors/mcp/progress.h"
#include "agent/doors/mcp/session.h"
#include "agent/doors/standard_io.h"
#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* Of a run: the end of a deadline or a cancel; orphans of a shell that is over; and the same when
   the program ends, which clients wait a second or two for. */
#define MCP_DOOR_TERMS(RUNS)                                                                       \
  {                                                                                                \
    .runs = (RUNS), .grace_ms = 2000, .drain_ms = 100, .leave_grace_ms = 500,                      \
    .leave_background_ms = 100, .guarded = true, .output_bytes = 51200                             \
  }

/* Beside its text, what a call that waits takes. */
#define CALL_BYTES 1024

/* How long close() waits for a reader after a signal. */
#define CLOSE_MS 100

/* The answers of one batch, which leave together, as an array. */
struct batch {
  struct buffer answers; /* each with a comma after it */
  size_t pending;
};

struct call {
  struct call *next, *previous;
  bool submitted;  /* to the engine; before, it waits */
  struct run *run; /* NULL: it has not begun */
  struct tool_call *tool;
  struct batch *batch; /* NULL: it came alone */
  enum mcp_version version;
  struct json_member id;    /* owned */
  struct call_id entry;     /* while it may be cancelled */
  struct json_member token; /* owned; none: no progress is reported */
  struct mcp_progress progress;
  size_t memory;
  bool cancelled; /* it is not answered */
};

/* RUNNING -> ENDED: standard input has; calls end, or are ended. Either -> LEAVING: the engine takes
   no more requests. */
enum state { RUNNING, ENDED, LEAVING };

struct mcp_door {
  struct door door; /* first */
  const struct log *log;
  struct mcp_server server;
  struct mcp_session session;
  enum state state;
  struct standard_io *io;
  struct line_reader lines;
  struct call *calls;
  struct call *last;
  struct call_ids ids;   /* of those that may be cancelled */
  struct call *waiting;  /* the first of `calls` that waits */
  size_t waiting_memory; /* of those */
  size_t running_memory; /* of the others */
  unsigned wanted;
  bool is_taking; /* lines */
  bool all_taken; /* of the lines that were read */
  uint64_t step_number;
  struct event *progress; /* a timer */
  struct event *end;      /* a timer: of the calls at first, then of close() */
  int64_t ended_ms;
  bool closing;
  int broken; /* the exit code when standard output takes nothing more; else -1 */
};

static struct mcp_door *self_of(struct door *door) {
  return (struct mcp_door *)door;
}

static void submit_waiting(struct mcp_door *self);
static void take_lines(struct mcp_door *self);

/* --- answers --------------------------------------------------------------------------------- */

static struct buffer *answers_of(struct mcp_door *self, struct batch *batch) {
  return batch != NULL ? &batch->answers : standard_io_output(self->io);
}

/* After each answer. */
static void end_answer(struct mcp_door *self, struct batch *batch) {
  buffer_add(answers_of(self, batch), batch != NULL ? "," : "\n", 1);
}

/* One of a batch is answered, or never will be. */
static void release_batch(struct mcp_door *self, struct batch *batch) {
  if (batch == NULL || --batch->pending > 0)
    return;
  if (batch->answers.length > 0) {
    struct buffer *out = standard_io_output(self->io);
    buffer_add(out, "[", 1);
    buffer_add(out, batch->answers.bytes, batch->answers.length - 1);
    buffer_add(out, "]\n", 2);
  }
  buffer_release(&batch->answers);
  free(batch);
}

static void add_called(struct mcp_door *self, const struct call *call,
                       const struct mcp_called *called) {
  mcp_add_called(answers_of(self, call->batch), call->id, call->version, &self->server, called);
  end_answer(self, call->batch);
}

static void add_not_called(struct mcp_door *self, const struct call *call,
                           const struct buffer *text) {
  add_called(self, call, &(struct mcp_called){.text = text, .is_error = true});
}

/* --- calls ----------------------------------------------------------------------------------- */

static void leave(struct mcp_door *self, int exit_code, const char *reason) {
  engine_leave(&self->door, exit_code, reason);
}

/* Nobody asks any more, and all is answered. */
static void leave_when_done(struct mcp_door *self) {
  if (self->state == ENDED && self->calls == NULL && self->all_taken)
    leave(self, AGENT_EXIT_SHUTDOWN, "the end of standard input");
}

static struct json_member copy_raw(struct json_member raw) {
  if (raw.text != NULL)
    raw.text = memory_copy(raw.text, raw.length);
  return raw;
}

static void free_call(struct call *call) {
  if (call->tool != NULL)
    tool_call_free(call->tool);
  free((char *)(uintptr_t)call->id.text);
  free((char *)(uintptr_t)call->token.text);
  free(call);
}

/* It is over, answered or not. */
static void remove_call(struct mcp_door *self, struct call *call) {
  *(call->previous != NULL ? &call->previous->next : &self->calls) = call->next;
  *(call->next != NULL ? &call->next->previous : &self->last) = call->previous;
  if (self->waiting == call)
    self->waiting = call->next;
  *(call->submitted ? &self->running_memory : &self->waiting_memory) -= call->memory;
  call_ids_remove(&self->ids, &call->entry);
  release_batch(self, call->batch);
  free_call(call);
  leave_when_done(self);
}

static void append_call(struct mcp_door *self, struct call *call) {
  call->previous = self->last;
  *(self->last != NULL ? &self->last->next : &self->calls) = call;
  self->last = call;
  if (self->waiting == NULL)
    self->waiting = call;
  call_ids_add(&self->ids, &call->entry, call->id, call);
  call->memory += call->entry.length;
  self->waiting_memory += call->memory;
}

static void watch_progress(struct mcp_door *self) {
  if (!event_pending(self->progress, EV_TIMEOUT, NULL))
    loop_timer_start(self->progress, MCP_PROGRESS_FIRST_MS);
}

/* NULL: the text is the answer. */
static struct tool_call *make_tool_call(struct mcp_door *self, const struct mcp_order *order,
                                        size_t length, struct buffer *text) {
  char step_id[32];
  if (self->waiting != NULL && self->waiting_memory + length > payload_limit()) {
    buffer_add_string(text,
                      TOOL_ERROR "not run: too many calls wait; try again when some have ended");
    return NULL;
  }
  (void)snprintf(step_id, sizeof step_id, "mcp-%" PRIu64, ++self->step_number);
  return tool_call_new(order->tool, order->arguments, &self->server.tools, step_id, text);
}

static void take_call(struct mcp_door *self, const struct mcp_order *order, size_t length,
                      struct batch *batch) {
  struct buffer text = {0};
  struct tool_call *tool = make_tool_call(self, order, length, &text);
  struct call *call = memory_allocate(sizeof *call);
  *call = (struct call){.tool = tool,
                        .batch = batch,
                        .version = order->version,
                        .id = copy_raw(order->id),
                        .token = copy_raw(order->token),
                        .memory = length + CALL_BYTES,
                        .progress = mcp_progress_begin(clock_monotonic_ms())};
  if (tool == NULL) {
    add_not_called(self, call, &text);
    free_call(call);
  } else {
    if (batch != NULL)
      batch->pending++;
    if (call->token.text != NULL)
      watch_progress(self);
    append_call(self, call);
    submit_waiting(self);
  }
  buffer_release(&text);
}

/* All that have this id: a client that uses one twice means both. */
static void cancel(struct mcp_door *self, struct json_member id) {
  for (struct call *call; (call = call_ids_find(&self->ids, id)) != NULL;) {
    call_ids_remove(&self->ids, &call->entry);
    call->cancelled = true;
    if (call->run != NULL)
      engine_stop(call->run, self->door.terms.grace_ms, "cancelled");
    else
      remove_call(self, call);
  }
}

static void submit(struct mcp_door *self, struct call *call) {
  struct request request = {0};
  tool_call_request(call->tool, &request);
  request.ticket = call;
  call->submitted = true;
  self->waiting_memory -= call->memory;
  self->running_memory += call->memory;
  self->waiting = call->next;
  self->wanted--;
  engine_submit(&self->door, &request);
  step_release(&request.step);
}

/* Large ones wait for each other. */
static bool has_room(const struct mcp_door *self, const struct call *call) {
  return standard_io_unwritten(self->io) <= MCP_DOOR_HOLD_BYTES &&
         (self->running_memory == 0 || self->running_memory + call->memory <= payload_limit());
}

static void submit_waiting(struct mcp_door *self) {
  while (self->wanted > 0 && self->waiting != NULL && has_room(self, self->waiting))
    submit(self, self->waiting);
}

static void begin(struct door *door, struct run *run) {
  (void)door;
  struct call *call = run_ticket(run);
  call->run = run;
  engine_start(run);
}

static void result(struct door *door, const struct run *run, const struct step_event *completed,
                   const struct step_result *step_result) {
  struct mcp_door *self = self_of(door);
  struct call *call = run_ticket(run);
  (void)completed;
  if (!call->cancelled) {
    struct run_result result;
    struct tool_image image;
    struct buffer text = {0};
    struct mcp_called called = {.text = &text};
    run_result_get(run, step_result, &result);
    called.is_error = tool_call_answer(call->tool, &result, &text);
    if (tool_call_image(call->tool, &result, &image))
      called.image = &image;
    if (mcp_has_structured(&self->server, call->version) && tool_call_is_command(call->tool))
      called.structured = &result;
    add_called(self, call, &called);
    buffer_release(&text);
  }
  remove_call(self, call);
}

/* The engine takes no more requests. */
static void drop_waiting(struct mcp_door *self) {
  struct buffer text = {0};
  const char *reason = engine_leaving(&self->door);
  buffer_add_string(&text, TOOL_ERROR "not run: ");
  buffer_add_string(&text, reason != NULL ? reason : "the server ends");
  while (self->waiting != NULL) {
    add_not_called(self, self->waiting, &text);
    remove_call(self, self->waiting);
  }
  buffer_release(&text);
}

static void want(struct door *door, unsigned requests) {
  struct mcp_door *self = self_of(door);
  self->wanted = requests > 0 ? self->wanted + requests : 0;
  if (requests == 0) {
    self->state = LEAVING;
    drop_waiting(self);
  }
  submit_waiting(self);
  if (self->state == LEAVING)
    standard_io_read(self->io, false);
  else
    take_lines(self);
}

/* --- progress -------------------------------------------------------------------------------- */

static void add_progress(struct mcp_door *self, const struct call *call) {
  static const char waits[] = "waiting for other calls to end";
  /* So many characters, of up to four bytes. */
  char message[4 * MCP_PROGRESS_MESSAGE_MAX];
  const char *text = call->run != NULL ? message : waits;
  size_t length =
      call->run != NULL ? run_last_line(call->run, message, sizeof message) : sizeof waits - 1;
  struct buffer *out = standard_io_output(self->io);
  mcp_add_progress(out, call->token, call->version,
                   call->progress.last_ms - call->progress.start_ms, text, length);
  buffer_add(out, "\n", 1);
}

static void on_progress(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct mcp_door *self = context;
  int64_t now_ms = clock_monotonic_ms(), wait_ms = 0;
  for (struct call *call = self->calls; call != NULL; call = call->next) {
    if (call->token.text == NULL || call->cancelled)
      continue;
    uint64_t output = call->run != NULL ? run_output_total(call->run) : 0;
    if (mcp_progress_is_due(&call->progress, now_ms, output) &&
        standard_io_unwritten(self->io) <= MCP_DOOR_HOLD_PROGRESS_BYTES)
      add_progress(self, call);
    int64_t call_ms = mcp_progress_wait(&call->progress, now_ms);
    wait_ms = wait_ms == 0 || call_ms < wait_ms ? call_ms : wait_ms;
  }
  if (wait_ms > 0)
    loop_timer_start(self->progress, wait_ms);
  standard_io_flush(self->io);
}

/* --- lines ----------------------------------------------------------------------------------- */

static void refuse_line(struct mcp_door *self, const char *reason) {
  char text[300];
  static const char prefix[] = "payload: ";
  if (strncmp(reason, prefix, sizeof prefix - 1) == 0)
    reason += sizeof prefix - 1;
  (void)snprintf(text, sizeof text, "Parse error: %s", reason);
  mcp_add_error(answers_of(self, NULL), (struct json_member){0}, MCP_ERROR_PARSE, text);
  end_answer(self, NULL);
}

static void take_messages(struct mcp_door *self, struct mcp_line *line, size_t length,
                          struct batch *batch) {
  struct mcp_message message;
  while (mcp_line_next(line, &message)) {
    struct mcp_order order =
        mcp_session_take(&self->session, &message, batch != NULL, answers_of(self, batch));
    if (order.kind == MCP_ANSWER)
      end_answer(self, batch);
    else if (order.kind == MCP_CALL)
      take_call(self, &order, length, batch);
    else if (order.kind == MCP_CANCEL)
      cancel(self, order.id);
  }
}

static void take_batch(struct mcp_door *self, struct mcp_line *line, size_t length) {
  if (!mcp_session_takes_batch(&self->session, line->count, answers_of(self, NULL))) {
    end_answer(self, NULL);
    return;
  }
  struct batch *batch = memory_allocate(sizeof *batch);
  *batch = (struct batch){.pending = 1}; /* until all of it was taken */
  take_messages(self, line, length / (size_t)line->count, batch);
  release_batch(self, batch);
}

static void take_line(struct mcp_door *self, const struct line *text) {
  struct mcp_line line;
  struct error error;
  if (text->too_long) {
    (void)error_set(&error, "expected a line of at most %zu bytes", self->lines.limit);
    refuse_line(self, error.text);
  } else if (mcp_line_parse(&line, text->text, text->length, &error) != 0) {
    refuse_line(self, error.text);
  } else {
    if (line.is_batch)
      take_batch(self, &line, text->length);
    else
      take_messages(self, &line, text->length, NULL);
    mcp_line_release(&line);
  }
}

/* Whether there is room for answers. */
static bool takes_lines(const struct mcp_door *self) {
  return self->state != LEAVING && standard_io_unwritten(self->io) <= MCP_DOOR_HOLD_BYTES;
}

/* Takes what was read; reads on when all of it was taken. */
static void take_lines(struct mcp_door *self) {
  struct line line;
  if (self->is_taking)
    return;
  self->is_taking = true;
  bool taken = false;
  while (!taken && takes_lines(self))
    if (line_reader_next(&self->lines, &line))
      take_line(self, &line);
    else
      taken = true;
  self->is_taking = false;
  self->all_taken = taken;
  standard_io_read(self->io, taken && self->state == RUNNING);
  leave_when_done(self);
}

static void on_input(void *owner, const char *bytes, size_t length) {
  struct mcp_door *self = owner;
  line_reader_add(&self->lines, bytes, length);
  take_lines(self);
  standard_io_flush(self->io);
}

static void on_input_ended(void *owner) {
  struct mcp_door *self = owner;
  if (self->state != RUNNING)
    return;
  self->state = ENDED;
  self->ended_ms = clock_monotonic_ms();
  loop_timer_start(self->end, MCP_DOOR_END_MS);
  line_reader_end(&self->lines);
  take_lines(self);
  standard_io_flush(self->io);
}

/* --- output ---------------------------------------------------------------------------------- */

static void close_when_written(struct mcp_door *self) {
  if (!self->closing || (self->broken < 0 && standard_io_unwritten(self->io) > 0))
    return;
  self->closing = false;
  engine_door_closed(&self->door, self->broken > 0 ? self->broken : 0);
}

static void on_written(void *owner) {
  struct mcp_door *self = owner;
  submit_waiting(self);
  take_lines(self);
  standard_io_flush(self->io);
  close_when_written(self);
}

/* A client that reads no more has gone. */
static void on_broken(void *owner, int error) {
  struct mcp_door *self = owner;
  self->broken = error == EPIPE ? AGENT_EXIT_SHUTDOWN : AGENT_EXIT_ERROR;
  if (error != EPIPE)
    log_line(self->log, LOG_ERROR, NULL, "cannot write to standard output: %s", strerror(error));
  leave(self, self->broken, "a closed standard output");
  close_when_written(self);
}

static void flush(struct door *door) {
  standard_io_flush(self_of(door)->io);
}

/* --- the end --------------------------------------------------------------------------------- */

static void close_now(struct mcp_door *self) {
  if (self->broken < 0 && standard_io_unwritten(self->io) > 0)
    log_line(self->log, LOG_ERROR, NULL, "%zu bytes of answers were not read",
             standard_io_unwritten(self->io));
  self->closing = false;
  engine_door_closed(&self->door, self->broken > 0 ? self->broken : 0);
}

static void on_end(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct mcp_door *self = context;
  if (self->closing)
    close_now(self);
  else
    leave(self, AGENT_EXIT_SHUTDOWN, "the end of standard input");
}

static void close_door(struct door *door, enum door_close how) {
  struct mcp_door *self = self_of(door);
  if (how == DOOR_CLOSE_NOW) {
    close_now(self);
    return;
  }
  self->closing = true;
  int64_t left_ms = CLOSE_MS;
  if (how == DOOR_CLOSE_PATIENT)
    left_ms = self->ended_ms + MCP_DOOR_GONE_MS - clock_monotonic_ms();
  loop_timer_start(self->end, left_ms > 0 ? left_ms : 0);
  standard_io_flush(self->io);
  close_when_written(self);
}

/* --- the rest -------------------------------------------------------------------------------- */

/* What a command prints is in its result, and no event. */
static size_t room(const struct door *door) {
  (void)door;
  return SIZE_MAX;
}

static void event(struct door *door, const struct run *run, const struct step_event *event) {
  (void)door;
  (void)run;
  (void)event;
}

static void dump(const struct door *door) {
  static const char *const states[] = {"reads", "standard input has ended", "ends"};
  const struct mcp_door *self = (const struct mcp_door *)door;
  size_t running = 0, waiting = 0;
  const struct call *call = self->calls;
  for (; call != self->waiting; call = call->next)
    running++;
  for (; call != NULL; call = call->next)
    waiting++;
  log_line(self->log, LOG_WARN, NULL,
           "state: door mcp: %s, version %s, %zu calls run, %zu wait, %zu bytes not written",
           states[self->state], mcp_version_name(self->session.version), running, waiting,
           standard_io_unwritten(self->io));
}

static const struct door_type mcp_door_type = {.name = "mcp",
                                               .want = want,
                                               .begin = begin,
                                               .room = room,
                                               .event = event,
                                               .flush = flush,
                                               .result = result,
                                               .close = close_door,
                                               .dump = dump};

struct door *mcp_door_new(struct event_base *base, const struct log *log,
                          const struct mcp_door_options *options) {
  static const struct standard_io_handler handler = {
      .input = on_input, .input_ended = on_input_ended, .written = on_written, .broken = on_broken};
  struct mcp_door *self = memory_allocate(sizeof *self);
  *self = (struct mcp_door){
      .door = {.type = &mcp_door_type, .terms = MCP_DOOR_TERMS(options->concurrency)},
      .log = log,
      .server = {.program_version = options->program_version,
                 .versions = options->versions != 0 ? options->versions : MCP_VERSIONS_ALL,
                 .structured = options->structured,
                 .tools = options->tools},
      .lines = {.limit = payload_limit()},
      .broken = -1};
  self->server.tools.clamps_timeout = false;
  self->session = mcp_session_begin(&self->server);
  self->io = standard_io_new(base, &handler, self);
  self->progress = loop_timer_new(base, on_progress, self);
  self->end = loop_timer_new(base, on_end, self);
  return &self->door;
}

void mcp_door_free(struct door *door) {
  struct mcp_door *self = self_of(door);
  for (struct call *call = self->calls, *next; call != NULL; call = next) {
    next = call->next;
    call_ids_remove(&self->ids, &call->entry);
    release_batch(self, call->batch);
    free_call(call);
  }
  standard_io_free(self->io);
  line_reader_release(&self->lines);
  event_free(self->progress);
  event_free(self->end);
  free(self);
}
