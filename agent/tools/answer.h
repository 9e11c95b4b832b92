#ifndef AGENT_TOOLS_ANSWER_H
#define AGENT_TOOLS_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "agent/engine/execution_result.h"
#include "base/buffer.h"
#include "base/error.h"

/* What models, and programs, read of a command that has ended. Pure. */

/* Of a stream of a command that has more than twice as many bytes its first and its last ones stand
   in each of these texts, up to and from a whole line where there is one, and between them a line
   `...(N bytes left out)`. */
#define ANSWER_STREAM_SIDE ((size_t)25600)

/* The end of a command: those of stdout, "STDERR: " and stderr, "(command timed out)" and "(exit
   code: 3)" that are not empty, a line each; "(no output)" when all are. */
void answer_command(const struct execution_result *end, struct buffer *text);

/* How a run ended, as a JSON object for programs; its members in this order. */
enum answer_form {
  ANSWER_METADATA,   /* exitCode, timedOut, durationSeconds */
  ANSWER_STREAMS,    /* exitCode, stdout, stderr, timedOut, durationSeconds */
  ANSWER_STRUCTURED, /* exitCode, timedOut, durationSeconds, stdout, stderr, stdoutTruncated,
                        stderrTruncated; at most ANSWER_STREAM_MAX bytes a stream */
};
void answer_outcome(enum answer_form form, const struct execution_result *end, struct buffer *out);

/* As JSON: a stream of control characters is six times as long, and clients take a line of a
   mebibyte, in which the text of the answer is, too. */
#define ANSWER_STREAM_MAX 200000

/* The JSON Schema of ANSWER_STRUCTURED. */
extern const char answer_outcome_schema[];

#endif
