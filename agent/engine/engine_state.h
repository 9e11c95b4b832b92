#ifndef AGENT_ENGINE_ENGINE_STATE_H
#define AGENT_ENGINE_ENGINE_STATE_H

#include "agent/engine/engine.h"
#include "agent/engine/execution.h"
#include "agent/engine/memory_guard.h"
#include "agent/engine/shutdown.h"
#include "agent/engine/signals.h"

/* The state of the engine. Only engine.c and shutdown.c include this. */
struct engine {
  struct engine_options options;
  struct frontend *frontend;
  struct execution *executions[ENGINE_EXECUTIONS_MAX]; /* NULL: a free place */
  unsigned execution_count;
  uint64_t last_number; /* of the execution made last */
  struct execution_context execution_context;
  struct supervisors *supervisors;
  struct memory_guard *memory_guard; /* NULL before the first step */
  struct signals *signals;           /* NULL: the caller reads them */
  struct event *spare;               /* makes a supervisor ahead of time */
  char job[8 + 1];                   /* a hash of the job id */
  char tag[64];
  struct event *dead_agents;      /* looks again: see engine_await_dead_agents */
  int64_t dead_agents_give_up_ms; /* monotonic */
  struct event *reap_again;       /* pending if more children may have ended than one turn reaps */
  struct event *idle_limit;       /* pending while no step executes */
  bool has_asked_idle;            /* idle() was called and not answered */
  struct shutdown shutdown;
};

/* The idle time ends: a step arrived, or the program ends. */
void engine_end_idle(struct engine *self);

#endif
