#ifndef AGENT_DOORS_FILES_EXEC_RESULT_H
#define AGENT_DOORS_FILES_EXEC_RESULT_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/engine/run_end.h"
#include "base/buffer.h"

/*
 * What is written to exec-result-<id>.json: five fields, always all of them, one line. Pure.
 *
 *   {"id":"17…","exitCode":0,"stdout":"…","stderr":"","timedOut":false}
 *
 * The streams are without their trailing line endings. Bytes that are not UTF-8 become U+FFFD.
 */
#define EXEC_RESULT_PREFIX "exec-result-"
#define EXEC_RESULT_SUFFIX ".json"

/* The bytes of each stream; more are cut at a character's end, and RUN_STREAM_CUT follows. */
#define EXEC_RESULT_STREAM_MAX ((size_t)51200)

struct exec_result {
  const char *id;
  int exit_code;
  struct run_stream output;
  struct run_stream errors;
  /* Of this program, at the end of stderr, in a line of its own that is never cut; NULL: none. */
  const char *message;
  bool timed_out;
};

/* `stream_max`: bytes of each stream, EXEC_RESULT_STREAM_MAX or less. */
void exec_result_add(const struct exec_result *self, size_t stream_max, struct buffer *out);

#endif
