/*
 * mcp_session_handle answers everything that needs no tool at once, and rejects a call if the queue
 * is full. Therefore a ping and a cancel never wait.
 */
#include "agent/frontends/mcp/frontend.h"

#include <stdlib.h>
#include <string.h>

#include "agent/exit_code.h"
#include "agent/frontends/calls.h"
#include "agent/frontends/mcp/session.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* The answers of one batch, which are sent together, as an array. */
struct reply_batch {
  struct buffer answers; /* each followed by a comma */
  size_t pending;        /* messages that are not answered yet */
};

struct mcp_call {
  struct call call;          /* first */
  struct reply_batch *batch; /* NULL: the call is not part of one */
  enum mcp_version version;
  struct json_member token; /* owned; without a text no progress is reported */
};

struct mcp_frontend {
  struct calls calls; /* first */
  struct mcp_session session;
  struct event *end; /* of the calls, after the end of the input */
  int64_t ended_ms;  /* the end of the input; monotonic */
};

#define NOT_RUN TOOL_ERROR "not run: "

static struct mcp_frontend *self_of(struct frontend *frontend) {
  return (struct mcp_frontend *)frontend;
}

static struct mcp_call *call_of(struct call *call) {
  return (struct mcp_call *)call;
}

static struct buffer *answers_of(struct calls *calls, struct reply_batch *batch) {
  return batch != NULL ? &batch->answers : stdio_channel_out(&calls->stdio_channel);
}

static void end_answer(struct calls *calls, struct reply_batch *batch) {
  buffer_add(answers_of(calls, batch), batch != NULL ? "," : "\n", 1);
}

/* One message of a batch is answered, or never will be; sends the array after the last one. */
static void release_batch(struct calls *calls, struct reply_batch *batch) {
  if (batch == NULL || --batch->pending > 0)
    return;
  if (batch->answers.length > 0) {
    struct buffer *out = stdio_channel_out(&calls->stdio_channel);
    buffer_add(out, "[", 1);
    buffer_add(out, batch->answers.bytes, batch->answers.length - 1);
    buffer_add(out, "]\n", 2);
  }
  buffer_release(&batch->answers);
  free(batch);
}

/* Answers a call that was not executed. */
static void refuse_call(struct calls *calls, const struct mcp_call *call,
                        const struct buffer *reason) {
  const struct mcp_frontend *self = (const struct mcp_frontend *)calls;
  mcp_add_refusal(&self->session, answers_of(calls, call->batch), call->call.id, call->version,
                  reason);
  end_answer(calls, call->batch);
}

static void answer(struct calls *calls, struct call *base, const struct execution_result *end) {
  const struct mcp_frontend *self = (const struct mcp_frontend *)calls;
  const struct mcp_call *call = call_of(base);
  struct buffer reason = {0};
  if (end != NULL) {
    mcp_add_result(&self->session, answers_of(calls, call->batch), base->id, call->version,
                   base->tool, end);
    end_answer(calls, call->batch);
  } else if (base->outcome == CALL_DROPPED) {
    buffer_add_format(&reason, NOT_RUN "%s", engine_leaving(&calls->frontend));
    refuse_call(calls, call, &reason);
  }
  buffer_release(&reason);
}

static void report(struct calls *calls, const struct call *base, const char *line, size_t length) {
  const struct mcp_call *call = (const struct mcp_call *)base;
  struct buffer *out = stdio_channel_out(&calls->stdio_channel);
  mcp_add_progress(out, call->token, call->version, base->reported_ms - base->arrived_ms, line,
                   length);
  buffer_add(out, "\n", 1);
}

static void release_call(struct calls *calls, struct call *base) {
  release_batch(calls, call_of(base)->batch);
  free((char *)(uintptr_t)call_of(base)->token.text);
}

static void add_call(struct mcp_frontend *self, const struct mcp_action *action, size_t length,
                     struct reply_batch *batch) {
  struct calls *calls = &self->calls;
  struct buffer text = {0};
  struct call *base = calls_make(sizeof(struct mcp_call), action->id, length);
  struct mcp_call *call = call_of(base);
  call->version = action->version;
  call->batch = batch;
  if (batch != NULL)
    batch->pending++;
  call->token = action->token;
  if (action->token.text != NULL)
    call->token.text = memory_copy(action->token.text, action->token.length);
  base->reports = action->token.text != NULL;
  if (calls_are_full(calls, length)) {
    buffer_add_string(&text, NOT_RUN "too many calls wait; try again when some have ended");
  } else if (calls_make_step(calls, base, action->tool, action->arguments, &text)) {
    run_kind_set_trace(&base->tool->step, action->traceparent);
    calls_add(calls, base);
  }
  if (text.length > 0) {
    refuse_call(calls, call, &text);
    calls_free(calls, base);
  }
  buffer_release(&text);
  calls_serve(calls);
}

static void handle_messages(struct mcp_frontend *self, struct mcp_line *line, size_t length,
                            struct reply_batch *batch) {
  struct mcp_message message;
  while (mcp_line_next(line, &message)) {
    struct mcp_action action = mcp_session_handle(&self->session, &message, batch != NULL,
                                                  answers_of(&self->calls, batch));
    if (action.kind == MCP_ANSWER)
      end_answer(&self->calls, batch);
    else if (action.kind == MCP_CALL)
      add_call(self, &action, length, batch);
    else if (action.kind == MCP_CANCEL)
      calls_cancel(&self->calls, action.id);
  }
}

static void handle_batch(struct mcp_frontend *self, struct mcp_line *line, size_t length) {
  if (!mcp_session_accept_batch(&self->session, line->count, answers_of(&self->calls, NULL))) {
    end_answer(&self->calls, NULL);
    return;
  }
  struct reply_batch *batch = memory_allocate(sizeof *batch);
  *batch = (struct reply_batch){.pending = 1}; /* until all messages are handled */
  handle_messages(self, line, length / (size_t)line->count, batch);
  release_batch(&self->calls, batch);
}

/* Answers a line that cannot be parsed, so that its sender does not wait. */
static void refuse_line(struct mcp_frontend *self, const char *outline, size_t length,
                        const struct error *reason) {
  mcp_add_parse_error(answers_of(&self->calls, NULL), mcp_outline_id(outline, length), reason);
  end_answer(&self->calls, NULL);
}

static void handle_line(struct frontend *frontend, const struct input_line *text) {
  struct mcp_frontend *self = self_of(frontend);
  struct mcp_line line;
  struct error error;
  if (text->too_long) {
    line_reader_error(&self->calls.stdio_channel.lines, &error);
    refuse_line(self, text->text, text->length, &error);
    return;
  }
  if (mcp_line_parse(&line, text->text, text->length, &error) != 0) {
    struct json_outline outline = {.names = line_reader_members};
    (void)json_outline_add(&outline, text->text, text->length);
    refuse_line(self, outline.members.bytes, outline.members.length, &error);
    buffer_release(&outline.members);
    return;
  }
  if (line.is_batch)
    handle_batch(self, &line, text->length);
  else
    handle_messages(self, &line, text->length, NULL);
  mcp_line_release(&line);
}

static void on_input_ended(struct frontend *frontend) {
  struct mcp_frontend *self = self_of(frontend);
  self->ended_ms = clock_monotonic_ms();
  loop_timer_start(self->end, MCP_FRONTEND_END_MS);
}

LOOP_CALLBACK(on_end, struct mcp_frontend *self) {
  engine_leave(&self->calls.frontend, AGENT_EXIT_SHUTDOWN, "the end of standard input");
}

static void close_frontend(struct frontend *frontend, enum frontend_close how) {
  struct mcp_frontend *self = self_of(frontend);
  int64_t left_ms = self->ended_ms + MCP_FRONTEND_GONE_MS - clock_monotonic_ms();
  stdio_channel_close(&self->calls.stdio_channel, how, left_ms > 0 ? left_ms : 0);
}

static void free_frontend(struct frontend *frontend) {
  struct mcp_frontend *self = self_of(frontend);
  calls_release(&self->calls);
  event_free(self->end);
  free(self);
}

static const struct frontend_type mcp_frontend_type = {.name = "mcp",
                                                       .want = calls_frontend_want,
                                                       .begin = calls_frontend_begin,
                                                       .flush = calls_frontend_flush,
                                                       .result = calls_frontend_result,
                                                       .close = close_frontend,
                                                       .dump = calls_frontend_dump,
                                                       .free = free_frontend};

struct frontend *mcp_frontend_new(struct event_base *base, const struct log *log,
                                  const struct mcp_frontend_options *options) {
  static const struct calls_type calls_type = {
      .answer = answer, .report = report, .release = release_call};
  static const struct stdio_channel_type stdio_channel_type = {.line = handle_line,
                                                               .ended = on_input_ended,
                                                               .go_on = calls_frontend_go_on,
                                                               .gone = AGENT_EXIT_SHUTDOWN,
                                                               .fast_ms = STDIO_CHANNEL_FAST_MS};
  struct mcp_frontend *self = memory_allocate(sizeof *self);
  *self = (struct mcp_frontend){
      .calls = {.frontend = {.type = &mcp_frontend_type,
                             .terms = CALLS_TERMS(options->concurrency, 500, 100)},
                .settings = options->tools},
      .session = {.program_version = options->program_version,
                  .versions = options->versions != 0 ? options->versions : MCP_VERSIONS_ALL,
                  .structured = options->structured,
                  .tools = &self->calls.settings}};
  self->calls.settings.limits.clamps_timeout = false;
  self->calls.settings.masker = log->masker;
  mcp_session_begin(&self->session);
  calls_init(&self->calls, base, log, &calls_type, &stdio_channel_type);
  self->end = loop_timer_new(base, on_end, self);
  return &self->calls.frontend;
}
