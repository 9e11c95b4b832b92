#include "agent/frontends/mcp/frontend.h"

#include <stdlib.h>

#include "agent/exit_code.h"
#include "agent/frontends/mcp/reply.h"
#include "agent/frontends/stdio_calls.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

struct mcp_frontend {
  struct stdio_calls stdio; /* first */
  struct mcp_session session;
  struct mcp_host host;
  struct event *end; /* of the calls, after the end of the input */
  int64_t ended_ms;  /* the end of the input; monotonic */
};

static struct mcp_frontend *self_of(struct frontend *frontend) {
  return (struct mcp_frontend *)frontend;
}

static void send_reply(struct mcp_reply *reply) {
  struct buffer *out = stdio_calls_out(reply->host->calls);
  if (reply->answers.length > 0) {
    buffer_add(out, reply->answers.bytes, reply->answers.length);
    buffer_add(out, "\n", 1);
  }
  mcp_reply_release(reply);
  free(reply);
}

static void report(struct calls *calls, const struct call *call, const char *line, size_t length) {
  struct buffer *out = stdio_calls_progress_out(calls);
  if (out == NULL)
    return;
  mcp_call_report(call, line, length, out);
  buffer_add(out, "\n", 1);
}

static void handle_line(struct frontend *frontend, const struct input_line *text) {
  struct mcp_frontend *self = self_of(frontend);
  struct mcp_reply *reply = memory_allocate(sizeof *reply);
  struct mcp_line line;
  struct error error;
  mcp_reply_init(reply, &self->host);
  if (text->too_long) {
    line_reader_error(&self->stdio.channel.lines, &error);
    mcp_reply_reject_outline(reply, text->text, text->length, &error);
  } else if (mcp_line_parse(&line, text->text, text->length, &error) != 0) {
    mcp_reply_reject(reply, text->text, text->length, &error);
  } else {
    mcp_reply_handle(reply, &self->session, &line, text->length);
    mcp_line_release(&line);
  }
  mcp_reply_end(reply);
}

static void on_input_ended(struct frontend *frontend) {
  struct mcp_frontend *self = self_of(frontend);
  self->ended_ms = clock_monotonic_ms();
  loop_timer_start(self->end, MCP_FRONTEND_END_MS);
}

LOOP_CALLBACK(on_end, struct mcp_frontend *self) {
  engine_leave(&self->stdio.calls.frontend, AGENT_EXIT_SHUTDOWN, "the end of standard input");
}

static void close_frontend(struct frontend *frontend, enum frontend_close how) {
  struct mcp_frontend *self = self_of(frontend);
  int64_t left_ms = self->ended_ms + MCP_FRONTEND_GONE_MS - clock_monotonic_ms();
  stdio_channel_close(&self->stdio.channel, how, left_ms > 0 ? left_ms : 0);
}

static void free_frontend(struct frontend *frontend) {
  struct mcp_frontend *self = self_of(frontend);
  stdio_calls_release(&self->stdio);
  event_free(self->end);
  free(self);
}

static const struct frontend_type mcp_frontend_type = {.name = "mcp",
                                                       .want = stdio_calls_want,
                                                       .begin = calls_frontend_begin,
                                                       .flush = stdio_calls_flush,
                                                       .result = calls_frontend_result,
                                                       .close = close_frontend,
                                                       .dump = stdio_calls_dump,
                                                       .free = free_frontend};

struct frontend *mcp_frontend_new(struct event_base *base, const struct log *log,
                                  const struct mcp_frontend_options *options) {
  static const struct calls_type calls_type = {.answer = mcp_call_answer,
                                               .report = report,
                                               .release = mcp_call_release,
                                               .has_capacity = stdio_calls_has_capacity,
                                               .served = stdio_calls_served,
                                               .keeps_order = true};
  static const struct stdio_channel_type stdio_channel_type = {.line = handle_line,
                                                               .ended = on_input_ended,
                                                               .go_on = stdio_calls_go_on,
                                                               .gone = AGENT_EXIT_SHUTDOWN,
                                                               .fast_ms = STDIO_CHANNEL_FAST_MS};
  struct mcp_frontend *self = memory_allocate(sizeof *self);
  *self = (struct mcp_frontend){
      .stdio.calls = {.frontend = {.type = &mcp_frontend_type,
                                   .terms = CALLS_TERMS(options->concurrency, 500, 100)},
                      .settings = options->tools},
      .session = {.program_version = options->program_version,
                  .versions = options->versions != 0 ? options->versions : MCP_VERSIONS_ALL,
                  .structured = options->structured,
                  .tools = &self->stdio.calls.settings},
      .host = {.calls = &self->stdio.calls, .session = &self->session, .send = send_reply}};
  self->stdio.calls.settings.limits.clamps_timeout = false;
  self->stdio.calls.settings.masker = log->masker;
  mcp_session_begin(&self->session);
  stdio_calls_init(&self->stdio, base, log, &calls_type, &stdio_channel_type);
  self->end = loop_timer_new(base, on_end, self);
  return &self->stdio.calls.frontend;
}
