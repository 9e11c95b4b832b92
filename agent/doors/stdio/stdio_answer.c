#include "agent/doors/stdio/stdio_answer.h"

#include <stdio.h>
#include <string.h>

#include "agent/tools/answer.h"

/* What stands before the answer's own member; false: there is no answer. */
static bool begin_line(struct buffer *out, const struct stdio_address *to, const char *member) {
  if (to->id.text == NULL)
    return false;
  buffer_add_string(out,
                    to->dialect == STDIO_JSON_RPC ? "{\"jsonrpc\":\"2.0\",\"id\":" : "{\"id\":");
  buffer_add(out, to->id.text, to->id.length);
  buffer_add_string(out, ",\"");
  buffer_add_string(out, member);
  buffer_add_string(out, "\":");
  return true;
}

static void end_line(struct buffer *out) {
  buffer_add_string(out, "}\n");
}

static void add_text(struct buffer *out, const char *name, const char *text) {
  buffer_add_string(out, name);
  buffer_add_json(out, text, strlen(text));
}

static void add_error(struct buffer *out, const struct stdio_address *to, int code,
                      const char *message, size_t length) {
  char number[16];
  if (!begin_line(out, to, "error"))
    return;
  (void)snprintf(number, sizeof number, "%d", code);
  buffer_add_string(out, "{\"code\":");
  buffer_add_string(out, number);
  buffer_add_string(out, ",\"message\":");
  buffer_add_json(out, message, length);
  buffer_add_string(out, "}");
  end_line(out);
}

void stdio_answer_error(struct buffer *out, const struct stdio_address *to, int code,
                        const char *message) {
  add_error(out, to, code, message, strlen(message));
}

void stdio_answer_json(struct buffer *out, const struct stdio_address *to, const char *json) {
  if (!begin_line(out, to, "result"))
    return;
  buffer_add_string(out, json);
  end_line(out);
}

/* Without what it begins with in texts for models. */
static void add_reason(struct buffer *out, const struct stdio_address *to, const char *text,
                       size_t length) {
  size_t prefix = strlen(TOOL_ERROR);
  if (length >= prefix && memcmp(text, TOOL_ERROR, prefix) == 0) {
    text += prefix;
    length -= prefix;
  }
  add_error(out, to, STDIO_ERROR, text, length);
}

/* {"output":…,"success":…,"metadata":…}; `end` may be NULL. */
static void add_output(struct buffer *out, const struct stdio_address *to, const char *text,
                       size_t length, bool failed, const struct run_end *end) {
  if (!begin_line(out, to, "result"))
    return;
  buffer_add_string(out, "{\"output\":");
  buffer_add_json(out, text, length);
  buffer_add_string(out, failed ? ",\"success\":false" : ",\"success\":true");
  if (end != NULL) {
    buffer_add_string(out, ",\"metadata\":");
    answer_outcome(ANSWER_METADATA, end, out);
  }
  buffer_add_string(out, "}");
  end_line(out);
}

void stdio_answer_refusal(struct buffer *out, const struct stdio_address *to, const char *reason,
                          size_t length) {
  if (to->dialect == STDIO_JSON_RPC)
    add_output(out, to, reason, length, true, NULL);
  else
    add_reason(out, to, reason, length);
}

/* The streams of a command, whatever its exit code is; the text of everything else. */
static void add_plain(struct buffer *out, const struct stdio_address *to, const struct buffer *text,
                      bool failed, const struct run_end *streams) {
  if (streams == NULL && failed) {
    add_reason(out, to, text->bytes, text->length);
    return;
  }
  if (!begin_line(out, to, "result"))
    return;
  if (streams != NULL) {
    answer_outcome(ANSWER_STREAMS, streams, out);
  } else {
    buffer_add_string(out, "{\"output\":");
    buffer_add_json(out, text->bytes != NULL ? text->bytes : "", text->length);
    buffer_add_string(out, "}");
  }
  end_line(out);
}

void stdio_answer_result(struct buffer *out, const struct stdio_address *to,
                         const struct tool_call *call, const struct run_end *end) {
  struct buffer text = {0};
  bool failed = tool_call_answer(call, end, &text);
  bool has_streams = tool_call_is_command(call) && run_end_was_executed(end);
  if (to->dialect == STDIO_JSON_RPC)
    add_output(out, to, text.bytes != NULL ? text.bytes : "", text.length, failed, end);
  else
    add_plain(out, to, &text, failed, has_streams ? end : NULL);
  buffer_release(&text);
}

static void add_tool(struct buffer *out, const struct tool *tool,
                     const struct tool_settings *settings) {
  add_text(out, "\"name\":", tool->name);
  add_text(out, ",\"description\":", tool->description);
  buffer_add_string(out, ",\"parameters_schema\":");
  tool_add_input_schema(tool, settings, out);
}

void stdio_answer_info(struct buffer *out, const struct stdio_address *to, const struct tool *tool,
                       const struct tool_settings *settings, const char *version) {
  if (!begin_line(out, to, "result"))
    return;
  buffer_add_string(out, "{");
  add_tool(out, tool != NULL ? tool : tool_at(0), settings);
  add_text(out, ",\"version\":", version);
  for (size_t i = 0; tool == NULL && tool_at(i) != NULL; i++) {
    buffer_add_string(out, i == 0 ? ",\"tools\":[{" : "},{");
    add_tool(out, tool_at(i), settings);
  }
  buffer_add_string(out, tool == NULL ? "}]}" : "}");
  end_line(out);
}

void stdio_answer_progress(struct buffer *out, const struct stdio_address *to, unsigned percent,
                           const char *message, size_t length) {
  if (!begin_line(out, to, "progress"))
    return;
  buffer_add_string(out, "{\"percent\":");
  buffer_add_number(out, percent);
  buffer_add_string(out, ",\"message\":");
  buffer_add_json(out, message, length);
  buffer_add_string(out, "}");
  end_line(out);
}

void stdio_answer_only(struct buffer *out, const char *text, size_t length,
                       const struct run_end *end) {
  buffer_add_string(out, "{\"output\":");
  buffer_add_json(out, text, length);
  if (end != NULL) {
    buffer_add_string(out, ",\"metadata\":");
    answer_outcome(ANSWER_METADATA, end, out);
  }
  end_line(out);
}
