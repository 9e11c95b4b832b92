#include "agent/doors/stdio/runner.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/calls.h"
#include "agent/doors/stdio/stdio_answer.h"
#include "agent/doors/stdio/stdio_request.h"
#include "agent/exit_code.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

#define EXIT_FAILED 1

struct runner {
  struct calls calls; /* first */
  struct stdio_door_options options;
  const struct tool *tool;
  int64_t made_ms;
  int64_t deadline_ms; /* monotonic */
  struct event *limit; /* until the arguments are there */
};

static struct runner *self_of(struct door *door) {
  return (struct runner *)door;
}

static void answer_and_leave(struct calls *calls, const char *text, size_t length,
                             const struct run_end *end, int exit_code) {
  stdio_answer_only(speaker_out(&calls->speaker), text, length, end);
  speaker_flush(&calls->speaker);
  engine_leave(&calls->door, exit_code, "the end of its call");
}

static void fail_and_leave(struct runner *self, int exit_code, const char *reason) {
  struct buffer text = {0};
  buffer_add_string(&text, TOOL_ERROR);
  buffer_add_string(&text, reason);
  answer_and_leave(&self->calls, text.bytes, text.length, NULL, exit_code);
  buffer_release(&text);
}

static void over(struct calls *calls, struct call *call, const struct run_end *end) {
  struct buffer text = {0};
  if (end == NULL || end->how == RUN_STOPPED) {
    answer_and_leave(calls, STDIO_CANCELLED, strlen(STDIO_CANCELLED), NULL, EXIT_FAILED);
    return;
  }
  bool failed = tool_call_answer(call->tool, end, &text);
  answer_and_leave(calls, text.bytes != NULL ? text.bytes : "", text.length, end,
                   failed ? EXIT_FAILED : 0);
  buffer_release(&text);
}

/* --- the arguments --------------------------------------------------------------------------- */

static bool is_blank(const char *text, size_t length) {
  size_t at = 0;
  while (at < length && text[at] != '\0' && strchr(" \t\r\n", text[at]) != NULL)
    at++;
  return at == length;
}

static void call_tool(struct runner *self, cJSON *arguments, size_t bytes) {
  struct buffer text = {0};
  struct call *call = calls_make(sizeof *call, (struct json_member){0}, bytes);
  call->arrived_ms = self->made_ms;
  call->deadline_ms = self->deadline_ms;
  if (calls_make_step(&self->calls, call, self->tool, arguments, &text)) {
    calls_add(&self->calls, call);
    calls_serve(&self->calls);
  } else {
    answer_and_leave(&self->calls, text.bytes, text.length, NULL, EXIT_FAILED);
    calls_forget(&self->calls, call);
  }
  buffer_release(&text);
}

/* What has come is all that comes. No bytes are no arguments. */
static void take_value(struct door *door, const char *bytes, size_t length) {
  struct runner *self = self_of(door);
  struct error error;
  cJSON *arguments = NULL;
  bool is_absent = length <= payload_limit() && is_blank(bytes, length);
  (void)event_del(self->limit);
  if (engine_leaving(door) != NULL)
    return;
  if (length > payload_limit())
    payload_limit_error(&error);
  else if (!is_absent)
    arguments = stdio_request_parse_object(bytes, length, &error);
  if (arguments != NULL || is_absent)
    call_tool(self, arguments, length);
  else
    fail_and_leave(self, EXIT_FAILED, error.text);
  cJSON_Delete(arguments);
}

static void on_limit(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  fail_and_leave(context, EXIT_FAILED, "no complete JSON object came on standard input in time");
}

/* --- the door -------------------------------------------------------------------------------- */

/* Once before the arguments are read, and after the call. */
static void want(struct door *door, unsigned requests) {
  struct runner *self = self_of(door);
  struct error error;
  if (requests > 0 && self->options.tool == NULL) {
    fail_and_leave(self, AGENT_EXIT_USAGE, "no tool: expected tool-runner NAME, or TOOL_NAME");
  } else if (requests > 0 && self->tool == NULL) {
    (void)error_set(&error, "unknown tool: %s", self->options.tool);
    fail_and_leave(self, AGENT_EXIT_USAGE, error.text);
  } else {
    calls_door_want(door, requests);
  }
}

static const struct door_type runner_type = {.name = "stdio",
                                             .want = want,
                                             .begin = calls_door_begin,
                                             .flush = calls_door_flush,
                                             .result = calls_door_result,
                                             .close = calls_door_close,
                                             .dump = calls_door_dump};

struct door *runner_new(struct event_base *base, const struct log *log,
                        const struct stdio_door_options *options) {
  static const struct calls_type calls_type = {.over = over};
  static const struct speaker_type speaker_type = {.value = take_value,
                                                   .go_on = calls_door_go_on,
                                                   .gone = AGENT_EXIT_SIGNAL + SIGPIPE,
                                                   .prompt_ms = SPEAKER_PROMPT_MS};
  struct runner *self = memory_allocate(sizeof *self);
  unsigned seconds =
      options->deadline_seconds > 0 ? options->deadline_seconds : STDIO_DOOR_DEADLINE_SECONDS;
  *self = (struct runner){.calls = {.door = {.type = &runner_type, .terms = STDIO_DOOR_TERMS},
                                    .settings = options->tools},
                          .options = *options,
                          .tool = options->tool != NULL ? tool_find(options->tool) : NULL,
                          .made_ms = clock_monotonic_ms()};
  self->deadline_ms = self->made_ms + (int64_t)seconds * 1000;
  self->calls.settings.clamps_timeout = true;
  calls_init(&self->calls, base, log, &calls_type, &speaker_type);
  self->limit = loop_timer_new(base, on_limit, self);
  loop_timer_start(self->limit, (int64_t)seconds * 1000 - CALLS_ANSWER_AHEAD_MS);
  return &self->calls.door;
}

void runner_free(struct door *door) {
  struct runner *self = self_of(door);
  calls_release(&self->calls);
  event_free(self->limit);
  free(self);
}
