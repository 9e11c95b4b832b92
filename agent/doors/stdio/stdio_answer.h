#ifndef AGENT_DOORS_STDIO_STDIO_ANSWER_H
#define AGENT_DOORS_STDIO_STDIO_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/stdio/stdio_request.h"
#include "agent/engine/run_end.h"
#include "agent/tools/tool.h"
#include "base/buffer.h"

/*
 * The lines that the door writes; each adds one line, with its line ending, to the buffer. An
 * `address` without an id adds nothing: a notification has no answer. Pure.
 */
struct stdio_address {
  enum stdio_dialect dialect;
  struct json_member id; /* text NULL: none */
};

void stdio_answer_error(struct buffer *out, const struct stdio_address *to, int code,
                        const char *message);

/* The result is this JSON: "null", "{}". */
void stdio_answer_json(struct buffer *out, const struct stdio_address *to, const char *json);

/* A call that has not run: its arguments were refused, or it was cancelled. The reason begins with
   TOOL_ERROR. */
void stdio_answer_refusal(struct buffer *out, const struct stdio_address *to, const char *reason,
                          size_t length);

/* A call that has run. */
void stdio_answer_result(struct buffer *out, const struct stdio_address *to,
                         const struct tool_call *call, const struct run_end *end);

/* `tool`: the only one; NULL: all. */
void stdio_answer_info(struct buffer *out, const struct stdio_address *to, const struct tool *tool,
                       const struct tool_settings *settings, const char *version);

/* How far a call is, of 99 at the most. */
void stdio_answer_progress(struct buffer *out, const struct stdio_address *to, unsigned percent,
                           const char *message, size_t length);

/* Of a process that makes one call, and whose answer has no id: {"output":…}, and how the run
   ended; `end` is NULL when there was none. */
void stdio_answer_only(struct buffer *out, const char *text, size_t length,
                       const struct run_end *end);

#endif
