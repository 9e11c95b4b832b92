#ifndef TESTS_SUPPORT_STEP_OWNER_H
#define TESTS_SUPPORT_STEP_OWNER_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/engine/engine.h"
#include "agent/engine/execution.h"
#include "tests/support/loop.h"
#include "tests/support/recorder.h"

/* A line of more bytes comes in pieces. */
enum { STEP_OWNER_LINE_BYTES = 256 * 1024 };

/*
 * An engine with a frontend that keeps what it is given: a step's events, and what its result said.
 * The command finds a directory of its own in $D, which is also its working directory where the
 * step names it.
 */
struct step_owner {
  struct frontend frontend; /* first */
  struct loop loop;
  struct secrets secrets;
  struct engine *engine;
  struct execution *execution; /* NULL when there is none */
  struct rlimit open_files;
  const struct step_kind *const *kinds; /* NULL: those of the agent */
  supervisor_work *work;
  int64_t idle_limit_ms; /* 0: no limit */
  int64_t drain_ms;
  unsigned wanted;
  int idle; /* calls */
  int closes;
  enum frontend_close close; /* of the last call */
  bool keeps_calls;          /* in `calls`: what the engine called, in order */
  struct recorder calls;
  bool leaves_when_idle; /* idle() ends the program */
  /* How close() answers: at once; or only with FRONTEND_CLOSE_IMMEDIATE, when it has to. */
  enum { HOLDS, DELIVERS_AT_LAST, DELIVERS, LOSES } delivery;
  bool full;
  size_t capacity;      /* for so many bytes at once; 0: for any */
  char events[1 << 20]; /* one line each: kind, a space (for a partial one a +), the text */
  size_t length;
  int event_count;
  int out_of_sequence; /* events whose seq was not their place in the step */
  int flushes;
  int flushed_events; /* events before the last flush */
  char step_id[64];   /* of the last event, as it goes into JSON */
  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  int timestamps_back; /* events that were older than the one before */
  int done;
  struct step_result result;
  char *output_content; /* NULL when there was none */
  char *error_message;  /* NULL when there was none */
};

/* For cmocka: the state is a step_owner without a step. */
int step_owner_set_up(void **state);
int step_owner_tear_down(void **state);
#define STEP_TEST(NAME)                                                                            \
  TEST_WITH(struct step_owner *owner, NAME, step_owner_set_up, step_owner_tear_down)

/* Makes the step that this JSON means: its first event is there, its command does not run. */
void step_owner_make(struct step_owner *self, const char *json);

/* From now on its steps are of these kinds, and this is a supervisor's work for them. */
void step_owner_use_kinds(struct step_owner *self, const struct step_kind *const *known,
                          supervisor_work *known_work);

/* A new engine, which has this idle limit, or drains for so long. */
void step_owner_limit_idle_time(struct step_owner *self, int64_t milliseconds);
void step_owner_drain(struct step_owner *self, int64_t milliseconds);

/* The command is over, and the frontend has no room for what is left; for loop_until. */
bool step_owner_is_stalled(void *owner);

/* Frees the engine with the run, and makes a new one. */
void step_owner_free_execution(struct step_owner *self);

/* Makes and starts it. */
void step_owner_start(struct step_owner *self, const char *json);

/* The same for `sh -c script`; the script holds no quote and no backslash. */
void step_owner_make_script(struct step_owner *self, const char *script);
void step_owner_start_script(struct step_owner *self, const char *script, unsigned timeout_seconds);

/* Runs the loop until it is done, and a little further. Every event had its number, and the result
   has theirs. */
void step_owner_wait(struct step_owner *self);

/* Runs the loop until all events are these, and were flushed. */
void step_owner_expect(struct step_owner *self, const char *events);

/* step_owner_wait; the result is this one, and all events were flushed. NULL: there is none. */
void step_owner_ends(struct step_owner *self, int exit_code, const char *error_message,
                     const char *output_content);

#endif
