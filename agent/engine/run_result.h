#ifndef AGENT_ENGINE_RUN_RESULT_H
#define AGENT_ENGINE_RUN_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/door.h"

/*
 * The end of a run for a door whose terms have output_bytes: the streams apart, and an exit code as
 * a shell has it.
 */

/* Exit codes where the command has none of its own: as timeout(1) and env(1). */
#define RUN_EXIT_TIMED_OUT 124
#define RUN_EXIT_NOT_RUN 125
#define RUN_EXIT_NOT_EXECUTABLE 126
#define RUN_EXIT_NOT_FOUND 127

enum run_failure {
  RUN_EXECUTED,       /* to its end, or its deadline */
  RUN_STOPPED,        /* by engine_stop, engine_cancel or the end of the program */
  RUN_NO_DIRECTORY,   /* its working directory is not there, or cannot be entered */
  RUN_NOT_FOUND,      /* there is no such command */
  RUN_NOT_EXECUTABLE, /* there is one, which cannot be executed */
  RUN_NO_PROCESS      /* for another reason, such as a limit of processes */
};

/* The beginning of a stream. */
struct run_stream {
  const char *bytes; /* any bytes but NUL; NULL when it is empty */
  size_t length;
  bool truncated; /* more than newlines came after it; it ends at a UTF-8 boundary */
};

struct run_result {
  enum run_failure failure;
  int exit_code; /* 0 to 255; 128+N: ended by signal N; RUN_EXIT_…: see above */
  bool timed_out;
  int64_t duration_ms;
  /* Why it was not executed, or was stopped; of a file kind that failed, its error. Else "". */
  const char *reason;
  size_t reason_length;
  struct run_stream output; /* of a file kind: its content, which is whole */
  struct run_stream errors; /* of a file kind: its warnings, a line each */
};

/* To be called from result(), with what that was given; what is pointed to is valid as long. */
void run_result_get(const struct run *run, const struct step_result *result,
                    struct run_result *out);

#endif
