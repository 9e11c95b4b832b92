#ifndef CLIENT_STEPS_OUTCOME_H
#define CLIENT_STEPS_OUTCOME_H

#include <stdbool.h>

#include "client/program.h"

/* How a step has ended, of its StepResult or, where somebody else took that, of its `completed`
   event. */
struct outcome {
  int code;             /* that the client exits with: exit_code.h */
  bool is_known;        /* there is a result */
  double seconds;       /* -1: not known */
  double cpu_seconds;   /* the same */
  double max_rss_bytes; /* the same */
  bool was_cut;         /* outputContent is not all */
  bool is_oom;
  char what[200]; /* "exit 1", "killed by SIGKILL", "timed out", … for a person */
};

/* `result`: NULL is none. `was_cancelled`: by this client, which explains an exit of -1. */
struct outcome outcome_make(const char *result, int exit_code, bool timed_out, bool was_cancelled);

/* "✗ 7f3a exit 1 after 12.4s, 3.1s CPU, 210 MiB, output was cut", on a terminal's standard
   error. */
void outcome_say(struct program *program, const char *id, const struct outcome *outcome);

#endif
