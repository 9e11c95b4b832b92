#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/engine/execution_result.h"
#include "wire/step.h"
#include "wire/step_report.h"

/*
 * The interface between the engine and a frontend. Every frontend implements it and calls the
 * engine through it. The hard part is which calls may come from inside which others: struct
 * frontend below has the rules.
 */

/* The most executions at a time. */
#define ENGINE_EXECUTIONS_MAX 16

/* How a frontend wants its steps to be executed. Times are in milliseconds. */
struct frontend_terms {
  unsigned executions;    /* at a time, from 1 to ENGINE_EXECUTIONS_MAX */
  int64_t grace_ms;       /* from SIGTERM to SIGKILL, at a deadline and when a step is stopped */
  int64_t drain_ms;       /* how long a background process may keep a finished step's output open */
  int64_t leave_grace_ms; /* from SIGTERM to SIGKILL when the program ends: of the executions or,
                             if there is none, of background processes */
  int64_t leave_background_ms; /* the same, of background processes after the executions */
  /* 0: each line of a command's output becomes an event. Else output is kept raw: this many bytes
     of the beginning of each stream. */
  size_t output_bytes;
  size_t tail_bytes; /* of the end of a longer stream; at most `output_bytes` */
};

/* The terms of wire/PROTOCOL.md. grace_ms, drain_ms and SUPERVISORS_GIVE_UP_MS fit into the 30 s
   that a server waits after timeoutSeconds, and the leave times into the 10 s of an orchestrator.
   */
#define FRONTEND_TERMS_OF_PROTOCOL                                                                 \
  {                                                                                                \
    .executions = 1, .grace_ms = 10000, .drain_ms = 1500, .leave_grace_ms = 5000,                  \
    .leave_background_ms = 1000                                                                    \
  }

/*
 * A frontend is a way for steps to get into the engine, and for their events and results to get
 * out. The engine knows nothing else about it. A frontend embeds struct frontend as its first
 * member, fills in `type` and `terms`, and is passed to engine_set_frontend.
 *
 *   engine                               frontend
 *     want(n)              ------->        may submit n more requests
 *                          <-------      engine_submit(request)
 *     begin(execution)     ------->        makes the start as durable as this frontend promises
 *                          <-------      engine_start(execution), from inside begin() or later
 *     event(…), flush()    ------->        output, while capacity() is not 0
 *                          <-------      engine_capacity_freed(): there is capacity again
 *     result(…), flush()   ------->        once per execution, which is over
 *                          <-------      engine_cancel(step id), at any time
 *                          <-------      engine_await_dead_agents(): of earlier agents
 *     interrupted_ended()  ------->        none of their processes is left
 *                          <-------      engine_leave(exit code): no more steps
 *     close(how)           ------->        no execution is left: deliver what is queued
 *                          <-------      engine_frontend_closed()
 *
 * The engine calls a frontend from the event loop, and otherwise only from inside these functions:
 * engine_submit calls activity(), begin(), event() and flush(); engine_leave calls want(); and
 * engine_capacity_freed, engine_stop, engine_cancel and engine_leave may call event() and flush().
 */
struct frontend {
  const struct frontend_type *type;
  struct engine *engine;
  struct frontend_terms terms; /* engine_set_frontend reads the grace and the drain */
};

struct execution;

/* A step that a frontend wants to be executed. engine_submit takes ownership of it. */
struct request {
  struct step step; /* checked, of a kind that is executed (step_is_work) */
  void *user_data;  /* the frontend's own; see execution_user_data */
};

/* How urgent the end of a frontend is. */
enum frontend_close {
  FRONTEND_CLOSE_GRACEFUL, /* deliver everything, and wait for a server that is away */
  FRONTEND_CLOSE_FAST,     /* deliver everything that needs no such wait */
  FRONTEND_CLOSE_IMMEDIATE /* deliver nothing more, and log what is lost */
};

struct frontend_type {
  const char *name; /* for the log */

  /* The frontend may submit this many more requests, now or later. 0: none anymore, because the
     engine is ending. */
  void (*want)(struct frontend *self, unsigned requests);

  /* The execution exists, and its `started` event was passed to event(). */
  void (*begin)(struct frontend *self, struct execution *execution);

  /* Returns how many bytes of output the frontend accepts now. While that is less than an execution
     has, its pipes are not read and the command blocks. When capacity returns after there was none,
     the frontend calls engine_capacity_freed from the event loop, also if a flush() freed it before
     it returned. NULL: always enough. */
  size_t (*capacity)(const struct frontend *self);

  /* NULL: the frontend has no events. */
  void (*event)(struct frontend *self, const struct execution *execution,
                const struct step_event *event);

  /* The command is being killed, at the deadline or by engine_stop; or it is over (`is_over`), and
     only the output that is in its pipes follows. May be called several times. May be NULL. */
  void (*ending)(struct frontend *self, struct execution *execution, bool is_over);

  /* Sends the events so far now. NULL: they are sent anyway. */
  void (*flush)(struct frontend *self);

  /* The execution is over. The pointers are valid during the call only. */
  void (*result)(struct frontend *self, const struct execution *execution,
                 const struct execution_result *end);

  /* The number of executions changed. May be NULL. */
  void (*activity)(struct frontend *self, unsigned running);

  /* Follows engine_await_dead_agents if that returned false. NULL if that is never called. */
  void (*interrupted_ended)(struct frontend *self);

  /* The idle limit is reached. The frontend answers, now or later, with engine_wait_on or
     engine_leave. An engine_submit in between withdraws the question. */
  void (*idle)(struct frontend *self);

  /* Ends the frontend. May be called again with a more urgent `how`. The frontend answers once with
     engine_frontend_closed; if FRONTEND_CLOSE_IMMEDIATE, before it returns. */
  void (*close)(struct frontend *self, enum frontend_close how);

  /* Logs its state in a few lines: its connection and its queues. */
  void (*dump)(const struct frontend *self);

  /* Frees the frontend, after engine_free. Called by the code that made it. */
  void (*free)(struct frontend *self);
};

/* --- what a frontend may ask of an execution ------------------------------------------------- */

const struct step *execution_step(const struct execution *execution);
const struct log *execution_log(const struct execution *execution); /* with the step's trace */
void *execution_user_data(const struct execution *execution);

/* The end of an execution as wire/PROTOCOL.md has it: the last event and the result. */
struct step_end {
  struct step_event completed;
  struct step_result result;
  char text[64];     /* of the event */
  struct error line; /* of the result */
};

/* To be called from result(), with its arguments. `out` is valid as long as they are, at its
   address. */
void execution_step_end(const struct execution *execution, const struct execution_result *end,
                        struct step_end *out);

/* If the terms have output_bytes: how many bytes the command has printed so far. */
uint64_t execution_output_total(const struct execution *execution);

/* If the terms have output_bytes: copies the last line of either stream that is not empty, cut at
   `size` bytes and at a UTF-8 boundary. Returns its length. */
size_t execution_last_line(const struct execution *execution, char *out, size_t size);
