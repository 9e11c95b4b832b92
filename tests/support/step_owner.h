#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/confinement/confinement.h"
#include "agent/engine/engine.h"
#include "agent/engine/execution.h"
#include "tests/support/loop.h"

/* Runs the engine in a unit test, with a frontend of the test. */

/* A longer line is split. */
enum { STEP_OWNER_LINE_BYTES = 256 * 1024 };

/* An engine with a test frontend, which records the events and the result of a step. The command
   has a directory of its own in $D, which is the working directory of scripts. */
struct step_owner {
  struct frontend frontend; /* first */
  struct loop loop;
  struct secrets secrets;
  struct confinement *confinement; /* of steps without a policy */
  struct engine *engine;
  struct execution *execution; /* NULL: none */
  struct rlimit open_files;
  const struct step_kind *const *kinds; /* NULL: the agent's */
  supervisor_work *work;
  int64_t idle_limit_ms; /* 0: no limit */
  int idle;              /* calls */
  int closes;
  enum frontend_close close; /* of the last call */
  bool leaves_when_idle;     /* idle() ends the program */
  /* How close() answers. The first two answer only to FRONTEND_CLOSE_IMMEDIATE. */
  enum { HOLDS, DELIVERS_AT_LAST, DELIVERS } delivery;
  bool full;
  size_t capacity;      /* in bytes; 0: unlimited */
  char events[1 << 20]; /* a line each: kind, a space (a + if it is partial), text */
  size_t length;
  int event_count;
  int out_of_sequence; /* events with a wrong seq */
  int flushed_events;  /* events before the last flush */
  int done;
  struct step_result result;
  char *output_content; /* NULL: none */
  char *error_message;  /* NULL: none */
};

/* Fixtures; the state is a step_owner without a step. */
int step_owner_set_up(void **state);
int step_owner_tear_down(void **state);
#define STEP_TEST(NAME)                                                                            \
  TEST_WITH(struct step_owner *owner, NAME, step_owner_set_up, step_owner_tear_down)

/* Submits the step of this JSON. Its first event exists, but its command does not run. */
void step_owner_make(struct step_owner *self, const char *json);

/* Makes a new engine for steps of these kinds, with this work. */
void step_owner_use_kinds(struct step_owner *self, const struct step_kind *const *known,
                          supervisor_work *known_work);

/* Makes a new engine with this idle limit. */
void step_owner_limit_idle_time(struct step_owner *self, int64_t milliseconds);

/* Whether the step is over and waits for capacity; for loop_until. */
bool step_owner_is_stalled(void *owner);

/* The same for `sh -c script`, and starts it. The script contains no double quote and no
   backslash. */
void step_owner_make_script(struct step_owner *self, const char *script);
void step_owner_start_script(struct step_owner *self, const char *script, unsigned timeout_seconds);

/* Runs the loop until the step is done, and a little longer. Checks the numbers of the events. */
void step_owner_wait(struct step_owner *self);

/* Runs the loop until exactly these events were flushed. */
void step_owner_expect(struct step_owner *self, const char *events);

/* Calls step_owner_wait, and checks the result (NULL: no text) and that all events were flushed. */
void step_owner_ends(struct step_owner *self, int exit_code, const char *error_message,
                     const char *output_content);
