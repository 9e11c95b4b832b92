#ifndef CLIENT_STEPS_EXCHANGE_H
#define CLIENT_STEPS_EXCHANGE_H

#include <stdbool.h>

#include "client/program.h"
#include "client/redis/job.h"
#include "client/steps/event_stream.h"
#include "client/steps/step_text.h"

/*
 * Steps, one after the other: each is pushed, waited for, and its result taken, which is nobody
 * else's. While it waits an interrupt cancels the step, and it is seen when the agent is gone, the
 * step is lost or Redis is away.
 *
 *   exchange_begin(&exchange, program, &handler, owner);
 *   step_id_make(id);
 *   code = exchange_step(&exchange, id, json, &end);     as often as there are steps
 *   exchange_end(&exchange);
 *
 * Signals are of the exchange from begin to end: nothing else is interrupted by one.
 */
struct exchange_handler {
  /* An event of the step; `missed`: events before it that were trimmed. May be NULL. */
  void (*event)(void *owner, const char *json, size_t length, const struct event_view *view,
                uint64_t missed);
  /* All that were there were given. False: nobody reads them any more; the step is cancelled, and
     its end waited for. May be NULL: then nobody is to read standard output before the answer. */
  bool (*turn)(void *owner);
};

struct exchange {
  struct program *program;
  const struct exchange_handler *handler;
  void *owner;
  bool tidies;     /* the owner's: steps follow the one that a signal cancels, to be waited for */
  bool is_tidying; /* the owner's: these; a signal does not cancel them */

  /* The program's server reads the events while there is a step; what is asked meanwhile a spare
     one is asked, which is made when it is needed first. */
  struct pipeline *reader, *spare;
  struct event_stream stream;
  bool has_stream;
  bool has_last;
  char last[48];      /* entry of the last event before the first step */
  char *refusal;      /* of what a step needs; NULL: none */
  const char *failed; /* why the stream cannot be read; NULL: it can */
  int signal_fd;
  struct event *signals, *tick;
  int signal;          /* that came and was not looked at; 0: none */
  int first_signal;    /* 0: none so far */
  unsigned interrupts; /* so far */

  /* Of the step: */
  const char *id; /* NULL: there is none */
  struct job_short_id name;
  bool is_started, is_over, was_cancelled, has_place;
  bool is_ordered; /* Redis has the order to cancel it */
  struct job_place place;
  bool is_unread;       /* nobody reads what it prints */
  int64_t discarded_ms; /* since when nothing is printed any more; 0: it is */
  int exit_code;        /* of `completed` */
  bool timed_out;
  char *result;       /* NULL: it was not taken so far */
  uint64_t seq;       /* of the last event */
  int64_t looked_ms;  /* when all was well last; monotonic */
  int64_t beat_ms;    /* when there was a heartbeat */
  int64_t present_ms; /* when the step was somewhere */
};

/* How a step has ended: for outcome_make. */
struct exchange_answer {
  char *result; /* to be freed; NULL: somebody else took it */
  int exit_code;
  bool timed_out, was_cancelled;
  bool is_unread; /* the reader was gone */
};

void exchange_begin(struct exchange *self, struct program *program,
                    const struct exchange_handler *handler, void *owner);
void exchange_end(struct exchange *self);

/* Returns -1 with the answer; or the code to exit with, when that is not known: why was said. No
   step begins after a signal, except to tidy up. */
int exchange_step(struct exchange *self, const char *id, const char *json,
                  struct exchange_answer *answer);

/* Whether a signal asks to end, between two steps. */
bool exchange_is_interrupted(struct exchange *self);

/* Waits until the descriptor is ready for these events of poll(2). Returns false if a signal asks
   to end. */
bool exchange_wait_for(struct exchange *self, int fd, short events);

#endif
