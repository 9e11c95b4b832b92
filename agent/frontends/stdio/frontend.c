/*
 * Errors of invalid lines, and of arguments that a tool rejects, wait among the calls for their
 * turn, so answers have the order of the lines: no known host compares ids.
 */
#include "agent/frontends/stdio/frontend.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exit_code.h"
#include "agent/frontends/stdio/stdio_call.h"
#include "agent/frontends/stdio_calls.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* The exit code of a runner whose tool has failed. */
#define EXIT_FAILED 1

struct stdio_frontend {
  struct stdio_calls stdio; /* first */
  struct stdio_frontend_options options;
  const struct tool *tool; /* the only one, or NULL */
  int64_t made_ms;         /* monotonic */
  struct event *limit;     /* of a runner: the time for its arguments */
  bool speaks_json_rpc;    /* an earlier line was JSON-RPC */
};

static struct stdio_frontend *self_of(struct frontend *frontend) {
  return (struct stdio_frontend *)frontend;
}

static void leave_runner(struct calls *calls, bool failed) {
  const struct stdio_frontend *self = (const struct stdio_frontend *)calls;
  int exit_code = failed ? EXIT_FAILED : 0;
  stdio_calls_flush(&calls->frontend);
  engine_leave(&calls->frontend, self->tool != NULL ? exit_code : AGENT_EXIT_USAGE,
               "the end of its call");
}

static void answer(struct calls *calls, struct call *base, const struct execution_result *end) {
  const struct stdio_call *call = stdio_call_of(base);
  bool failed = stdio_call_answer(call, end, stdio_calls_out(calls));
  if (call->dialect == STDIO_RUNNER)
    leave_runner(calls, failed);
}

static void report(struct calls *calls, const struct call *call, const char *line, size_t length) {
  struct buffer *out = stdio_calls_progress_out(calls);
  if (out != NULL)
    stdio_call_report((const struct stdio_call *)call, line, length, out);
}

static const struct calls_type calls_type = {.answer = answer,
                                             .report = report,
                                             .release = stdio_call_release,
                                             .has_capacity = stdio_calls_has_capacity,
                                             .served = stdio_calls_served,
                                             .keeps_order = true};

static void add_call(struct stdio_frontend *self, const struct stdio_request *request,
                     size_t bytes) {
  struct stdio_call *call = stdio_call_new(&self->stdio.calls, request, bytes);
  if (call->dialect == STDIO_RUNNER)
    call->call.arrived_ms = self->made_ms;
  stdio_call_set_deadline(call, self->options.deadline_seconds);
  calls_add(&self->stdio.calls, &call->call);
}

static void serve_request(struct stdio_frontend *self, const struct stdio_request *request,
                          size_t bytes) {
  struct calls *calls = &self->stdio.calls;
  if (stdio_control_answer(calls, request, self->tool, self->options.version,
                           stdio_calls_out(calls)))
    return;
  add_call(self, request, bytes);
  if (request->method == STDIO_SHUTDOWN)
    engine_leave(&calls->frontend, AGENT_EXIT_SHUTDOWN, "a shutdown request");
}

static void handle_line(struct frontend *frontend, const struct input_line *line) {
  struct stdio_frontend *self = self_of(frontend);
  struct stdio_request request;
  struct error error;
  const struct stdio_rules rules = {.tool = self->tool, .speaks_json_rpc = self->speaks_json_rpc};
  if (line->too_long) {
    line_reader_error(&self->stdio.channel.lines, &error);
    stdio_request_init_error(&request, &rules, line->text, line->length, &error);
  } else {
    stdio_request_parse(&request, &rules, line->text, line->length);
  }
  self->speaks_json_rpc = self->speaks_json_rpc || request.from.dialect == STDIO_JSON_RPC;
  serve_request(self, &request, line->length);
  stdio_request_release(&request);
  calls_serve(&self->stdio.calls);
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
  calls_serve(&self->stdio.calls);
}

/* Answers for a runner that cannot call its tool. */
static void refuse_call(struct stdio_frontend *self, const char *reason, const char *subject) {
  struct stdio_request request = {.from = {.dialect = STDIO_RUNNER}};
  (void)error_set(&request.error, "%s%s", reason, subject);
  add_call(self, &request, 0);
  calls_serve(&self->stdio.calls);
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
    stdio_calls_want(frontend, requests);
  else if (tool == NULL)
    refuse_call(self, "no tool: expected tool-runner NAME, or TOOL_NAME", "");
  else
    refuse_call(self, "unknown tool: ", tool);
}

static void free_frontend(struct frontend *frontend) {
  struct stdio_frontend *self = self_of(frontend);
  stdio_calls_release(&self->stdio);
  event_free(self->limit);
  free(self);
}

static const struct frontend_type stdio_frontend_type = {.name = "stdio",
                                                         .want = want,
                                                         .begin = calls_frontend_begin,
                                                         .flush = stdio_calls_flush,
                                                         .result = calls_frontend_result,
                                                         .close = stdio_calls_close,
                                                         .dump = stdio_calls_dump,
                                                         .free = free_frontend};

static const struct stdio_channel_type stdio_channel_type = {.line = handle_line,
                                                             .may_take = may_take_lines,
                                                             .go_on = stdio_calls_go_on,
                                                             .gone = AGENT_EXIT_SHUTDOWN,
                                                             .fast_ms = STDIO_CHANNEL_FAST_MS,
                                                             .stall_ms = STDIO_FRONTEND_STALL_MS};

static const struct stdio_channel_type runner_stdio_channel_type = {
    .value = handle_arguments,
    .go_on = stdio_calls_go_on,
    .gone = AGENT_EXIT_SIGNAL + SIGPIPE,
    .fast_ms = STDIO_CHANNEL_FAST_MS};

struct frontend *stdio_frontend_new(struct event_base *base, const struct log *log,
                                    const struct stdio_frontend_options *options) {
  struct stdio_frontend *self = memory_allocate(sizeof *self);
  bool is_runner = options->is_runner;
  *self = (struct stdio_frontend){
      .stdio.calls = {.frontend = {.type = &stdio_frontend_type,
                                   .terms = CALLS_TERMS(1, CALLS_GRACE_MS, 500)},
                      .settings = options->tools},
      .options = *options,
      .tool = options->tool != NULL ? tool_find(options->tool) : NULL,
      .made_ms = clock_monotonic_ms()};
  self->stdio.calls.settings.limits.clamps_timeout = true;
  self->stdio.calls.settings.masker = log->masker;
  CHECK(is_runner || options->tool == NULL || self->tool != NULL);
  stdio_calls_init(&self->stdio, base, log, &calls_type,
                   is_runner ? &runner_stdio_channel_type : &stdio_channel_type);
  self->limit = loop_timer_new(base, on_limit, self);
  if (is_runner)
    loop_timer_start(self->limit, stdio_deadline_ms(options->deadline_seconds, STDIO_RUNNER) -
                                      CALLS_ANSWER_AHEAD_MS);
  return &self->stdio.calls.frontend;
}
