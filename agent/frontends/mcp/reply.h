#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/calls.h"
#include "agent/frontends/mcp/session.h"

/*
 * The reply to one text of a client: to a message, or to a batch, whose answers are sent together
 * as an array. The hard part is that some messages are answered at once and others when their calls
 * have ended; the reply is sent once, after the last of them.
 *
 *   mcp_reply_init(&reply, &host)
 *   mcp_reply_handle(&reply, &session, &line, length)
 *   mcp_reply_end(&reply)
 *     host->send(&reply)      from inside it, or when the last call has ended
 *
 * mcp_session_handle answers everything that needs no tool at once, and a call is refused if the
 * queue is full. Therefore a ping and a cancel never wait.
 */
struct mcp_reply;

/* What the replies of one frontend share. */
struct mcp_host {
  struct calls *calls;
  const struct mcp_session *session; /* for the results of calls */
  /* Every message is answered, or never will be. Sends `answers`, unless that is empty, and frees
     the reply. */
  void (*send)(struct mcp_reply *reply);
};

/* A frontend embeds it. */
struct mcp_reply {
  const struct mcp_host *host;
  const char *scope; /* of the ids of its calls (call_ids.h); borrowed; NULL: none */
  bool ignores_cancels;
  struct buffer answers; /* without a newline */
  bool is_batch;
  bool has_progress;    /* a call has a progress token */
  enum mcp_error error; /* the last one that was answered at once, except in a batch */
  struct call *call;    /* the last one that is in the queue; NULL: none */
  size_t pending;       /* calls that are not answered yet, and one until mcp_reply_end */
};

/* A call of struct calls. */
struct mcp_call {
  struct call call; /* first */
  struct mcp_reply *reply;
  enum mcp_version version;
  struct json_member token; /* owned; without a text no progress is reported */
};

void mcp_reply_init(struct mcp_reply *self, const struct mcp_host *host);
void mcp_reply_release(struct mcp_reply *self);

/* `length` is that of the line's text. The session is changed by initialize. */
void mcp_reply_handle(struct mcp_reply *self, struct mcp_session *session, struct mcp_line *line,
                      size_t length);

/* Answers a text that cannot be parsed, so that its sender does not wait. The second function is
   for an outline (line_reader.h), which tells the id if that can be read. */
void mcp_reply_reject(struct mcp_reply *self, const char *text, size_t length,
                      const struct error *reason);
void mcp_reply_reject_outline(struct mcp_reply *self, const char *outline, size_t length,
                              const struct error *reason);

/* No further message follows. May send and free the reply. */
void mcp_reply_end(struct mcp_reply *self);

/* For struct calls_type. */
void mcp_call_answer(struct calls *calls, struct call *call, const struct execution_result *end);
void mcp_call_release(struct calls *calls, struct call *call);

/* Appends a notification for `report` of struct calls_type. */
void mcp_call_report(const struct call *call, const char *line, size_t length, struct buffer *out);
