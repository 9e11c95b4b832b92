#pragma once

#include <stdbool.h>

#include "client/program.h"
#include "client/steps/event.h"

/* How a step ended: its exit code for the shell, and a sentence for a person. `run`, `follow` and
   exchange.h use it. It is read from the StepResult or, if another client took that, from the event
   `completed`. */
struct outcome {
  int code;        /* what the client exits with: exit_code.h */
  bool has_result; /* there is a StepResult */
  bool was_ended;  /* by a timeout, a signal, a cancel, a limit or a lack of memory */
  double seconds;  /* of these three, -1 is unknown */
  double cpu_seconds;
  double max_rss_bytes;
  const char *notes; /* ", out of memory" */
  char text[200];    /* "exit 1", "killed by SIGKILL", "timed out", … */
};

/* `was_cancelled`: by this client, which explains a code of -1 without a result (NULL). */
struct outcome outcome_make(const char *result, struct completion completion, bool was_cancelled);

/* Writes "✗ 7f3a exit 1 after 12.4s, 3.1s CPU, 210 MiB" to standard error: always to a terminal,
   and else if the step did not end by itself. */
void outcome_say(struct program *program, const char *id, const struct outcome *outcome);
