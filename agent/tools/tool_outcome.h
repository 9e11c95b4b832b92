#ifndef AGENT_TOOLS_TOOL_OUTCOME_H
#define AGENT_TOOLS_TOOL_OUTCOME_H

#include "agent/engine/run_end.h"
#include "base/buffer.h"

/* How a run ended, as a JSON object for programs; its members in this order. A stream that was cut
   ends with "...(truncated)". */
enum tool_outcome {
  TOOL_OUTCOME_METADATA,   /* exitCode, timedOut, durationSeconds */
  TOOL_OUTCOME_STREAMS,    /* exitCode, stdout, stderr, timedOut, durationSeconds */
  TOOL_OUTCOME_STRUCTURED, /* exitCode, timedOut, durationSeconds, stdout, stderr, stdoutTruncated,
                              stderrTruncated; at most TOOL_OUTCOME_STREAM_MAX bytes a stream */
};

/* As JSON: a stream of control characters is six times as long, and clients take a line of a
   mebibyte, in which the text of the answer is, too. */
#define TOOL_OUTCOME_STREAM_MAX 200000

/* The JSON Schema of TOOL_OUTCOME_STRUCTURED. */
extern const char tool_outcome_schema[];

void tool_outcome_add(enum tool_outcome form, const struct run_end *end, struct buffer *out);

#endif
