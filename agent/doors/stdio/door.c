/*
 * What is wrong in a line, and what a tool refuses, waits among the calls for its turn, so that the
 * answers have the order of the lines: no host that is known compares ids.
 */
#include "agent/doors/stdio/door.h"

#include <stdlib.h>
#include <string.h>

#include "agent/doors/calls.h"
#include "agent/doors/stdio/stdio_answer.h"
#include "agent/doors/stdio/stdio_request.h"
#include "agent/exit_code.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"

/* A line that is answered in its turn. */
struct stdio_call {
  struct call call; /* first */
  enum stdio_dialect dialect;
  int code;           /* of an error; 0: the tool has refused its arguments */
  struct buffer text; /* the answer, where no tool is called */
};

struct stdio_door {
  struct calls calls; /* first */
  struct stdio_door_options options;
  const struct tool *tool;       /* the only one, or NULL */
  bool speaks_json_rpc;          /* an earlier line did */
  struct stdio_address farewell; /* of a shutdown; its id is owned */
  bool shuts_down;               /* and is not answered yet */
};

static struct stdio_door *self_of(struct door *door) {
  return (struct stdio_door *)door;
}

static struct stdio_call *call_of(struct call *call) {
  return (struct stdio_call *)call;
}

/* --- answers --------------------------------------------------------------------------------- */

static void over(struct calls *calls, struct call *base, const struct run_end *end) {
  const struct stdio_call *call = call_of(base);
  const struct stdio_address to = {.dialect = call->dialect, .id = base->id};
  struct buffer *out = speaker_out(&calls->speaker);
  if (call->code != 0)
    stdio_answer_error(out, &to, call->code, call->text.bytes);
  else if (base->tool == NULL)
    stdio_answer_refusal(out, &to, call->text.bytes, call->text.length);
  else if (end == NULL || end->how == RUN_STOPPED)
    stdio_answer_refusal(out, &to, STDIO_CANCELLED, strlen(STDIO_CANCELLED));
  else
    stdio_answer_result(out, &to, base->tool, end);
}

static void report(struct calls *calls, const struct call *call, const char *line, size_t length) {
  const struct stdio_address to = {.id = call->id};
  if (call->run == NULL)
    return;
  int64_t elapsed_ms = clock_monotonic_ms() - call->begun_ms;
  int64_t percent = elapsed_ms / (10 * (int64_t)tool_call_timeout(call->tool));
  stdio_answer_progress(speaker_out(&calls->speaker), &to, percent < 99 ? (unsigned)percent : 99,
                        line, length);
}

static void release_call(struct calls *calls, struct call *call) {
  (void)calls;
  buffer_release(&call_of(call)->text);
}

static const struct calls_type calls_type = {
    .over = over, .report = report, .release = release_call};

/* --- requests -------------------------------------------------------------------------------- */

static void add_call(struct stdio_door *self, const struct stdio_request *request, size_t bytes) {
  struct call *base = calls_make(sizeof(struct stdio_call), request->id, bytes);
  struct stdio_call *call = call_of(base);
  bool is_json_rpc = request->dialect == STDIO_JSON_RPC;
  unsigned seconds = self->options.deadline_seconds;
  if (seconds == 0 && is_json_rpc)
    seconds = STDIO_DOOR_DEADLINE_SECONDS;
  if (seconds > 0)
    base->deadline_ms = base->arrived_ms + (int64_t)seconds * 1000;
  base->reports = request->wants_progress && !is_json_rpc;
  call->dialect = request->dialect;
  if (request->method == STDIO_CALL) {
    (void)calls_make_step(&self->calls, base, request->tool, request->arguments, &call->text);
  } else {
    call->code = request->code;
    buffer_add(&call->text, request->error.text, strlen(request->error.text) + 1);
  }
  calls_add(&self->calls, base);
}

static void shut_down(struct stdio_door *self, const struct stdio_address *to) {
  self->farewell = *to;
  if (to->id.text != NULL)
    self->farewell.id.text = memory_copy(to->id.text, to->id.length);
  self->shuts_down = true;
  engine_leave(&self->calls.door, AGENT_EXIT_SHUTDOWN, "a shutdown request");
}

static void serve_request(struct stdio_door *self, const struct stdio_request *request,
                          size_t bytes) {
  const struct stdio_address to = {.dialect = request->dialect, .id = request->id};
  struct buffer *out = speaker_out(&self->calls.speaker);
  switch (request->method) {
  case STDIO_INVALID:
  case STDIO_CALL:
    add_call(self, request, bytes);
    return;
  case STDIO_INFO:
    stdio_answer_info(out, &to, self->tool, &self->calls.settings, self->options.version);
    return;
  case STDIO_PING:
    stdio_answer_json(out, &to, "{}");
    return;
  case STDIO_CANCEL:
    /* First this answer: then those of the calls follow. */
    stdio_answer_json(out, &to,
                      call_ids_find(&self->calls.ids, request->cancelled) != NULL
                          ? "{\"cancelled\":true}"
                          : "{\"cancelled\":false}");
    calls_cancel(&self->calls, request->cancelled);
    return;
  case STDIO_SHUTDOWN:
    shut_down(self, &to);
    return;
  }
}

static void take_line(struct door *door, const struct input_line *line) {
  struct stdio_door *self = self_of(door);
  struct stdio_request request;
  struct error error;
  const struct stdio_rules rules = {.tool = self->tool, .speaks_json_rpc = self->speaks_json_rpc};
  if (line->too_long) {
    line_reader_error(&self->calls.speaker.lines, &error);
    stdio_request_init_error(&request, &rules, &error);
  } else {
    stdio_request_parse(&request, &rules, line->text, line->length);
  }
  self->speaks_json_rpc = self->speaks_json_rpc || request.dialect == STDIO_JSON_RPC;
  serve_request(self, &request, line->length);
  stdio_request_release(&request);
  calls_serve(&self->calls);
}

/* A host may write all before it reads, and is to be answered in order. */
static bool takes_lines(const struct door *door) {
  return !calls_are_full((const struct calls *)door, 0);
}

/* --- the door -------------------------------------------------------------------------------- */

/* When all else is answered. */
static void say_farewell(struct stdio_door *self) {
  if (!self->shuts_down || self->calls.first != NULL)
    return;
  stdio_answer_json(speaker_out(&self->calls.speaker), &self->farewell, "null");
  speaker_flush(&self->calls.speaker);
  self->shuts_down = false;
}

static void want(struct door *door, unsigned requests) {
  calls_door_want(door, requests);
  say_farewell(self_of(door));
}

static void result(struct door *door, const struct run *run, const struct run_end *end) {
  calls_door_result(door, run, end);
  say_farewell(self_of(door));
}

static const struct door_type stdio_door_type = {.name = "stdio",
                                                 .want = want,
                                                 .begin = calls_door_begin,
                                                 .flush = calls_door_flush,
                                                 .result = result,
                                                 .close = calls_door_close,
                                                 .dump = calls_door_dump};

static const struct speaker_type speaker_type = {.line = take_line,
                                                 .takes = takes_lines,
                                                 .go_on = calls_door_go_on,
                                                 .gone = AGENT_EXIT_SHUTDOWN,
                                                 .prompt_ms = SPEAKER_PROMPT_MS};

struct door *stdio_door_new(struct event_base *base, const struct log *log,
                            const struct stdio_door_options *options) {
  struct stdio_door *self = memory_allocate(sizeof *self);
  *self =
      (struct stdio_door){.calls = {.door = {.type = &stdio_door_type, .terms = STDIO_DOOR_TERMS},
                                    .settings = options->tools},
                          .options = *options,
                          .tool = options->tool != NULL ? tool_find(options->tool) : NULL};
  self->calls.settings.clamps_timeout = true;
  CHECK(options->tool == NULL || self->tool != NULL);
  calls_init(&self->calls, base, log, &calls_type, &speaker_type);
  return &self->calls.door;
}

void stdio_door_free(struct door *door) {
  struct stdio_door *self = self_of(door);
  calls_release(&self->calls);
  free((char *)(uintptr_t)self->farewell.id.text);
  free(self);
}
