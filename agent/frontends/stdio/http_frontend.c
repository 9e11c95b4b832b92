#include "agent/frontends/stdio/http_frontend.h"

#include <stdlib.h>

#include "agent/exit_code.h"
#include "agent/frontends/http_calls.h"
#include "agent/frontends/stdio/stdio_call.h"
#include "base/check.h"
#include "base/memory.h"

struct stdio_http_frontend {
  struct http_calls http; /* first */
  struct stdio_frontend_options options;
  const struct tool *tool; /* the only one, or NULL */
};

/* --- answers --------------------------------------------------------------------------------- */

/* A request without an answer is a notification. */
static void respond(struct http_exchange *exchange, int status, struct buffer *line) {
  if (line->length > 0)
    http_respond(exchange, status, "application/json", NULL, line);
  else
    http_respond(exchange, 202, NULL, NULL, NULL);
}

static void end_stream(struct http_exchange *exchange, const struct buffer *line) {
  http_stream_write(exchange, line->bytes, line->length);
  http_stream_end(exchange);
}

/* The user data of a call is its exchange, until that is over. */
static void answer(struct calls *calls, struct call *base, const struct execution_result *end) {
  const struct stdio_call *call = stdio_call_of(base);
  struct http_exchange *exchange = call->user_data;
  struct buffer line = {0};
  (void)calls;
  if (exchange == NULL)
    return;
  (void)stdio_call_answer(call, end, &line);
  http_calls_answered(exchange);
  if (base->reports)
    end_stream(exchange, &line);
  else
    respond(exchange, 200, &line);
  buffer_release(&line);
}

static void report(struct calls *calls, const struct call *base, const char *text, size_t length) {
  const struct stdio_call *call = (const struct stdio_call *)base;
  struct http_exchange *exchange = call->user_data;
  struct buffer line = {0};
  (void)calls;
  if (exchange == NULL || !http_calls_may_report(exchange))
    return;
  stdio_call_report(call, text, length, &line);
  http_stream_write(exchange, line.bytes, line.length);
  buffer_release(&line);
}

/* --- requests -------------------------------------------------------------------------------- */

/* Answers a request that calls no tool. */
static void answer_now(struct stdio_http_frontend *self, struct http_exchange *exchange,
                       const struct stdio_request *request, struct stdio_call *call) {
  bool is_json = request->method != STDIO_INVALID || request->code != STDIO_PARSE_ERROR;
  struct buffer line = {0};
  (void)stdio_call_answer(call, NULL, &line);
  respond(exchange, is_json ? 200 : 400, &line);
  calls_free(&self->http.calls, &call->call);
  if (request->method == STDIO_SHUTDOWN)
    engine_leave(&self->http.calls.frontend, AGENT_EXIT_SHUTDOWN, "a shutdown request");
}

static void add_call(struct stdio_http_frontend *self, struct http_exchange *exchange,
                     struct stdio_call *call) {
  const struct http_request *request = http_exchange_request(exchange);
  struct calls *calls = &self->http.calls;
  if (!http_exchange_admit_long(exchange)) {
    calls_free(calls, &call->call);
    return;
  }
  call->user_data = exchange;
  http_exchange_set_user_data(exchange, call);
  stdio_call_set_deadline(call, self->options.deadline_seconds);
  call->call.reports = call->call.reports && http_request_accepts(request, "application/x-ndjson");
  if (call->call.reports)
    http_stream_begin(exchange, 200, "application/x-ndjson", HTTP_CALLS_STREAM_FIELDS,
                      HTTP_STREAM_OPEN);
  calls_add(calls, &call->call);
}

static void serve_request(struct stdio_http_frontend *self, struct http_exchange *exchange,
                          const struct stdio_request *request, size_t bytes) {
  struct calls *calls = &self->http.calls;
  struct buffer line = {0};
  if (stdio_control_answer(calls, request, self->tool, self->options.version, &line)) {
    respond(exchange, 200, &line);
    return;
  }
  struct stdio_call *call = stdio_call_new(calls, request, bytes);
  if (call->call.tool == NULL)
    answer_now(self, exchange, request, call);
  else
    add_call(self, exchange, call);
}

static void serve(struct http_calls *http, struct http_exchange *exchange) {
  struct stdio_http_frontend *self = (struct stdio_http_frontend *)http;
  const struct stdio_rules rules = {.tool = self->tool, .is_execute = true};
  struct buffer *body = http_exchange_body(exchange);
  struct stdio_request request;
  stdio_request_parse(&request, &rules, body->length > 0 ? body->bytes : "", body->length);
  serve_request(self, exchange, &request, body->length);
  stdio_request_release(&request);
  buffer_release(body);
  calls_serve(&http->calls);
}

static void forget_exchange(void *user_data) {
  struct stdio_call *call = user_data;
  call->user_data = NULL;
}

static void cancel_call(struct http_calls *http, void *user_data) {
  struct stdio_call *call = user_data;
  calls_cancel_call(&http->calls, &call->call);
}

/* --- the frontend ---------------------------------------------------------------------------- */

static void free_frontend(struct frontend *frontend) {
  struct stdio_http_frontend *self = (struct stdio_http_frontend *)frontend;
  http_calls_release(&self->http);
  free(self);
}

static const struct frontend_type frontend_type = {.name = "stdio",
                                                   .want = http_calls_want,
                                                   .begin = calls_frontend_begin,
                                                   .result = calls_frontend_result,
                                                   .close = http_calls_close,
                                                   .dump = http_calls_dump,
                                                   .free = free_frontend};

static const struct calls_type calls_type = {.answer = answer,
                                             .report = report,
                                             .release = stdio_call_release,
                                             .has_capacity = http_calls_has_capacity};

static const struct http_calls_type http_calls_type = {
    .mode = "stdio", .serve = serve, .gone = cancel_call, .forget = forget_exchange};

struct frontend *stdio_http_frontend_new(struct event_base *base, const struct log *log,
                                         const struct stdio_frontend_options *options,
                                         const struct http_options *http) {
  struct stdio_http_frontend *self = memory_zeros(sizeof *self);
  *self = (struct stdio_http_frontend){
      .http.calls = {.frontend = {.type = &frontend_type,
                                  .terms = CALLS_TERMS(options->concurrency, CALLS_GRACE_MS, 500)},
                     .settings = options->tools},
      .options = *options,
      .tool = options->tool != NULL ? tool_find(options->tool) : NULL};
  self->http.calls.settings.limits.clamps_timeout = true;
  self->http.calls.settings.masker = log->masker;
  CHECK(options->tool == NULL || self->tool != NULL);
  http_calls_init(&self->http, base, log, &http_calls_type, &calls_type, http, "/execute");
  return &self->http.calls.frontend;
}
