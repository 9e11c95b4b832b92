#pragma once

#include "agent/engine/engine.h"
#include "agent/engine/execution.h"
#include "agent/engine/resource_guard.h"
#include "agent/engine/signals.h"

/*
 * The state of the engine, which engine.c and shutdown.c share. No other file includes this: the
 * engine is engine.h to everyone else. The hard part is the end of the program, which shutdown.c
 * explains.
 */

/* How far the end of the program is; shutdown.c has the transitions. */
enum shutdown_phase {
  SHUTDOWN_RUNNING,
  SHUTDOWN_DRAINING,
  SHUTDOWN_ENDING_STEPS,
  SHUTDOWN_ENDING_TREE,
  SHUTDOWN_CLOSING,
  SHUTDOWN_OVER
};

struct shutdown {
  enum shutdown_phase phase;
  /* While it drains: how long the step may take. Then, after a signal: when everything must be
     over; else how long a graceful close waits for a server that is away. */
  struct event *limit;
  const char *reason; /* NULL: the program does not end */
  int exit_code;
  int signal; /* the first one that ends the program; 0: none */
};

struct engine {
  struct engine_options options;
  struct frontend *frontend;
  struct execution *executions[ENGINE_EXECUTIONS_MAX]; /* NULL: a free place */
  unsigned execution_count;
  uint64_t last_number; /* of the execution made last */
  struct execution_context execution_context;
  struct supervisors *supervisors;
  struct list drains;           /* of process_context */
  struct resource_guard *guard; /* NULL before the first step */
  struct signals *signals;      /* NULL: the caller reads them */
  struct event *spare;          /* makes a supervisor ahead of time */
  char job[8 + 1];              /* a hash of the job id */
  char tag[64];
  struct event *dead_agents;      /* looks again: see engine_await_dead_agents */
  int64_t dead_agents_give_up_ms; /* monotonic */
  struct event *idle_limit;       /* pending unless a command executes */
  bool has_asked_idle;            /* idle() was called and not answered */
  struct shutdown shutdown;
};

/* Ends the idle time, because a step arrived or the program ends. */
void engine_end_idle(struct engine *self);

void shutdown_init(struct engine *engine);

/* Returns true if the program ends or drains. */
bool shutdown_has_begun(const struct engine *engine);

/* To be called when the last execution is over. */
void shutdown_no_executions(struct engine *engine);

/* Begins the end, or makes it faster: see engine_signal. */
void shutdown_signal(struct engine *engine, int signal);
