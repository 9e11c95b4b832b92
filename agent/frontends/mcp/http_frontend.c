/*
 * Each request has a post, which lives until its reply is complete. It loses its exchange when the
 * client leaves earlier; the reply is then discarded.
 *
 *   WAITS --a progress token, or MCP_HTTP_EVENTS_MS--> STREAMS --reply--> freed
 *     `--reply--> freed
 */
#include "agent/frontends/mcp/http_frontend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/http_calls.h"
#include "agent/frontends/mcp/http_rules.h"
#include "agent/frontends/mcp/reply.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"

#define SESSION_FIELD "Mcp-Session-Id"

struct mcp_http_frontend {
  struct http_calls http; /* first */
  struct event_base *base;
  struct mcp_session session;
  struct mcp_host host;
};

struct post {
  struct mcp_reply reply;         /* first */
  struct http_exchange *exchange; /* NULL: it is over */
  char *scope;                    /* the session of the client; owned; NULL: none */
  struct mcp_http_verdict verdict;
  bool accepts_events;
  enum { POST_WAITS, POST_STREAMS } state;
  struct event *timer; /* the time to begin the stream, then to write a comment */
};

static struct mcp_http_frontend *self_of(struct frontend *frontend) {
  return (struct mcp_http_frontend *)frontend;
}

static struct post *post_of(struct mcp_reply *reply) {
  return (struct post *)reply;
}

static void free_post(struct post *self) {
  mcp_reply_release(&self->reply);
  event_free(self->timer);
  free(self->scope);
  free(self);
}

/* --- streams --------------------------------------------------------------------------------- */

static void begin_stream(struct post *self) {
  if (self->state == POST_STREAMS)
    return;
  self->state = POST_STREAMS;
  http_stream_begin(self->exchange, 200, "text/event-stream", HTTP_CALLS_STREAM_FIELDS,
                    HTTP_STREAM_OPEN);
  loop_timer_start(self->timer, MCP_HTTP_SILENCE_MS);
}

static void write_event(struct post *self, const struct buffer *message) {
  struct buffer event = {0};
  buffer_add_string(&event, "event: message\ndata: ");
  buffer_add(&event, message->bytes, message->length);
  buffer_add_string(&event, "\n\n");
  http_stream_write(self->exchange, event.bytes, event.length);
  loop_timer_start(self->timer, MCP_HTTP_SILENCE_MS);
  buffer_release(&event);
}

LOOP_CALLBACK(on_timer, struct post *self) {
  static const char comment[] = ":\n\n";
  if (self->exchange == NULL)
    return;
  if (self->state == POST_WAITS) {
    begin_stream(self);
    return;
  }
  http_stream_write(self->exchange, comment, sizeof comment - 1);
  loop_timer_start(self->timer, MCP_HTTP_SILENCE_MS);
}

static bool wants_progress(const struct post *self) {
  return self->accepts_events && self->reply.has_progress;
}

static void report(struct calls *calls, const struct call *call, const char *line, size_t length) {
  struct post *self = post_of(((const struct mcp_call *)call)->reply);
  struct buffer message = {0};
  (void)calls;
  if (self->exchange == NULL || !self->accepts_events)
    return;
  begin_stream(self);
  if (!http_calls_may_report(self->exchange))
    return;
  mcp_call_report(call, line, length, &message);
  write_event(self, &message);
  buffer_release(&message);
}

/* --- replies --------------------------------------------------------------------------------- */

/* The id of a new session is not stored: it only tells the cancels of clients apart. */
static void respond_session(struct post *self) {
  char field[80];
  (void)snprintf(field, sizeof field, SESSION_FIELD ": %016llx%016llx\r\n",
                 (unsigned long long)random_u64(), (unsigned long long)random_u64());
  http_respond(self->exchange, 200, "application/json", field, &self->reply.answers);
}

static void respond(struct post *self) {
  const int status = mcp_http_status(self->reply.error, self->verdict.is_modern);
  if (self->reply.answers.length == 0)
    http_respond(self->exchange, 202, NULL, NULL, NULL);
  else if (self->verdict.is_initialize && self->reply.error == MCP_NO_ERROR)
    respond_session(self);
  else
    http_respond(self->exchange, status, "application/json", NULL, &self->reply.answers);
}

static void end_stream(struct post *self) {
  begin_stream(self);
  if (self->reply.answers.length > 0)
    write_event(self, &self->reply.answers);
  http_stream_end(self->exchange);
}

static void send_reply(struct mcp_reply *reply) {
  struct post *self = post_of(reply);
  if (self->exchange != NULL) {
    http_calls_answered(self->exchange);
    if (self->state == POST_STREAMS || (reply->answers.length > 0 && wants_progress(self)))
      end_stream(self);
    else
      respond(self);
  }
  free_post(self);
}

/* --- requests -------------------------------------------------------------------------------- */

static struct post *new_post(struct mcp_http_frontend *self, struct http_exchange *exchange) {
  const struct http_request *request = http_exchange_request(exchange);
  const char *scope = http_request_field(request, SESSION_FIELD);
  struct post *post = memory_zeros(sizeof *post);
  mcp_reply_init(&post->reply, &self->host);
  post->exchange = exchange;
  post->scope = scope != NULL ? memory_copy(scope, strlen(scope)) : NULL;
  post->accepts_events = http_request_accepts(request, "text/event-stream");
  post->timer = loop_timer_new(self->base, on_timer, post);
  return post;
}

/* Nobody waits for the reply, because the exchange was answered otherwise. */
static void discard_post(struct post *post) {
  post->exchange = NULL;
  mcp_reply_end(&post->reply);
}

/* Handles the messages. Returns false if the exchange was answered. */
static bool handle(struct mcp_http_frontend *self, struct post *post, struct mcp_line *line,
                   size_t length) {
  const struct http_request *request = http_exchange_request(post->exchange);
  const struct mcp_http_fields fields = {.version =
                                             http_request_field(request, "MCP-Protocol-Version"),
                                         .method = http_request_field(request, "Mcp-Method"),
                                         .name = http_request_field(request, "Mcp-Name")};
  struct mcp_session session = self->session;
  struct mcp_reply *reply = &post->reply;
  post->verdict = mcp_http_check(&session, &fields, line, &reply->answers);
  reply->error = post->verdict.error;
  if (reply->error != MCP_NO_ERROR)
    return true;
  if ((line->is_batch && !http_exchange_admit_output(post->exchange)) ||
      (post->verdict.has_calls && !http_exchange_admit_long(post->exchange)))
    return false;
  reply->scope = post->verdict.is_modern ? NULL : post->scope;
  reply->ignores_cancels = post->verdict.is_modern;
  mcp_reply_handle(reply, &session, line, length);
  return true;
}

/* A call has begun or waits: the response follows. */
static void await_calls(struct post *post) {
  http_exchange_set_user_data(post->exchange, post);
  if (wants_progress(post))
    begin_stream(post);
  else if (post->accepts_events)
    loop_timer_start(post->timer, MCP_HTTP_EVENTS_MS);
}

static void serve(struct http_calls *http, struct http_exchange *exchange) {
  struct mcp_http_frontend *self = (struct mcp_http_frontend *)http;
  struct buffer *body = http_exchange_body(exchange);
  struct post *post = new_post(self, exchange);
  const char *text = body->length > 0 ? body->bytes : "";
  struct mcp_line line;
  struct error error;
  bool is_answered = false;
  if (mcp_line_parse(&line, text, body->length, &error) == 0) {
    is_answered = !handle(self, post, &line, body->length);
    mcp_line_release(&line);
  } else {
    mcp_reply_reject(&post->reply, text, body->length, &error);
  }
  buffer_release(body);
  if (is_answered) {
    discard_post(post);
    return;
  }
  if (post->reply.pending > 1)
    await_calls(post);
  mcp_reply_end(&post->reply);
}

static void forget_exchange(void *user_data) {
  struct post *post = user_data;
  post->exchange = NULL;
}

/* A client that leaves does not cancel a legacy call, which others may not repeat. */
static void on_gone(struct http_calls *http, void *user_data) {
  const struct post *post = user_data;
  if (post->verdict.is_modern && post->reply.call != NULL)
    calls_cancel_call(&http->calls, post->reply.call);
}

/* --- the frontend ---------------------------------------------------------------------------- */

static void free_frontend(struct frontend *frontend) {
  struct mcp_http_frontend *self = self_of(frontend);
  http_calls_release(&self->http);
  free(self);
}

static const struct frontend_type frontend_type = {.name = "mcp",
                                                   .want = http_calls_want,
                                                   .begin = calls_frontend_begin,
                                                   .result = calls_frontend_result,
                                                   .close = http_calls_close,
                                                   .dump = http_calls_dump,
                                                   .free = free_frontend};

static const struct calls_type calls_type = {.answer = mcp_call_answer,
                                             .report = report,
                                             .release = mcp_call_release,
                                             .has_capacity = http_calls_has_capacity};

static const struct http_calls_type http_calls_type = {
    .mode = "mcp", .serve = serve, .gone = on_gone, .forget = forget_exchange};

/* The transport of the oldest version is another one, so initialize never negotiates it. */
static unsigned served_versions(const struct mcp_frontend_options *options) {
  unsigned versions = options->versions != 0 ? options->versions : MCP_VERSIONS_ALL;
  return versions & ~(1U << MCP_2024_11_05);
}

struct frontend *mcp_http_frontend_new(struct event_base *base, const struct log *log,
                                       const struct mcp_frontend_options *options,
                                       const struct http_options *http) {
  struct mcp_http_frontend *self = memory_zeros(sizeof *self);
  *self = (struct mcp_http_frontend){
      .http.calls = {.frontend = {.type = &frontend_type,
                                  .terms = CALLS_TERMS(options->concurrency, 500, 100)},
                     .settings = options->tools},
      .base = base,
      .session = {.program_version = options->program_version,
                  .versions = served_versions(options),
                  .structured = options->structured,
                  .tools = &self->http.calls.settings},
      .host = {.calls = &self->http.calls, .session = &self->session, .send = send_reply}};
  self->http.calls.settings.limits.clamps_timeout = false;
  self->http.calls.settings.masker = log->masker;
  mcp_session_begin(&self->session);
  self->session.named = self->session.versions;
  http_calls_init(&self->http, base, log, &http_calls_type, &calls_type, http, "/mcp");
  return &self->http.calls.frontend;
}
