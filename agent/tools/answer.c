#include "agent/tools/answer.h"

#include <stdint.h>
#include <string.h>

/* --- a command --- */

static void begin_part(struct buffer *text, size_t begin) {
  if (text->length > begin)
    buffer_add(text, "\n", 1);
}

static void add_stream(struct buffer *text, size_t begin, const char *name,
                       struct run_stream stream) {
  stream = run_stream_shown(stream, SIZE_MAX);
  if (stream.length == 0)
    return;
  begin_part(text, begin);
  buffer_add_string(text, name);
  buffer_add(text, stream.bytes, stream.length);
  buffer_add_string(text, stream.truncated ? RUN_STREAM_CUT : "");
}

void answer_command(const struct run_end *end, struct buffer *text) {
  size_t begin = text->length;
  add_stream(text, begin, "", end->output);
  add_stream(text, begin, "STDERR: ", end->errors);
  if (end->how == RUN_TIMED_OUT) {
    begin_part(text, begin);
    buffer_add_string(text, "(command timed out)");
  }
  if (end->exit_code != 0) {
    begin_part(text, begin);
    buffer_add_string(text, "(exit code: ");
    buffer_add_number(text, (unsigned long long)end->exit_code);
    buffer_add_string(text, ")");
  }
  if (text->length == begin)
    buffer_add_string(text, "(no output)");
}

/* --- a file that was read --- */

struct run_stream answer_body(const struct run_end *end) {
  const struct run_stream *content = &end->output;
  const char *line = content->length > 0 ? memchr(content->bytes, '\n', content->length) : NULL;
  if (line == NULL)
    return (struct run_stream){0};
  return (struct run_stream){.bytes = line + 1,
                             .length = content->length - (size_t)(line + 1 - content->bytes)};
}

void answer_image(const char *type, size_t type_length, size_t bytes, struct buffer *text) {
  buffer_add_string(text, "(");
  buffer_add(text, type, type_length);
  buffer_add_string(text, ", ");
  buffer_add_number(text, bytes);
  buffer_add_string(text, " bytes: not shown as text)");
}
