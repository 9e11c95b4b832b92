#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/calls.h"
#include "agent/frontends/stdio/stdio_line.h"

/*
 * Serves the requests of stdio_line.h with the queue of calls.h. Some are answered at once
 * (stdio_control_answer); the others wait among the calls for their answer: calls of tools, errors
 * and a shutdown.
 *
 *   call = stdio_call_new(&calls, &request, bytes)    the tool may reject the arguments
 *   stdio_call_set_deadline(call, seconds)
 *   calls_add(&calls, &call->call)
 *   stdio_call_answer(call, end, out)                 for struct calls_type: appends one line
 *   stdio_call_report(call, line, length, out)
 *   stdio_call_release(&calls, &call->call)
 */

/* The default deadline of answers in JSON-RPC, and of a runner after its start, in seconds. Hosts
   of both kill a process that has not answered after 60 s. Other requests have no default
   deadline. */
#define STDIO_DEADLINE_SECONDS 55

struct stdio_call {
  struct call call; /* first */
  enum stdio_dialect dialect;
  bool is_shutdown;   /* the last request */
  int code;           /* of an error; 0: the tool has rejected its arguments */
  struct buffer text; /* the answer, if no tool is called */
  void *user_data;    /* the frontend's own */
};

/* Answers info, ping and cancel, and returns true; otherwise does nothing. `tool` is the only one
   that is served; NULL: all. */
bool stdio_control_answer(struct calls *calls, const struct stdio_request *request,
                          const struct tool *tool, const char *version, struct buffer *out);

struct stdio_call *stdio_call_of(struct call *call);

/* The request's method must be STDIO_CALL, STDIO_INVALID or STDIO_SHUTDOWN. */
struct stdio_call *stdio_call_new(struct calls *calls, const struct stdio_request *request,
                                  size_t bytes);
void stdio_call_release(struct calls *calls, struct call *call);

/* `seconds` is --deadline; 0: see STDIO_DEADLINE_SECONDS. The time begins when the call arrives. */
void stdio_call_set_deadline(struct stdio_call *self, unsigned seconds);

/* Returns the milliseconds from the arrival of a request to its deadline; 0: it has none. */
int64_t stdio_deadline_ms(unsigned seconds, enum stdio_dialect dialect);

/* `end` is that of struct calls_type. Returns true if the tool failed, or was not called. */
bool stdio_call_answer(const struct stdio_call *self, const struct execution_result *end,
                       struct buffer *out);

/* Appends nothing for a call that has not begun. */
void stdio_call_report(const struct stdio_call *self, const char *line, size_t length,
                       struct buffer *out);
