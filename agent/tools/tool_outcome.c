#include "agent/tools/tool_outcome.h"

#include <stdbool.h>

#include "agent/tools/answer.h"
#include "wire/step_result.h"

#define PROPERTY(NAME, TYPE) "\"" NAME "\":{\"type\":\"" TYPE "\"}"

const char tool_outcome_schema[] =
    "{\"type\":\"object\",\"properties\":{" PROPERTY("exitCode", "integer") "," PROPERTY("timedOut", "boolean") "," PROPERTY(
        "durationSeconds",
        "number") "," PROPERTY("stdout",
                               "string") "," PROPERTY("stderr",
                                                      "string") "," PROPERTY("stdoutTruncated",
                                                                             "boolean") "," PROPERTY("stderrTruncated",
                                                                                                     "boolean") "},\"required\":[\"exitCode\",\"timedOut\",\"durationSeconds\",\"stdout\",\"stderr\","
                                                                                                                "\"stdoutTruncated\",\"stderrTruncated\"]}";

static void add_stream_json(struct buffer *out, const char *name, const struct run_stream *stream) {
  buffer_add_string(out, name);
  buffer_add_json(out, stream->bytes != NULL ? stream->bytes : "", stream->length);
  if (!stream->truncated)
    return;
  out->length--; /* within the quotes */
  buffer_add_string(out, ANSWER_CUT_MARK "\"");
}

static void add_flag(struct buffer *out, const char *name, bool flag) {
  buffer_add_string(out, name);
  buffer_add_string(out, flag ? "true" : "false");
}

static void add_end(struct buffer *out, const struct run_result *result) {
  char seconds[STEP_RESULT_SECONDS_SIZE];
  step_result_seconds(seconds, result->duration_ms);
  add_flag(out, ",\"timedOut\":", result->timed_out);
  buffer_add_string(out, ",\"durationSeconds\":");
  buffer_add_string(out, seconds);
}

void tool_outcome_add(enum tool_outcome form, const struct run_result *result, struct buffer *out) {
  buffer_add_string(out, "{\"exitCode\":");
  buffer_add_number(out, (unsigned long long)result->exit_code);
  if (form != TOOL_OUTCOME_STREAMS)
    add_end(out, result);
  if (form != TOOL_OUTCOME_METADATA) {
    add_stream_json(out, ",\"stdout\":", &result->output);
    add_stream_json(out, ",\"stderr\":", &result->errors);
  }
  if (form == TOOL_OUTCOME_STREAMS)
    add_end(out, result);
  if (form == TOOL_OUTCOME_STRUCTURED) {
    add_flag(out, ",\"stdoutTruncated\":", result->output.truncated);
    add_flag(out, ",\"stderrTruncated\":", result->errors.truncated);
  }
  buffer_add_string(out, "}");
}
