/*
 * Errors of invalid lines, and of arguments that a tool rejects, wait among the calls for their
 * turn, so answers have the order of the lines: no known host compares ids.
 */
#include "agent/frontends/stdio/frontend.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exit_code.h"
#include "agent/frontends/calls.h"
#include "agent/frontends/stdio/stdio_line.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* The answer to a call that was cancelled. */
#define CANCELLED TOOL_ERROR "cancelled"

/* The exit code of a runner whose tool has failed. */
#define EXIT_FAILED 1

/* A request that is answered in its turn. */
struct stdio_call {
  struct call call; /* first */
  enum stdio_dialect dialect;
  bool is_shutdown;   /* the last request */
  int code;           /* of an error; 0: the tool has rejected its arguments */
  struct buffer text; /* the answer, if no tool is called */
};

struct stdio_frontend {
  struct calls calls; /* first */
  struct stdio_frontend_options options;
  const struct tool *tool; /* the only one, or NULL */
  int64_t made_ms;         /* monotonic */
  struct event *limit;     /* of a runner: the time for its arguments */
  bool speaks_json_rpc;    /* an earlier line was JSON-RPC */
};

static struct stdio_frontend *self_of(struct frontend *frontend) {
  return (struct stdio_frontend *)frontend;
}

static struct stdio_call *call_of(struct call *call) {
  return (struct stdio_call *)call;
}

static void leave_runner(struct calls *calls, bool failed) {
  const struct stdio_frontend *self = (const struct stdio_frontend *)calls;
  int exit_code = failed ? EXIT_FAILED : 0;
  stdio_channel_flush(&calls->stdio_channel);
  engine_leave(&calls->frontend, self->tool != NULL ? exit_code : AGENT_EXIT_USAGE,
               "the end of its call");
}

static void answer(struct calls *calls, struct call *base, const struct execution_result *end) {
  const struct stdio_call *call = call_of(base);
  const struct stdio_address to = {.dialect = call->dialect, .id = base->id};
  struct buffer *out = stdio_channel_out(&calls->stdio_channel);
  bool failed = true;
  if (call->is_shutdown)
    stdio_answer_json(out, &to, "null");
  else if (call->code != 0)
    stdio_answer_error(out, &to, call->code, call->text.bytes, call->text.length);
  else if (base->tool == NULL)
    stdio_answer_refusal(out, &to, call->text.bytes, call->text.length);
  else if (end == NULL || end->outcome == EXECUTION_STOPPED)
    stdio_answer_refusal(out, &to, CANCELLED, strlen(CANCELLED));
  else
    failed = stdio_answer_result(out, &to, base->tool, end);
  if (to.dialect == STDIO_RUNNER)
    leave_runner(calls, failed);
}

static void report(struct calls *calls, const struct call *call, const char *line, size_t length) {
  const struct stdio_address to = {.id = call->id};
  if (call->execution == NULL)
    return;
  int64_t elapsed_ms = clock_monotonic_ms() - call->begun_ms;
  int64_t percent = elapsed_ms / (10 * (int64_t)call->tool->timeout);
  stdio_answer_progress(stdio_channel_out(&calls->stdio_channel), &to,
                        percent < 99 ? (unsigned)percent : 99, line, length);
}

static void release_call(struct calls *calls, struct call *call) {
  (void)calls;
  buffer_release(&call_of(call)->text);
}

static const struct calls_type calls_type = {
    .answer = answer, .report = report, .release = release_call};

/* Returns the time from the arrival of a request to its deadline; 0: it has none. */
static int64_t deadline_ms(const struct stdio_frontend *self, enum stdio_dialect dialect) {
  unsigned seconds = self->options.deadline_seconds;
  if (seconds == 0 && dialect != STDIO_PLAIN)
    seconds = STDIO_FRONTEND_DEADLINE_SECONDS;
  return (int64_t)seconds * 1000;
}

static void add_call(struct stdio_frontend *self, const struct stdio_request *request,
                     size_t bytes) {
  struct call *base = calls_make(sizeof(struct stdio_call), request->from.id, bytes);
  struct stdio_call *call = call_of(base);
  call->dialect = request->from.dialect;
  if (call->dialect == STDIO_RUNNER)
    base->arrived_ms = self->made_ms;
  int64_t left_ms = deadline_ms(self, call->dialect);
  base->deadline_ms = left_ms > 0 ? base->arrived_ms + left_ms : 0;
  base->reports = request->wants_progress && call->dialect == STDIO_PLAIN;
  call->is_shutdown = request->method == STDIO_SHUTDOWN;
  if (request->method == STDIO_CALL) {
    (void)calls_make_step(&self->calls, base, request->tool, request->arguments, &call->text);
  } else if (request->method == STDIO_INVALID) {
    struct error error = request->error;
    call->code = call->dialect != STDIO_RUNNER ? request->code : 0;
    mask_string(self->calls.settings.masker, error.text, false);
    buffer_add_string(&call->text, call->code != 0 ? "" : TOOL_ERROR);
    buffer_add_string(&call->text, error.text);
  }
  calls_add(&self->calls, base);
}

static void serve_request(struct stdio_frontend *self, const struct stdio_request *request,
                          size_t bytes) {
  const struct stdio_address *to = &request->from;
  struct buffer *out = stdio_channel_out(&self->calls.stdio_channel);
  switch (request->method) {
  case STDIO_INVALID:
  case STDIO_CALL:
    add_call(self, request, bytes);
    return;
  case STDIO_INFO:
    stdio_answer_info(out, to, self->tool, &self->calls.settings, self->options.version);
    return;
  case STDIO_PING:
    stdio_answer_json(out, to, "{}");
    return;
  case STDIO_CANCEL:
    /* This answer comes before those of the calls. */
    stdio_answer_json(out, to,
                      call_ids_find(&self->calls.ids, request->cancelled) != NULL
                          ? "{\"cancelled\":true}"
                          : "{\"cancelled\":false}");
    calls_cancel(&self->calls, request->cancelled);
    return;
  case STDIO_SHUTDOWN:
    add_call(self, request, bytes);
    engine_leave(&self->calls.frontend, AGENT_EXIT_SHUTDOWN, "a shutdown request");
    return;
  }
}

static void handle_line(struct frontend *frontend, const struct input_line *line) {
  struct stdio_frontend *self = self_of(frontend);
  struct stdio_request request;
  struct error error;
  const struct stdio_rules rules = {.tool = self->tool, .speaks_json_rpc = self->speaks_json_rpc};
  if (line->too_long) {
    line_reader_error(&self->calls.stdio_channel.lines, &error);
    stdio_request_init_error(&request, &rules, line->text, line->length, &error);
  } else {
    stdio_request_parse(&request, &rules, line->text, line->length);
  }
  self->speaks_json_rpc = self->speaks_json_rpc || request.from.dialect == STDIO_JSON_RPC;
  serve_request(self, &request, line->length);
  stdio_request_release(&request);
  calls_serve(&self->calls);
}

/* Calls the runner's tool. */
static void handle_arguments(struct frontend *frontend, const char *bytes, size_t length) {
  struct stdio_frontend *self = self_of(frontend);
  struct stdio_request request;
  (void)event_del(self->limit);
  if (engine_leaving(frontend) != NULL)
    return;
  stdio_request_parse_arguments(&request, self->tool, bytes, length);
  add_call(self, &request, length);
  stdio_request_release(&request);
  calls_serve(&self->calls);
}

/* Answers for a runner that cannot call its tool. */
static void refuse_call(struct stdio_frontend *self, const char *reason, const char *subject) {
  struct stdio_request request = {.from = {.dialect = STDIO_RUNNER}};
  (void)error_set(&request.error, "%s%s", reason, subject);
  add_call(self, &request, 0);
  calls_serve(&self->calls);
}

LOOP_CALLBACK(on_limit, struct stdio_frontend *self) {
  refuse_call(self, "no complete JSON object came on standard input in time", "");
}

/* A host may write all requests before it reads, so lines wait in the pipe if the queue is full. */
static bool may_take_lines(const struct frontend *frontend) {
  return !calls_are_full((const struct calls *)frontend, 0);
}

static void want(struct frontend *frontend, unsigned requests) {
  struct stdio_frontend *self = self_of(frontend);
  const char *tool = self->options.tool;
  if (requests == 0 || self->tool != NULL || !self->options.is_runner)
    calls_frontend_want(frontend, requests);
  else if (tool == NULL)
    refuse_call(self, "no tool: expected tool-runner NAME, or TOOL_NAME", "");
  else
    refuse_call(self, "unknown tool: ", tool);
}

static void free_frontend(struct frontend *frontend) {
  struct stdio_frontend *self = self_of(frontend);
  calls_release(&self->calls);
  event_free(self->limit);
  free(self);
}

static const struct frontend_type stdio_frontend_type = {.name = "stdio",
                                                         .want = want,
                                                         .begin = calls_frontend_begin,
                                                         .flush = calls_frontend_flush,
                                                         .result = calls_frontend_result,
                                                         .close = calls_frontend_close,
                                                         .dump = calls_frontend_dump,
                                                         .free = free_frontend};

static const struct stdio_channel_type stdio_channel_type = {.line = handle_line,
                                                             .may_take = may_take_lines,
                                                             .go_on = calls_frontend_go_on,
                                                             .gone = AGENT_EXIT_SHUTDOWN,
                                                             .fast_ms = STDIO_CHANNEL_FAST_MS,
                                                             .stall_ms = STDIO_FRONTEND_STALL_MS};

static const struct stdio_channel_type runner_stdio_channel_type = {
    .value = handle_arguments,
    .go_on = calls_frontend_go_on,
    .gone = AGENT_EXIT_SIGNAL + SIGPIPE,
    .fast_ms = STDIO_CHANNEL_FAST_MS};

struct frontend *stdio_frontend_new(struct event_base *base, const struct log *log,
                                    const struct stdio_frontend_options *options) {
  struct stdio_frontend *self = memory_allocate(sizeof *self);
  bool is_runner = options->is_runner;
  *self =
      (struct stdio_frontend){.calls = {.frontend = {.type = &stdio_frontend_type,
                                                     .terms = CALLS_TERMS(1, CALLS_GRACE_MS, 500)},
                                        .settings = options->tools},
                              .options = *options,
                              .tool = options->tool != NULL ? tool_find(options->tool) : NULL,
                              .made_ms = clock_monotonic_ms()};
  self->calls.settings.limits.clamps_timeout = true;
  self->calls.settings.masker = log->masker;
  CHECK(is_runner || options->tool == NULL || self->tool != NULL);
  calls_init(&self->calls, base, log, &calls_type,
             is_runner ? &runner_stdio_channel_type : &stdio_channel_type);
  self->limit = loop_timer_new(base, on_limit, self);
  if (is_runner)
    loop_timer_start(self->limit, deadline_ms(self, STDIO_RUNNER) - CALLS_ANSWER_AHEAD_MS);
  return &self->calls.frontend;
}
