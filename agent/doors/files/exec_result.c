#include "agent/doors/files/exec_result.h"

#include <string.h>

static void add_stream(struct buffer *text, struct run_stream stream, size_t max) {
  stream = run_stream_shown(stream, max);
  if (stream.length > 0)
    buffer_add(text, stream.bytes, stream.length);
  buffer_add_string(text, stream.truncated ? RUN_STREAM_CUT : "");
}

static void add_json(struct buffer *out, const char *key, const struct buffer *text) {
  buffer_add_string(out, key);
  buffer_add_json(out, text->length > 0 ? text->bytes : "", text->length);
}

void exec_result_add(const struct exec_result *self, size_t stream_max, struct buffer *out) {
  struct buffer text = {0};
  buffer_add_string(out, "{\"id\":");
  buffer_add_json(out, self->id, strlen(self->id));
  buffer_add_string(out, ",\"exitCode\":");
  buffer_add_number(out, (unsigned long long)self->exit_code);
  add_stream(&text, self->output, stream_max);
  add_json(out, ",\"stdout\":", &text);
  text.length = 0;
  add_stream(&text, self->errors, stream_max);
  if (self->message != NULL) {
    buffer_add_string(&text, text.length > 0 ? "\n" : "");
    buffer_add_string(&text, self->message);
  }
  add_json(out, ",\"stderr\":", &text);
  buffer_add_string(out, ",\"timedOut\":");
  buffer_add_string(out, self->timed_out ? "true}\n" : "false}\n");
  buffer_release(&text);
}
