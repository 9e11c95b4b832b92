#pragma once

#include <stddef.h>

#include "agent/engine/execution_result.h"
#include "base/buffer.h"

/* Formats the result of a command for models and for programs. The frontends that serve tool calls
   use it. The hard part is output that exceeds what a model or a client reads. Pure. */

/* A stream of more than twice as many bytes is shown by its first and its last ones, at whole lines
   if possible, with a line `...(N bytes left out)` between them. */
#define ANSWER_STREAM_SIDE ((size_t)25600)

/* Adds the text for a model: stdout, "STDERR: " and stderr, "(command timed out)" or the limit that
   ended it, and "(exit code: 3)", one after the other as far as they apply, or "(no output)". */
void answer_command(const struct execution_result *result, struct buffer *text);

/* Adds a JSON object for programs, with its members in this order, and errorMessage at the end if a
   limit ended the command. */
enum answer_form {
  ANSWER_METADATA,   /* exitCode, timedOut, durationSeconds */
  ANSWER_STREAMS,    /* exitCode, stdout, stderr, timedOut, durationSeconds */
  ANSWER_STRUCTURED, /* exitCode, timedOut, durationSeconds, stdout, stderr, stdoutTruncated,
                        stderrTruncated; at most ANSWER_STREAM_MAX bytes for each stream */
};
void answer_outcome(enum answer_form form, const struct execution_result *result,
                    struct buffer *out);

/* The limit on an escaped stream, in which a control character takes six bytes. Clients accept a
   line of 1 MiB, which also has the text of the answer. */
#define ANSWER_STREAM_MAX 200000

/* The JSON Schema of ANSWER_STRUCTURED. */
extern const char answer_outcome_schema[];
