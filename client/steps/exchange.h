#pragma once

#include <stdbool.h>

#include "client/program.h"
#include "client/steps/outcome.h"
#include "client/steps/step_text.h"
#include "client/steps/step_watch.h"

/*
 * Runs steps one after another: pushes each, waits for its end, and takes its result and no other.
 * The hard part is what may happen meanwhile: an interrupt cancels the step, and the agent, the
 * step, Redis or the reader of standard output may go away. exchange.c has a table for it.
 *
 *   exchange_begin(&exchange, program, &handler, owner);    from now on it handles signals
 *   code = exchange_step(&exchange, id, json);              for each step
 *   exchange_end(&exchange);
 */
struct exchange_handler {
  /* An event of the step, before which `missed` events were trimmed. May be NULL. */
  void (*event)(void *owner, const struct event_view *view, uint64_t missed);
  /* All available events have been delivered. Returns false if their output cannot be written; then
     the step is cancelled. NULL: no output is shown before the answer. */
  bool (*turn)(void *owner);
};

enum exchange_state {
  EXCHANGE_IDLE,     /* there is no step */
  EXCHANGE_WAITS,    /* the step was pushed */
  EXCHANGE_RUNS,     /* the step has events */
  EXCHANGE_DISCARDS, /* nobody reads its output: it was cancelled */
  EXCHANGE_ENDED,    /* the step has completed, or will have no events */
  EXCHANGE_FAILED,   /* its events cannot be read */
  EXCHANGE_STATES
};

/* What a signal does. The owner sets it. */
enum exchange_policy {
  EXCHANGE_LEAVES,     /* SIGQUIT leaves at once; other signals cancel the step */
  EXCHANGE_CLEANS_UP,  /* each signal cancels the step, and steps that clean up follow */
  EXCHANGE_IS_CLEANING /* these steps: the first two signals are ignored */
};

struct exchange {
  bool acknowledges; /* the owner sets it: the agent keeps events until they are acknowledged */
  enum exchange_state state;
  enum exchange_policy policy;
  enum { CANCEL_NONE, CANCEL_UNSENT, CANCEL_SENT } cancel; /* unsent: no answer */
  struct program *program;
  const struct exchange_handler *handler;
  void *owner;
  struct step_watch watch;
  char *failure;    /* why the events cannot be read; may be NULL */
  int first_signal; /* 0: none has arrived */
  unsigned interrupts;

  /* The step: */
  struct job_short_id name;
  char *result; /* NULL: not found yet, or another client took it */
  struct outcome outcome;
  uint64_t seq;    /* of its last event */
  uint64_t missed; /* events that were trimmed before they could be read */
  size_t unacknowledged_bytes;
  int64_t acknowledged_ms;
  int64_t discarded_ms; /* when its output became unreadable */
  bool has_discarded;   /* it has printed something since then */
  struct completion completion;
};

void exchange_begin(struct exchange *self, struct program *program,
                    const struct exchange_handler *handler, void *owner);
void exchange_end(struct exchange *self);

/* Returns -1 with `result` and `outcome`, or the exit code after an error message. After a signal
   only steps that clean up are started. */
int exchange_step(struct exchange *self, const char *id, const char *json);

/* Between two steps: returns 0, or the exit code if a signal has arrived. */
int exchange_check_signals(struct exchange *self);

/* Waits for these events of poll(2). Returns 0, or the exit code if a signal has arrived. */
int exchange_wait_for(struct exchange *self, int fd, short events);

/* Writes all output. Returns 0, the exit code if a signal has arrived, or 128 + SIGPIPE if the
   output cannot be written. */
int exchange_flush(struct exchange *self);

/* Reads `size` bytes of standard input, or fewer at its end. Returns 0, -1 with the error, or the
   exit code if a signal has arrived. */
int exchange_read_input(struct exchange *self, struct buffer *input, size_t size,
                        struct error *error);
