#include "agent/frontends/mcp/reply.h"

#include <stdlib.h>
#include <string.h>

#include "agent/frontends/line_reader.h"
#include "base/memory.h"

#define NOT_RUN TOOL_ERROR "not run: "

void mcp_reply_init(struct mcp_reply *self, const struct mcp_host *host) {
  *self = (struct mcp_reply){.host = host, .pending = 1};
}

void mcp_reply_release(struct mcp_reply *self) {
  buffer_release(&self->answers);
}

static void begin_batch(struct mcp_reply *self) {
  self->is_batch = true;
  buffer_add(&self->answers, "[", 1);
}

/* One answer was appended. */
static void end_answer(struct mcp_reply *self) {
  if (self->is_batch)
    buffer_add(&self->answers, ",", 1);
}

/* Replaces the last comma; an array without answers is not sent. */
static void end_batch(struct mcp_reply *self) {
  if (self->answers.length > 1)
    self->answers.bytes[self->answers.length - 1] = ']';
  else
    self->answers.length = 0;
}

void mcp_reply_end(struct mcp_reply *self) {
  if (--self->pending > 0)
    return;
  if (self->is_batch)
    end_batch(self);
  self->host->send(self);
}

/* --- calls ----------------------------------------------------------------------------------- */

static struct mcp_call *call_of(struct call *call) {
  return (struct mcp_call *)call;
}

/* Answers a call that was not executed. */
static void refuse_call(const struct mcp_call *call, const struct buffer *reason) {
  struct mcp_reply *reply = call->reply;
  mcp_add_refusal(reply->host->session, &reply->answers, call->call.id, call->version, reason);
  end_answer(reply);
}

void mcp_call_answer(struct calls *calls, struct call *base, const struct execution_result *end) {
  const struct mcp_call *call = call_of(base);
  struct mcp_reply *reply = call->reply;
  struct buffer reason = {0};
  if (end != NULL) {
    mcp_add_result(reply->host->session, &reply->answers, base->id, call->version, base->tool, end);
    end_answer(reply);
  } else if (base->outcome == CALL_DROPPED) {
    buffer_add_format(&reason, NOT_RUN "%s", engine_leaving(&calls->frontend));
    refuse_call(call, &reason);
  }
  buffer_release(&reason);
}

void mcp_call_report(const struct call *base, const char *line, size_t length, struct buffer *out) {
  const struct mcp_call *call = (const struct mcp_call *)base;
  mcp_add_progress(out, call->token, call->version, base->reported_ms - base->arrived_ms, line,
                   length);
}

void mcp_call_release(struct calls *calls, struct call *base) {
  struct mcp_reply *reply = call_of(base)->reply;
  (void)calls;
  if (reply->call == base)
    reply->call = NULL;
  mcp_reply_end(reply);
  free((char *)(uintptr_t)call_of(base)->token.text);
}

static void add_call(struct mcp_reply *self, const struct mcp_action *action, size_t length) {
  struct calls *calls = self->host->calls;
  struct buffer text = {0};
  struct call *base = calls_make(sizeof(struct mcp_call), action->id, length);
  struct mcp_call *call = call_of(base);
  call->version = action->version;
  call->reply = self;
  self->pending++;
  self->has_progress = self->has_progress || action->token.text != NULL;
  if (self->scope != NULL)
    base->scope = memory_copy(self->scope, strlen(self->scope));
  call->token = action->token;
  if (action->token.text != NULL)
    call->token.text = memory_copy(action->token.text, action->token.length);
  base->reports = action->token.text != NULL;
  if (calls_are_full(calls, length)) {
    buffer_add_string(&text, NOT_RUN "too many calls wait; try again when some have ended");
  } else if (calls_make_step(calls, base, action->tool, action->arguments, &text)) {
    run_kind_set_trace(&base->tool->step, action->traceparent);
    self->call = base;
    calls_add(calls, base);
  }
  if (text.length > 0) {
    refuse_call(call, &text);
    calls_free(calls, base);
  }
  buffer_release(&text);
  calls_serve(calls);
}

/* --- messages -------------------------------------------------------------------------------- */

static void handle_message(struct mcp_reply *self, struct mcp_session *session,
                           const struct mcp_message *message, size_t length) {
  struct mcp_action action = mcp_session_handle(session, message, self->is_batch, &self->answers);
  if (action.kind == MCP_ANSWER) {
    self->error = self->is_batch ? MCP_NO_ERROR : action.error;
    end_answer(self);
  } else if (action.kind == MCP_CALL)
    add_call(self, &action, length);
  else if (action.kind == MCP_CANCEL && !self->ignores_cancels)
    calls_cancel(self->host->calls, self->scope, action.id);
}

void mcp_reply_handle(struct mcp_reply *self, struct mcp_session *session, struct mcp_line *line,
                      size_t length) {
  struct mcp_message message;
  if (line->is_batch && !mcp_session_accept_batch(session, line->count, &self->answers)) {
    self->error = MCP_INVALID_REQUEST;
    return;
  }
  if (line->is_batch)
    begin_batch(self);
  while (mcp_line_next(line, &message))
    handle_message(self, session, &message, length / (size_t)line->count);
}

void mcp_reply_reject_outline(struct mcp_reply *self, const char *outline, size_t length,
                              const struct error *reason) {
  mcp_add_parse_error(&self->answers, mcp_outline_id(outline, length), reason);
  self->error = MCP_PARSE_ERROR;
}

void mcp_reply_reject(struct mcp_reply *self, const char *text, size_t length,
                      const struct error *reason) {
  struct json_outline outline = {.names = line_reader_members};
  (void)json_outline_add(&outline, text, length);
  mcp_reply_reject_outline(self, outline.members.bytes, outline.members.length, reason);
  buffer_release(&outline.members);
}
