#include "agent/tools/answer.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/json_string.h"
#include "wire/step_report.h"

static void begin_part(struct buffer *text, size_t begin) {
  if (text->length > begin)
    buffer_add(text, "\n", 1);
}

/* Adds the whole stream, or its two ends with a line between them. */
static void add_ends(struct buffer *text, const struct captured_stream *stream) {
  buffer_add(text, stream->bytes, stream->length);
  if (!stream->truncated)
    return;
  if (stream->length > 0 && stream->bytes[stream->length - 1] != '\n')
    buffer_add(text, "\n", 1);
  buffer_add_format(text, "...(%" PRIu64 " bytes left out)\n", captured_stream_left_out(stream));
  buffer_add(text, stream->tail, stream->tail_length);
}

static void add_stream(struct buffer *text, size_t begin, const char *name,
                       struct captured_stream stream) {
  stream = captured_stream_ends(captured_stream_shown(stream, SIZE_MAX), ANSWER_STREAM_SIDE);
  if (stream.length == 0)
    return;
  begin_part(text, begin);
  buffer_add_string(text, name);
  add_ends(text, &stream);
  while (stream.truncated && text->bytes[text->length - 1] == '\n')
    text->length--;
}

void answer_command(const struct execution_result *result, struct buffer *text) {
  size_t begin = text->length;
  add_stream(text, begin, "", result->output);
  add_stream(text, begin, "STDERR: ", result->errors);
  if (result->outcome == EXECUTION_TIMED_OUT) {
    begin_part(text, begin);
    buffer_add_string(text, "(command timed out)");
  } else if (execution_result_is_limited(result)) {
    begin_part(text, begin);
    buffer_add_format(text, "(%s)", result->error.text);
  }
  if (result->exit_code != 0) {
    begin_part(text, begin);
    buffer_add_format(text, "(exit code: %llu)", (unsigned long long)result->exit_code);
  }
  if (text->length == begin)
    buffer_add_string(text, "(no output)");
}

const char answer_outcome_schema[] =
    "{\"type\":\"object\",\"properties\":{\"exitCode\":{\"type\":\"integer\"},"
    "\"timedOut\":{\"type\":\"boolean\"},\"durationSeconds\":{\"type\":\"number\"},"
    "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"
    "\"stdoutTruncated\":{\"type\":\"boolean\"},\"stderrTruncated\":{\"type\":\"boolean\"},"
    "\"errorMessage\":{\"type\":\"string\"}},"
    "\"required\":[\"exitCode\",\"timedOut\",\"durationSeconds\",\"stdout\",\"stderr\","
    "\"stdoutTruncated\",\"stderrTruncated\"]}";

static void add_stream_json(struct buffer *out, const char *name,
                            const struct captured_stream *stream) {
  struct buffer text = {0};
  add_ends(&text, stream);
  buffer_add_string(out, name);
  buffer_add_json(out, text.length > 0 ? text.bytes : "", text.length);
  buffer_release(&text);
}

/* An escape such as \u0001 has at most six bytes. */
static struct captured_stream bound_stream(struct captured_stream stream) {
  const size_t always_fits = ANSWER_STREAM_MAX / 6;
  if (stream.length + stream.tail_length <= always_fits)
    return stream;
  size_t encoded = json_string_length(stream.bytes, stream.length);
  encoded += stream.truncated ? json_string_length(stream.tail, stream.tail_length) : 0;
  return encoded > ANSWER_STREAM_MAX ? captured_stream_ends(stream, always_fits / 2) : stream;
}

static void add_flag(struct buffer *out, const char *name, bool flag) {
  buffer_add_format(out, "%s%s", name, flag ? "true" : "false");
}

static void add_reason(struct buffer *out, const struct execution_result *result) {
  const char *reason = result->error.text;
  if (!execution_result_is_limited(result))
    return;
  buffer_add_string(out, ",\"errorMessage\":");
  buffer_add_json(out, reason, strlen(reason));
}

static void add_end(struct buffer *out, const struct execution_result *result) {
  char seconds[STEP_RESULT_SECONDS_SIZE];
  step_result_seconds(seconds, result->duration_ms);
  add_flag(out, ",\"timedOut\":", result->outcome == EXECUTION_TIMED_OUT);
  buffer_add_format(out, ",\"durationSeconds\":%s", seconds);
}

void answer_outcome(enum answer_form form, const struct execution_result *result,
                    struct buffer *out) {
  struct captured_stream output = captured_stream_ends(result->output, ANSWER_STREAM_SIDE);
  struct captured_stream errors = captured_stream_ends(result->errors, ANSWER_STREAM_SIDE);
  if (form == ANSWER_STRUCTURED) {
    output = bound_stream(output);
    errors = bound_stream(errors);
  }
  buffer_add_format(out, "{\"exitCode\":%llu", (unsigned long long)result->exit_code);
  if (form != ANSWER_STREAMS)
    add_end(out, result);
  if (form != ANSWER_METADATA) {
    add_stream_json(out, ",\"stdout\":", &output);
    add_stream_json(out, ",\"stderr\":", &errors);
  }
  if (form == ANSWER_STREAMS)
    add_end(out, result);
  if (form == ANSWER_STRUCTURED) {
    add_flag(out, ",\"stdoutTruncated\":", output.truncated);
    add_flag(out, ",\"stderrTruncated\":", errors.truncated);
  }
  add_reason(out, result);
  buffer_add_string(out, "}");
}
