#include "agent/tools/tool_outcome.h"

#include <stdbool.h>

#include "base/json_string.h"
#include "base/utf8.h"
#include "wire/step_result.h"

const char tool_outcome_schema[] =
    "{\"type\":\"object\",\"properties\":{\"exitCode\":{\"type\":\"integer\"},"
    "\"timedOut\":{\"type\":\"boolean\"},\"durationSeconds\":{\"type\":\"number\"},"
    "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"
    "\"stdoutTruncated\":{\"type\":\"boolean\"},\"stderrTruncated\":{\"type\":\"boolean\"}},"
    "\"required\":[\"exitCode\",\"timedOut\",\"durationSeconds\",\"stdout\",\"stderr\","
    "\"stdoutTruncated\",\"stderrTruncated\"]}";

static void add_stream_json(struct buffer *out, const char *name, const struct run_stream *stream) {
  buffer_add_string(out, name);
  buffer_add_json(out, stream->bytes != NULL ? stream->bytes : "", stream->length);
  if (!stream->truncated)
    return;
  out->length--; /* within the quotes */
  buffer_add_string(out, RUN_STREAM_CUT "\"");
}

/* An escape has six bytes at most, such as \u0001. */
static struct run_stream bound_stream(struct run_stream stream) {
  const size_t always_fits = TOOL_OUTCOME_STREAM_MAX / 6;
  if (stream.length > always_fits &&
      json_string_length(stream.bytes, stream.length) > TOOL_OUTCOME_STREAM_MAX) {
    stream.length = utf8_cut(stream.bytes, always_fits);
    stream.truncated = true;
  }
  return stream;
}

static void add_flag(struct buffer *out, const char *name, bool flag) {
  buffer_add_string(out, name);
  buffer_add_string(out, flag ? "true" : "false");
}

static void add_end(struct buffer *out, const struct run_end *end) {
  char seconds[STEP_RESULT_SECONDS_SIZE];
  step_result_seconds(seconds, end->duration_ms);
  add_flag(out, ",\"timedOut\":", end->how == RUN_TIMED_OUT);
  buffer_add_string(out, ",\"durationSeconds\":");
  buffer_add_string(out, seconds);
}

void tool_outcome_add(enum tool_outcome form, const struct run_end *end, struct buffer *out) {
  const bool is_bounded = form == TOOL_OUTCOME_STRUCTURED;
  const struct run_stream output = is_bounded ? bound_stream(end->output) : end->output;
  const struct run_stream errors = is_bounded ? bound_stream(end->errors) : end->errors;
  buffer_add_string(out, "{\"exitCode\":");
  buffer_add_number(out, (unsigned long long)end->exit_code);
  if (form != TOOL_OUTCOME_STREAMS)
    add_end(out, end);
  if (form != TOOL_OUTCOME_METADATA) {
    add_stream_json(out, ",\"stdout\":", &output);
    add_stream_json(out, ",\"stderr\":", &errors);
  }
  if (form == TOOL_OUTCOME_STREAMS)
    add_end(out, end);
  if (form == TOOL_OUTCOME_STRUCTURED) {
    add_flag(out, ",\"stdoutTruncated\":", output.truncated);
    add_flag(out, ",\"stderrTruncated\":", errors.truncated);
  }
  buffer_add_string(out, "}");
}
