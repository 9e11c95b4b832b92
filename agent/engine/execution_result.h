#ifndef AGENT_ENGINE_EXECUTION_RESULT_H
#define AGENT_ENGINE_EXECUTION_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/captured_stream.h"
#include "agent/process/process_table.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mask.h"
#include "wire/step.h"
#include "wire/step_report.h"

/*
 * How a run has ended, as data. A frontend makes of it what its readers know: a StepResult, the
 * text for a model, a result file.
 */
enum execution_outcome {
  EXECUTION_EXITED,
  EXECUTION_SIGNALED,       /* by a signal that was not the agent's */
  EXECUTION_TIMED_OUT,      /* at its deadline */
  EXECUTION_STOPPED,        /* by engine_stop, engine_cancel or the end of the program */
  EXECUTION_MEMORY_LIMIT,   /* by the engine, for want of memory in the container */
  EXECUTION_NO_DIRECTORY,   /* its working directory is not there, or cannot be entered */
  EXECUTION_NOT_FOUND,      /* there is no such command */
  EXECUTION_NOT_EXECUTABLE, /* there is one, which cannot be executed */
  EXECUTION_NO_PROCESS      /* not executed for another reason, such as a limit of processes */
};

/* Exit codes where the command has none of its own: as timeout(1) and env(1). */
#define EXECUTION_EXIT_TIMED_OUT 124
#define EXECUTION_EXIT_NOT_RUN 125
#define EXECUTION_EXIT_NOT_EXECUTABLE 126
#define EXECUTION_EXIT_NOT_FOUND 127

/* What is pointed to is valid during the frontend's result(). */
struct execution_result {
  enum execution_outcome how;
  int exit_code; /* as a shell has it, 0 to 255: 128 + signal; RUN_EXIT_… */
  int signal;    /* SIGNALED */
  int64_t duration_ms;
  const char *subject; /* the command or the directory that the step names; NULL: its own default */
  struct error error;  /* why it was not executed, with the errno, or was stopped */
  /*
   * Of a command whose output is lines: the beginning of stdout, and where that is not all the end;
   * and the end of both streams. Of one whose output is raw: the beginning of each, as it came but
   * without NUL, and where that is not all and the frontend's terms have `tail_bytes` the end. Of a
   * file kind: its whole content when it has succeeded; its warnings or its error, as lines.
   */
  struct captured_stream output, errors;
  struct pipe_holder holder;      /* who still holds its output in the background */
  size_t unkillable;              /* processes that SIGKILL did not end */
  struct captured_stream message; /* of execution_result_tell_memory */
  struct result_end cost;         /* what the result says of it; zeros where nothing was executed */
};

bool execution_result_is_success(const struct execution_result *self);

/* Whether it has had an end of its own; whether it has an exit code: that, or it was ended for want
   of memory; and whether it was executed: that, or up to its deadline. */
bool execution_result_is_own(const struct execution_result *self);
bool execution_result_has_code(const struct execution_result *self);
bool execution_result_was_executed(const struct execution_result *self);

/* Why it is no success: its own last words, where it has had an end of its own and they are kept;
   else a line of the agent's, in `line`. `timeout_seconds`: the step's. */
struct captured_stream execution_result_message(const struct execution_result *self,
                                                unsigned timeout_seconds, struct error *line);

/* Of a command that was short of memory the message begins with that: makes it in `text`, whose
   owner keeps it as long as the end. */
void execution_result_tell_memory(struct execution_result *self, struct buffer *text);

/* The StepResult: the table of results in wire/PROTOCOL.md, all fields but `event_count`. Its texts
   are borrowed from the step, from what the end points to, and from `line`. */
struct step_result execution_result_step_result(const struct execution_result *self,
                                                const struct step *step, struct error *line);

/* Logs the end of a step: one line, and one more for each kind of process that it left behind.
   `quiet`: at debug level. The frontend logs for itself then, and a command may hold secrets. */
void execution_result_log(const struct execution_result *self, const struct log *log,
                          const struct step *step, bool quiet);

struct process_outcome;

/* The reason of a command that could not be started. If there is a secret in it, also where the
   reason is cut, the secret is masked in the whole reason first. */
void execution_result_mask_reason(struct error *reason, const struct process_outcome *outcome,
                                  struct masker *masker);

/* The command lines and names of processes, which were cut when they were made. */
void execution_result_mask_processes(struct pipe_holder *holder, struct step_process *alive,
                                     size_t count, struct masker *masker);

/* Logs that a payload was refused, its size, and the names and sizes of its fields, but no
   value. */
void execution_result_log_refused(const struct log *log, const char *step_id,
                                  const struct error *error, const char *payload, size_t length);

#endif
