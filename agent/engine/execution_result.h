#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/capture.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mask.h"
#include "wire/step.h"
#include "wire/step_report.h"

/* How an execution ended, as data. The execution fills it in, and each frontend turns it into the
   form that its readers expect: a StepResult, a text for a model, a result file. The hard part is
   the reason why a command did not run or was killed, which must name no secret. */
enum execution_outcome {
  EXECUTION_EXITED,
  EXECUTION_SIGNALED,       /* by a signal that the agent did not send */
  EXECUTION_TIMED_OUT,      /* at its deadline */
  EXECUTION_STOPPED,        /* by engine_stop, engine_cancel or the end of the program */
  EXECUTION_MEMORY_LIMIT,   /* killed by the resource guard */
  EXECUTION_PROCESS_LIMIT,  /* the same */
  EXECUTION_NO_DIRECTORY,   /* its working directory does not exist or cannot be entered */
  EXECUTION_NOT_FOUND,      /* the command does not exist */
  EXECUTION_NOT_EXECUTABLE, /* the command exists but cannot be executed */
  EXECUTION_NO_PROCESS,     /* not executed for another reason, such as a limit of processes */
  EXECUTION_REFUSED         /* it cannot be confined, or its command is not allowed */
};

/* The exit codes if the command has none of its own, as of timeout(1) and env(1). */
#define EXECUTION_EXIT_TIMED_OUT 124
#define EXECUTION_EXIT_NOT_RUN 125
#define EXECUTION_EXIT_NOT_EXECUTABLE 126
#define EXECUTION_EXIT_NOT_FOUND 127

struct process_outcome;
struct supervisor_report;

/* The container's memory when a process was made; -1: unknown. */
struct memory_before {
  int64_t oom_kills, peak_bytes, limit_bytes;
};
struct memory_before memory_before_read(void);

/* Sets what has happened to the memory since then. */
void memory_before_compare(const struct memory_before *self, bool is_success,
                           struct result_end *cost);

/* The pointers are valid during the frontend's result(). */
struct execution_result {
  enum execution_outcome outcome;
  int exit_code; /* as a shell reports it: the command's, 128 + signal, or EXECUTION_EXIT_… */
  int signal;    /* of EXECUTION_SIGNALED */
  int64_t duration_ms;
  const char *subject; /* the command or directory that the step names; NULL: it names none */
  struct error error;  /* why it was not executed, with the errno, or why it was ended */
  /*
   * If output is lines: `output` is the beginning of stdout, with its end if it was cut, and
   * `errors` the end of both streams. If output is raw: the beginning of each stream without NUL
   * bytes, with its end if it was cut and the terms have `tail_bytes`. Of a file kind: `output` is
   * its content if it succeeded, `errors` its warnings or its error, as lines.
   */
  struct captured_stream output, errors;
  const struct process_outcome *process;
  struct captured_stream message; /* see execution_result_explain */
  struct result_end cost;         /* for the StepResult; zeros if nothing was executed */
};

bool execution_result_is_success(const struct execution_result *self);

/* Whether it ended by itself: it exited or was killed by a signal. */
bool execution_result_is_own(const struct execution_result *self);

/* Whether a limit of memory, processes, processor time or file size ended it. Then `error` names
   the limit. */
bool execution_result_is_limited(const struct execution_result *self);

/* Whether it was executed: it ended by itself, was killed by the resource guard, or reached its
   deadline. */
bool execution_result_was_executed(const struct execution_result *self);

/* Returns why it is no success: the end of its own output if it ended by itself and printed
   something, else a text of the agent's, in `line`. */
struct captured_stream execution_result_message(const struct execution_result *self,
                                                unsigned timeout_seconds, struct error *line);

/* Returns the cause of a command's death by a signal: the limit that the kernel enforces with this
   signal, if there is such a limit, else STEP_CAUSE_SIGNAL. */
enum step_cause execution_result_signal_cause(const struct result_end *cost,
                                              const struct policy_limits *limits);

/* If the kernel killed one of the command's processes for lack of memory, or the command for a
   limit, begins the message with that, in `text`, which the caller keeps as long as the result. */
void execution_result_explain(struct execution_result *self, const struct policy_limits *limits,
                              struct buffer *text);

/* Returns the StepResult of wire/PROTOCOL.md, except `event_count`. Its texts point into the step,
   into the result's texts and into `line`. */
struct step_result execution_result_step_result(const struct execution_result *self,
                                                const struct step *step, struct error *line);

/* Logs the end of a step. `quiet`: at debug level, for a frontend that logs by itself because a
   command may contain secrets. */
void execution_result_log(const struct execution_result *self, const struct log *log,
                          const struct step *step, bool quiet);

/* Sets the reason why a command could not be started. If the reason contains a secret, also one
   that is cut in its middle, the whole reason is masked before it is cut. */
void execution_result_mask_reason(struct error *reason, const struct supervisor_report *report,
                                  struct masker *masker);

/* Sets the command or directory that the step names, with secrets masked. The reason of a failed
   start shows a part of the name: if that contains a secret, the reason becomes the errno's text.
   Returns the masked copy, which the caller frees after the result; NULL: nothing is masked. */
char *execution_result_set_subject(struct execution_result *self, const char *subject,
                                   struct masker *masker);

/* Masks the command lines and names of processes, which were cut when they were read. */
void execution_result_mask_processes(struct process_outcome *outcome, struct masker *masker);

/* Logs that a payload was rejected: its size and the names and sizes of its fields, but no value.
   */
void execution_result_log_refused(const struct log *log, const char *step_id,
                                  const struct error *error, const char *payload, size_t length);
