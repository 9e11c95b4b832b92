/*
 * Calls wait in a queue, and the first of them runs. What is wrong in a line, and what a tool
 * refuses, waits there too, so that the answers have the order of the lines: no host that is known
 * compares ids.
 *
 * A call with a deadline is answered by then, whatever its command does. Where all have one,
 * deadlines have the order of the queue, so that those of its first call are all that there is to
 * watch:
 *
 *   deadline - grace - kill ahead   SIGTERM
 *   deadline - kill ahead           SIGKILL
 *   deadline - ANSWER_AHEAD         the answer, without the run's end: its process hangs in the
 *                                   kernel. The next call waits for that end, or for its deadline.
 */
#include "agent/doors/stdio/door.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/call_ids.h"
#include "agent/doors/line_reader.h"
#include "agent/doors/standard_io.h"
#include "agent/doors/stdio/stdio_answer.h"
#include "agent/doors/stdio/stdio_request.h"
#include "agent/engine/engine.h"
#include "agent/engine/run_result.h"
#include "agent/exit_code.h"
#include "agent/payload_limit.h"
#include "agent/tools/tool.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "wire/json_extent.h"

#define EXIT_READER_GONE (AGENT_EXIT_SIGNAL + SIGPIPE)
#define EXIT_FAILED 1

/* While more waits than this nothing is read; bytes are those of the lines. With as many bytes
   unwritten no call is started either. */
#define QUEUE_CALLS ((size_t)4096)
#define QUEUE_BYTES ((size_t)16 * 1024 * 1024)
#define UNWRITTEN_BYTES ((size_t)16 * 1024 * 1024)

#define OUTPUT_BYTES ((size_t)51200) /* of each stream */
#define GRACE_MS 2000
#define DRAIN_MS 100
#define LEAVE_BACKGROUND_MS 500

/* Before a deadline: the grace, and then the time to collect what was killed, are a sixteenth of
   the whole time each, within these bounds. */
#define DEADLINE_SHARE 16
#define KILL_AHEAD_MIN_MS 100
#define KILL_AHEAD_MAX_MS 1000
#define ANSWER_AHEAD_MS 30

/* How long close() waits for a reader after a signal. */
#define CLOSE_MS 1000

#define PROGRESS_MS 250
#define PROGRESS_LINE 1024 /* bytes: more than 200 characters have */

#define CANCELLED TOOL_ERROR "cancelled"

enum call_end { CALL_OPEN, CALL_CANCELLED, CALL_EXPIRED };

/* A line that is answered in its turn. */
struct call {
  struct call *next;
  struct stdio_address to; /* its id is owned */
  struct call_id entry;    /* while it may be cancelled */
  size_t bytes;            /* of the line */
  int64_t arrived_ms;      /* monotonic */
  int64_t deadline_ms;     /* the same; 0: there is none */
  struct tool_call *tool;  /* NULL: `text` is the answer */
  int code;                /* then: of an error; 0: the tool has refused its arguments */
  struct buffer text;
  bool wants_progress;
  enum call_end end; /* how its run is ended by this door */
  bool killed;
};

struct stdio_door {
  struct door door; /* first */
  const struct log *log;
  struct stdio_door_options options;
  const struct tool *tool; /* the only one, or NULL */
  struct tool_settings settings;
  struct standard_io *io;
  struct line_reader lines;
  struct json_extent extent; /* of the one-shot's arguments, */
  struct buffer arguments;   /* which these are, */
  bool is_complete;          /* all of them */
  bool speaks_json_rpc;      /* an earlier line did */
  bool input_ended;
  bool is_drained;            /* no line is left in `lines` */
  struct call *first, **last; /* the queue */
  size_t calls, bytes;        /* in it */
  struct call_ids ids;        /* of those in it that may be cancelled */
  unsigned wanted;            /* runs that may be submitted */
  struct call *running;       /* the first of the queue, or, answered already, none of it */
  struct run *run;            /* its run */
  uint64_t number;            /* of the last call */
  int64_t made_ms;            /* monotonic: when the door was made */
  int64_t started_ms;         /* the run, the same */
  unsigned percent;           /* of the last progress */
  uint64_t output_total;      /* at the last progress */
  struct event *deadline;
  struct event *progress;
  struct event *turn;            /* goes on, from the loop */
  struct event *end;             /* of close() */
  struct stdio_address farewell; /* of a shutdown; its id is owned */
  bool shuts_down;               /* and is not answered yet */
  int broken;                    /* the exit code when standard output takes nothing more; else 0 */
  bool closing;                  /* close() waits until everything is written */
};

static struct stdio_door *self_of(struct door *door) {
  return (struct stdio_door *)door;
}

static struct stdio_address address_of(const struct stdio_request *request) {
  struct stdio_address to = {.dialect = request->dialect, .id_length = request->id.length};
  if (request->id.text != NULL)
    to.id = memory_copy(request->id.text, request->id.length);
  return to;
}

static void release_address(struct stdio_address *to) {
  free((char *)(uintptr_t)to->id);
  to->id = NULL;
}

/* --- the queue ------------------------------------------------------------------------------- */

static void free_call(struct call *call) {
  release_address(&call->to);
  tool_call_free(call->tool);
  buffer_release(&call->text);
  free(call);
}

static unsigned deadline_seconds(const struct stdio_door *self, enum stdio_dialect dialect) {
  if (self->options.deadline_seconds > 0)
    return self->options.deadline_seconds;
  return self->options.one_shot || dialect == STDIO_JSON_RPC ? STDIO_DOOR_DEADLINE_SECONDS : 0;
}

static struct call *add_call(struct stdio_door *self, struct stdio_address to, size_t bytes) {
  struct call *call = memory_allocate(sizeof *call);
  *call = (struct call){.to = to, .bytes = bytes, .arrived_ms = clock_monotonic_ms()};
  unsigned seconds = deadline_seconds(self, to.dialect);
  if (self->options.one_shot)
    call->arrived_ms = self->made_ms;
  if (seconds > 0)
    call->deadline_ms = call->arrived_ms + (int64_t)seconds * 1000;
  *self->last = call;
  self->last = &call->next;
  self->calls++;
  self->bytes += bytes;
  return call;
}

static void remove_call(struct stdio_door *self, struct call *call) {
  struct call **link = &self->first;
  while (*link != call)
    link = &(*link)->next;
  *link = call->next;
  if (self->last == &call->next)
    self->last = link;
  self->calls--;
  self->bytes -= call->bytes;
  call_ids_remove(&self->ids, &call->entry);
}

/* A run of it is being ended. */
static void set_end(struct stdio_door *self, struct call *call, enum call_end end) {
  call->end = end;
  call_ids_remove(&self->ids, &call->entry);
}

/* --- answers --------------------------------------------------------------------------------- */

/* The end of a one-shot, too. */
static void answer_only(struct stdio_door *self, const char *text, size_t length,
                        const struct run_result *result, int exit_code) {
  stdio_answer_only(standard_io_output(self->io), text, length, result);
  standard_io_flush(self->io);
  engine_leave(&self->door, exit_code, "the end of its call");
}

static void answer_text(struct stdio_door *self, const struct call *call, const char *text,
                        size_t length) {
  if (self->options.one_shot)
    answer_only(self, text, length, NULL, EXIT_FAILED);
  else
    stdio_answer_refusal(standard_io_output(self->io), &call->to, text, length);
}

static void answer_result(struct stdio_door *self, const struct call *call,
                          const struct run_result *result) {
  if (!self->options.one_shot) {
    stdio_answer_result(standard_io_output(self->io), &call->to, call->tool, result);
    return;
  }
  struct buffer text = {0};
  bool failed = tool_call_answer(call->tool, result, &text);
  answer_only(self, text.bytes != NULL ? text.bytes : "", text.length, result,
              failed ? EXIT_FAILED : 0);
  buffer_release(&text);
}

static void make_timed_out(struct run_result *result) {
  result->failure = RUN_EXECUTED;
  result->exit_code = RUN_EXIT_TIMED_OUT;
  result->timed_out = true;
  result->reason_length = 0;
}

/* A call whose run there is not, or not yet. */
static void answer_expired(struct stdio_door *self, const struct call *call) {
  struct run_result result = {.duration_ms = clock_monotonic_ms() - call->arrived_ms, .reason = ""};
  make_timed_out(&result);
  answer_result(self, call, &result);
}

static void answer_unrun(struct stdio_door *self, const struct call *call) {
  if (call->tool != NULL)
    answer_text(self, call, CANCELLED, strlen(CANCELLED));
  else if (call->code == 0)
    answer_text(self, call, call->text.bytes, call->text.length);
  else
    stdio_answer_error(standard_io_output(self->io), &call->to, call->code, call->text.bytes);
}

/* The last answers: there will be no more runs. */
static void finish(struct stdio_door *self) {
  while (self->first != NULL) {
    struct call *call = self->first;
    remove_call(self, call);
    answer_unrun(self, call);
    free_call(call);
  }
  if (self->shuts_down)
    stdio_answer_json(standard_io_output(self->io), &self->farewell, "null");
  self->shuts_down = false;
  standard_io_flush(self->io);
}

/* --- runs ------------------------------------------------------------------------------------ */

static bool is_leaving(const struct stdio_door *self) {
  return engine_leaving(&self->door) != NULL;
}

static void start_first(struct stdio_door *self) {
  struct request request = {0};
  struct call *call = self->first;
  self->running = call;
  self->wanted--;
  self->percent = 0;
  self->output_total = 0;
  self->started_ms = clock_monotonic_ms();
  if (call->wants_progress)
    loop_timer_start(self->progress, PROGRESS_MS);
  tool_call_request(call->tool, &request);
  request.ticket = call;
  engine_submit(&self->door, &request);
  step_release(&request.step);
}

static void begin(struct door *door, struct run *run) {
  self_of(door)->run = run;
  engine_start(run);
}

static void result(struct door *door, const struct run *run, const struct step_event *completed,
                   const struct step_result *step_result) {
  struct stdio_door *self = self_of(door);
  struct call *call = run_ticket(run);
  struct run_result result;
  (void)completed;
  CHECK(call == self->running);
  self->running = NULL;
  self->run = NULL;
  (void)event_del(self->progress);
  if (call == self->first) {
    remove_call(self, call);
    run_result_get(run, step_result, &result);
    bool was_stopped = result.failure == RUN_STOPPED;
    if (was_stopped && call->end == CALL_EXPIRED)
      make_timed_out(&result);
    if (call->end == CALL_CANCELLED || (was_stopped && call->end == CALL_OPEN))
      answer_text(self, call, CANCELLED, strlen(CANCELLED));
    else
      answer_result(self, call, &result);
  }
  free_call(call);
  if (is_leaving(self))
    finish(self);
  standard_io_flush(self->io);
}

/* --- deadlines ------------------------------------------------------------------------------- */

static int64_t share_of(const struct call *call) {
  return (call->deadline_ms - call->arrived_ms) / DEADLINE_SHARE;
}

static int64_t deadline_grace_ms(const struct call *call) {
  return share_of(call) < GRACE_MS ? share_of(call) : GRACE_MS;
}

static int64_t kill_ahead_ms(const struct call *call) {
  int64_t share_ms = share_of(call) > KILL_AHEAD_MIN_MS ? share_of(call) : KILL_AHEAD_MIN_MS;
  return share_ms < KILL_AHEAD_MAX_MS ? share_ms : KILL_AHEAD_MAX_MS;
}

/* When the next thing is to be done for the first call. */
static int64_t due_ms(const struct stdio_door *self) {
  const struct call *call = self->first;
  int64_t kill_at_ms = call->deadline_ms - kill_ahead_ms(call);
  if (call == self->running && call->end == CALL_OPEN)
    return kill_at_ms - deadline_grace_ms(call);
  if (call == self->running && !call->killed)
    return kill_at_ms;
  return call->deadline_ms - ANSWER_AHEAD_MS;
}

/* Does it; true when the call is answered. */
static bool is_expired(struct stdio_door *self) {
  struct call *call = self->first;
  if (call->tool == NULL || call->deadline_ms == 0)
    return false;
  int64_t now_ms = clock_monotonic_ms();
  while (due_ms(self) <= now_ms) {
    if (call == self->running && !call->killed) {
      call->killed = call->end != CALL_OPEN;
      if (call->end == CALL_OPEN)
        set_end(self, call, CALL_EXPIRED);
      engine_stop(self->run, call->killed ? 0 : deadline_grace_ms(call), "deadline");
      if (self->first != call)
        return true; /* it was over at once */
      continue;
    }
    remove_call(self, call);
    if (call->end == CALL_CANCELLED)
      answer_unrun(self, call);
    else
      answer_expired(self, call);
    if (call != self->running)
      free_call(call);
    return true;
  }
  loop_timer_start(self->deadline, due_ms(self) - now_ms);
  return false;
}

/* --- progress -------------------------------------------------------------------------------- */

static void on_progress(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct stdio_door *self = context;
  const struct call *call = self->running;
  if (call == NULL || call != self->first)
    return;
  int64_t elapsed_ms = clock_monotonic_ms() - self->started_ms;
  int64_t percent = elapsed_ms / (10 * (int64_t)tool_call_timeout(call->tool));
  percent = percent < 99 ? percent : 99;
  uint64_t total = run_output_total(self->run);
  bool is_new = (unsigned)percent > self->percent || total > self->output_total;
  if (is_new && standard_io_unwritten(self->io) == 0) {
    char line[PROGRESS_LINE];
    size_t length = run_last_line(self->run, line, sizeof line);
    self->percent = (unsigned)percent;
    self->output_total = total;
    stdio_answer_progress(standard_io_output(self->io), &call->to, self->percent, line, length);
    standard_io_flush(self->io);
  }
  loop_timer_start(self->progress, PROGRESS_MS);
}

/* --- requests -------------------------------------------------------------------------------- */

static struct tool_call *make_tool_call(struct stdio_door *self, const struct tool *tool,
                                        const cJSON *arguments, struct buffer *text) {
  char id[32];
  (void)snprintf(id, sizeof id, "stdio-%llu", (unsigned long long)++self->number);
  return tool_call_new(tool, arguments, &self->settings, id, text);
}

/* Who cancels compares ids, and need not wait for the turn of a call that waits. */
static void cancel(struct stdio_door *self, const struct stdio_address *to,
                   const struct json_member *id) {
  struct call *call = call_ids_find(&self->ids, *id);
  stdio_answer_json(standard_io_output(self->io), to,
                    call != NULL ? "{\"cancelled\":true}" : "{\"cancelled\":false}");
  if (call == NULL)
    return;
  set_end(self, call, CALL_CANCELLED);
  if (call == self->running) {
    engine_stop(self->run, GRACE_MS, "a cancel request");
    return;
  }
  remove_call(self, call);
  answer_unrun(self, call);
  free_call(call);
}

static void add_error(struct stdio_door *self, const struct stdio_request *request, size_t bytes) {
  struct call *call = add_call(self, address_of(request), bytes);
  call->code = request->code;
  buffer_add_string(&call->text, request->error.text);
  buffer_add(&call->text, "", 1);
}

static void add_tool_call(struct stdio_door *self, const struct stdio_request *request,
                          size_t bytes) {
  struct call *call = add_call(self, address_of(request), bytes);
  call->wants_progress = request->wants_progress && request->dialect == STDIO_PLAIN;
  call->tool = make_tool_call(self, request->tool, request->arguments, &call->text);
  if (call->tool != NULL && request->id.text != NULL)
    call_ids_add(&self->ids, &call->entry, request->id, call);
}

static void serve_request(struct stdio_door *self, const struct stdio_request *request,
                          size_t bytes) {
  const struct stdio_address to = {
      .dialect = request->dialect, .id = request->id.text, .id_length = request->id.length};
  switch (request->method) {
  case STDIO_INVALID:
    add_error(self, request, bytes);
    return;
  case STDIO_CALL:
    add_tool_call(self, request, bytes);
    return;
  case STDIO_INFO:
    stdio_answer_info(standard_io_output(self->io), &to, self->tool, &self->settings,
                      self->options.version);
    return;
  case STDIO_PING:
    stdio_answer_json(standard_io_output(self->io), &to, "{}");
    return;
  case STDIO_CANCEL:
    cancel(self, &to, &request->cancelled);
    return;
  case STDIO_SHUTDOWN:
    self->farewell = address_of(request);
    self->shuts_down = true;
    engine_leave(&self->door, AGENT_EXIT_SHUTDOWN, "a shutdown request");
    return;
  }
}

static void serve_line(struct stdio_door *self, const struct line *line) {
  struct stdio_request request;
  struct error error;
  const struct stdio_rules rules = {.tool = self->tool, .speaks_json_rpc = self->speaks_json_rpc};
  if (line->too_long) {
    (void)error_set(&error, "expected a line of at most %zu bytes", self->lines.limit);
    stdio_request_init_error(&request, &rules, &error);
  } else {
    stdio_request_parse(&request, &rules, line->text, line->length);
  }
  self->speaks_json_rpc = self->speaks_json_rpc || request.dialect == STDIO_JSON_RPC;
  serve_request(self, &request, line->length);
  stdio_request_release(&request);
}

/* --- a one-shot ------------------------------------------------------------------------------ */

static void fail_only(struct stdio_door *self, int exit_code, const char *reason) {
  struct buffer text = {0};
  buffer_add_string(&text, TOOL_ERROR);
  buffer_add_string(&text, reason);
  answer_only(self, text.bytes, text.length, NULL, exit_code);
  buffer_release(&text);
}

static bool is_blank(const struct buffer *text) {
  size_t at = 0;
  while (at < text->length && strchr(" \t\r\n", text->bytes[at]) != NULL && text->bytes[at] != '\0')
    at++;
  return at == text->length;
}

/* What has come is all that comes. No bytes are no arguments. */
static void serve_only(struct stdio_door *self) {
  struct error error;
  cJSON *arguments = NULL;
  self->is_complete = true;
  if (self->arguments.length > payload_limit())
    payload_limit_error(&error);
  else if (!is_blank(&self->arguments))
    arguments = stdio_request_parse_object(self->arguments.bytes, self->arguments.length, &error);
  if (arguments == NULL && !is_blank(&self->arguments)) {
    fail_only(self, EXIT_FAILED, error.text);
  } else {
    struct call *call = add_call(self, (struct stdio_address){0}, self->arguments.length);
    call->tool = make_tool_call(self, self->tool, arguments, &call->text);
  }
  cJSON_Delete(arguments);
  buffer_release(&self->arguments);
}

/* Before the arguments are complete. */
static void await_only(struct stdio_door *self) {
  struct error error;
  int64_t end_ms = self->made_ms + (int64_t)deadline_seconds(self, STDIO_PLAIN) * 1000;
  int64_t left_ms = end_ms - ANSWER_AHEAD_MS - clock_monotonic_ms();
  if (self->options.tool == NULL) {
    fail_only(self, AGENT_EXIT_USAGE, "no tool: expected tool-runner NAME, or TOOL_NAME");
  } else if (self->tool == NULL) {
    (void)error_set(&error, "unknown tool: %s", self->options.tool);
    fail_only(self, AGENT_EXIT_USAGE, error.text);
  } else if (left_ms <= 0) {
    fail_only(self, EXIT_FAILED, "no complete JSON object came on standard input in time");
  } else {
    loop_timer_start(self->deadline, left_ms);
  }
}

/* --- going on -------------------------------------------------------------------------------- */

static bool takes_answers(const struct stdio_door *self) {
  return standard_io_unwritten(self->io) < UNWRITTEN_BYTES;
}

static bool takes_lines(const struct stdio_door *self) {
  return self->calls < QUEUE_CALLS && self->bytes < QUEUE_BYTES && takes_answers(self);
}

static bool takes_input(const struct stdio_door *self) {
  if (is_leaving(self))
    return false;
  return self->options.one_shot ? !self->is_complete : takes_lines(self);
}

/* Runs or answers the first call; false: it has to wait. */
static bool serve_first(struct stdio_door *self) {
  struct call *call = self->first;
  if (call->tool == NULL) {
    remove_call(self, call);
    answer_unrun(self, call);
    free_call(call);
    return true;
  }
  if (is_expired(self))
    return true;
  if (self->running != NULL || self->wanted == 0 || !takes_answers(self))
    return false;
  start_first(self);
  return true;
}

/* Serves the next line, if there may be one more; false: there is none. */
static bool serve_next(struct stdio_door *self) {
  struct line line;
  if (!takes_lines(self))
    return false;
  self->is_drained = !line_reader_next(&self->lines, &line);
  if (!self->is_drained)
    serve_line(self, &line);
  return !self->is_drained;
}

static void leave_at_end(struct stdio_door *self) {
  if (self->input_ended && self->is_drained && self->first == NULL && self->running == NULL)
    engine_leave(&self->door, AGENT_EXIT_SHUTDOWN, "the end of its input");
}

/* From the loop, or with what has come from there: does all that can be done now. */
static void go_on(struct stdio_door *self) {
  bool has_more = true;
  (void)event_del(self->deadline);
  self->is_drained = false;
  if (!is_leaving(self) && self->options.one_shot && !self->is_complete)
    await_only(self);
  while (has_more && !is_leaving(self)) {
    has_more = serve_next(self);
    while (!is_leaving(self) && self->first != NULL && serve_first(self))
      has_more = true;
  }
  standard_io_flush(self->io);
  leave_at_end(self);
  standard_io_read(self->io, takes_input(self));
}

static void on_time(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  go_on(context);
}

static void want(struct door *door, unsigned requests) {
  struct stdio_door *self = self_of(door);
  self->wanted += requests;
  if (requests > 0) {
    loop_timer_start_now(self->turn);
    return;
  }
  standard_io_read(self->io, false);
  (void)event_del(self->turn);
  if (self->running == NULL)
    finish(self);
}

/* --- standard input and output ---------------------------------------------------------------- */

static void on_input(void *owner, const char *bytes, size_t length) {
  struct stdio_door *self = owner;
  if (!self->options.one_shot) {
    line_reader_add(&self->lines, bytes, length);
  } else {
    size_t taken;
    bool is_complete = json_extent_take(&self->extent, bytes, length, &taken);
    buffer_add(&self->arguments, bytes, taken);
    if (is_complete || self->arguments.length > payload_limit())
      serve_only(self);
  }
  go_on(self);
}

static void on_input_ended(void *owner) {
  struct stdio_door *self = owner;
  self->input_ended = true;
  line_reader_end(&self->lines);
  if (self->options.one_shot && !self->is_complete)
    serve_only(self);
  go_on(self);
}

static void close_when_written(struct stdio_door *self) {
  if (self->closing && (self->broken != 0 || standard_io_unwritten(self->io) == 0)) {
    self->closing = false;
    engine_door_closed(&self->door, self->broken);
  }
}

static void on_written(void *owner) {
  struct stdio_door *self = owner;
  if (!is_leaving(self))
    go_on(self);
  close_when_written(self);
}

static void on_broken(void *owner, int error) {
  struct stdio_door *self = owner;
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

/* --- the rest -------------------------------------------------------------------------------- */

static size_t room(const struct door *door) {
  (void)door;
  return SIZE_MAX; /* output is kept with the run */
}

static void event(struct door *door, const struct run *run, const struct step_event *event) {
  (void)door;
  (void)run;
  (void)event;
}

static void flush(struct door *door) {
  standard_io_flush(self_of(door)->io);
}

static void close_now(struct stdio_door *self) {
  size_t unread = standard_io_unwritten(self->io);
  if (self->broken == 0 && unread > 0) {
    log_line(self->log, LOG_ERROR, NULL, "%zu bytes of answers were not read", unread);
    self->broken = EXIT_READER_GONE;
  }
  self->closing = false;
  engine_door_closed(&self->door, self->broken);
}

static void on_end(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct stdio_door *self = context;
  if (self->closing)
    close_now(self);
}

static void close_door(struct door *door, enum door_close how) {
  struct stdio_door *self = self_of(door);
  if (how == DOOR_CLOSE_NOW) {
    close_now(self);
    return;
  }
  self->closing = true;
  if (how == DOOR_CLOSE_PROMPT)
    loop_timer_start(self->end, CLOSE_MS);
  close_when_written(self);
}

static void dump(const struct door *door) {
  const struct stdio_door *self = (const struct stdio_door *)door;
  log_line(self->log, LOG_WARN, NULL,
           "state: door stdio: %zu calls of %zu bytes not answered, %zu bytes not written",
           self->calls, self->bytes, standard_io_unwritten(self->io));
}

static const struct door_type stdio_door_type = {.name = "stdio",
                                                 .want = want,
                                                 .begin = begin,
                                                 .room = room,
                                                 .event = event,
                                                 .flush = flush,
                                                 .result = result,
                                                 .close = close_door,
                                                 .dump = dump};

static const struct door_terms terms = {.runs = 1,
                                        .grace_ms = GRACE_MS,
                                        .drain_ms = DRAIN_MS,
                                        .leave_grace_ms = GRACE_MS,
                                        .leave_background_ms = LEAVE_BACKGROUND_MS,
                                        .guarded = true,
                                        .output_bytes = OUTPUT_BYTES};

struct door *stdio_door_new(struct event_base *base, const struct log *log,
                            const struct stdio_door_options *options) {
  static const struct standard_io_handler handler = {
      .input = on_input, .input_ended = on_input_ended, .written = on_written, .broken = on_broken};
  struct stdio_door *self = memory_allocate(sizeof *self);
  *self =
      (struct stdio_door){.door = {.type = &stdio_door_type, .terms = terms},
                          .log = log,
                          .options = *options,
                          .tool = options->tool != NULL ? tool_find(options->tool) : NULL,
                          .settings = {.default_timeout_seconds = options->default_timeout_seconds,
                                       .max_timeout_seconds = options->max_timeout_seconds,
                                       .clamps_timeout = true,
                                       .directory = options->directory,
                                       .shell = options->shell},
                          .lines = {.limit = payload_limit()},
                          .made_ms = clock_monotonic_ms()};
  CHECK(options->one_shot || options->tool == NULL || self->tool != NULL);
  self->last = &self->first;
  self->io = standard_io_new(base, &handler, self);
  self->deadline = loop_timer_new(base, on_time, self);
  self->progress = loop_timer_new(base, on_progress, self);
  self->turn = loop_timer_new(base, on_time, self);
  self->end = loop_timer_new(base, on_end, self);
  return &self->door;
}

void stdio_door_free(struct door *door) {
  struct stdio_door *self = self_of(door);
  while (self->first != NULL) {
    struct call *call = self->first;
    remove_call(self, call);
    if (call == self->running)
      self->running = NULL;
    free_call(call);
  }
  if (self->running != NULL)
    free_call(self->running);
  standard_io_free(self->io);
  event_free(self->deadline);
  event_free(self->progress);
  event_free(self->turn);
  event_free(self->end);
  line_reader_release(&self->lines);
  buffer_release(&self->arguments);
  release_address(&self->farewell);
  free(self);
}
