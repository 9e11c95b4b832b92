#ifndef AGENT_ENGINE_FRONTEND_H
#define AGENT_ENGINE_FRONTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/execution_result.h"
#include "wire/step.h"
#include "wire/step_report.h"

/* The most runs at once. */
#define ENGINE_EXECUTIONS_MAX 16

/* What a frontend asks for its runs; times in milliseconds. */
struct frontend_terms {
  unsigned executions;    /* at once, from 1 to ENGINE_EXECUTIONS_MAX */
  int64_t grace_ms;       /* from SIGTERM to SIGKILL, at a deadline and when a run is stopped */
  int64_t drain_ms;       /* how long a background process may hold the output of what is over */
  int64_t leave_grace_ms; /* from SIGTERM to SIGKILL when the program ends, of the runs */
  int64_t leave_background_ms; /* and then of what they and earlier ones left in the background */
  /* 0: a command's output becomes events, line by line. Else it is kept raw: so many bytes of the
     beginning of each stream. */
  size_t output_bytes;
  size_t tail_bytes; /* and so many of the end of one that is longer; at most `output_bytes` */
};

/* The terms of steps as wire/PROTOCOL.md has them: one at a time. The grace and the drain of a
   process and the time after which it is given up fit into the 30 s that a server waits after
   timeoutSeconds; the end of the program fits into the 10 s that an orchestrator gives it. */
#define FRONTEND_TERMS_OF_PROTOCOL                                                                 \
  {                                                                                                \
    .executions = 1, .grace_ms = 10000, .drain_ms = 1500, .leave_grace_ms = 5000,                  \
    .leave_background_ms = 1000                                                                    \
  }

/*
 * A frontend: a way for steps into the engine, and for their events and results out of it. This is
 * all that an engine knows of one. A frontend embeds struct frontend as its first member, fills in
 * `type` and `terms`, and is given to engine_set_frontend.
 *
 *   engine                               frontend
 *     want(n)              ------->        n more requests may be submitted
 *                          <-------      engine_submit(request)
 *     begin(run)           ------->        makes the start as durable as this frontend promises
 *                          <-------      engine_start(run), from inside begin() or later
 *     event(…), flush()    ------->        output, while room() is not 0, of frontends that have events
 *                          <-------      engine_capacity_freed(): there is room again
 *     result(…), flush()   ------->        once for each run; the run is over
 *                          <-------      engine_cancel(step id), at any time
 *                          <-------      engine_await_dead_agents(): of earlier agents
 *     interrupted_ended()  ------->        nothing of it runs any more
 *                          <-------      engine_leave(exit code): no more steps
 *     close(how)           ------->        no run is left: deliver what is held
 *                          <-------      engine_frontend_closed()
 *
 * The engine calls a frontend from the event loop, never from inside one of the engine's functions
 * that the frontend called, with three exceptions: engine_submit calls begin(), event() and
 * flush(); engine_capacity_freed calls event() and flush(); and whatever ends a run may call
 * result() and want().
 */
struct frontend {
  const struct frontend_type *type;
  struct engine *engine;
  struct frontend_terms terms; /* its grace and its drain: as engine_set_frontend found them */
};

struct execution;

/* One step that a frontend wants to be run. engine_submit takes it over. */
struct request {
  struct step step; /* checked, of a kind that is run (step_is_work) */
  void *user_data;  /* the frontend's own name for it, given back with the result */
};

/* How urgent the end of a frontend is. */
enum frontend_close {
  FRONTEND_CLOSE_GRACEFUL, /* deliver everything, also to a server that is away at the moment */
  FRONTEND_CLOSE_FAST, /* deliver what can be delivered now; do not wait for a server that is away */
  FRONTEND_CLOSE_IMMEDIATE /* deliver nothing more: log what is lost */
};

struct frontend_type {
  const char *name; /* for the log */

  /* So many more requests may be submitted, now or later. 0: none any more, the engine ends. */
  void (*want)(struct frontend *self, unsigned requests);

  /* The run was made; its `started` event follows with event() before this is called. */
  void (*begin)(struct frontend *self, struct execution *execution);

  /* Bytes of output that the frontend takes now. While it is less than what a run has, the run's
     pipes are not read and the command waits; engine_capacity_freed says when to ask again. The
     frontend calls it from the loop whenever there is room again after there was none, also when a
     flush() has made the room before it returned: nobody asks after a flush. NULL: always
     enough. */
  size_t (*capacity)(const struct frontend *self);

  /* NULL: the frontend has no events. */
  void (*event)(struct frontend *self, const struct execution *execution,
                const struct step_event *event);

  /* What was given so far is to leave now. NULL: it leaves by itself. */
  void (*flush)(struct frontend *self);

  /* The run is over. Everything is valid during the call only. */
  void (*result)(struct frontend *self, const struct execution *execution,
                 const struct execution_result *end);

  /* The number of runs that execute has changed. May be NULL. */
  void (*activity)(struct frontend *self, unsigned running);

  /* The answer to engine_await_dead_agents, when it has returned false. NULL where that is never
     called. */
  void (*interrupted_ended)(struct frontend *self);

  /* The idle limit is reached. Answers, now or later, with engine_wait_on or engine_leave; an
     engine_submit in between withdraws the question. */
  void (*idle)(struct frontend *self);

  /* See enum frontend_close. May be called again, to be more urgent. Answers with
     engine_frontend_closed, once; with FRONTEND_CLOSE_IMMEDIATE before it returns. */
  void (*close)(struct frontend *self, enum frontend_close how);

  /* Logs its state in a few lines: what it is connected to, what it holds. */
  void (*dump)(const struct frontend *self);

  /* Frees the frontend, after engine_free. The engine does not call it; whoever made the frontend
     does. */
  void (*free)(struct frontend *self);
};

/* What a frontend may ask of a run. */
const struct step *execution_step(const struct execution *execution);
const struct log *execution_log(const struct execution *execution); /* for lines about it */
void *execution_user_data(const struct execution *execution);

/* The end for frontends of steps: the run's last event, and its result. */
struct step_end {
  struct step_event completed;
  struct step_result result;
  char text[64];     /* of the event */
  struct error line; /* of the result */
};

/* To be called from result(), with what that was given; `out` is valid as long, where it is. */
void execution_step_end(const struct execution *execution, const struct execution_result *end,
                        struct step_end *out);

/* Where the frontend's terms have output_bytes: the bytes that the command has printed so far; and
   its last line that is not empty, of either stream, cut at `size` bytes and at a UTF-8 boundary:
   returns its length. */
uint64_t execution_output_total(const struct execution *execution);
size_t execution_last_line(const struct execution *execution, char *out, size_t size);

#endif
