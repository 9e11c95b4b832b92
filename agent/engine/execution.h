#ifndef AGENT_ENGINE_EXECUTION_H
#define AGENT_ENGINE_EXECUTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/engine/frontend.h"
#include "agent/engine/secrets.h"
#include "agent/kinds/kind.h"
#include "agent/process/process.h"

/*
 * One step in flight: a process, and what becomes of its output. The engine's own; frontends see
 * what frontend.h shows of it.
 *
 *   run = execution_new(…)               event(started)
 *   execution_prepare(run)               its process is made, and waits
 *   execution_start(run)                 the process executes
 *     event(…) …, flush()          while it prints
 *     stalled()                    the command is over, its output is not: the frontend has no room
 *     done()                       once, from the event loop
 *   execution_free(run)                  from there, or to give up
 */

/* What all runs of an engine share. Nothing is owned. */
struct execution_context {
  /* What a run tells its engine, from the event loop only. */
  void (*stalled)(void *engine, struct execution *execution);
  void (*done)(void *engine, struct execution *execution, const struct execution_result *end);
  void *engine;
  struct process_context process;
  const struct log *log;
  struct secrets *secrets;
  struct kind_context kind;
  size_t line_bytes;     /* of the longest line that comes whole, see lines.h */
  const char *agent_tag; /* unique to this agent process; every run's tag begins with it */
};

/* Takes the request over: its step is empty afterwards. `number` is unique in this engine. The
   context and the frontend must outlive the run. */
struct execution *execution_new(const struct execution_context *context, struct frontend *frontend,
                                struct request *request, uint64_t number);

/* Kills what may still run. */
void execution_free(struct execution *self);

/* Makes the process ahead of execution_start; not needed. */
void execution_prepare(struct execution *self);

/* A command that cannot be started is reported through done(), like everything else. Nothing
   happens when the run was stopped before. */
void execution_start(struct execution *self);

/* The frontend has room again. */
void execution_resume(struct execution *self);

/* From now on the frontend counts as having room: what is over is little, and its result is worth
   it. */
void execution_ignore_capacity(struct execution *self);

/* See engine_stop. */
void execution_stop(struct execution *self, int64_t grace_ms, enum step_cause cause,
                    const char *reason);

/* As of process_memory; 0: it has no process, or was not started. */
int64_t execution_memory(const struct execution *self);

struct frontend *execution_frontend(const struct execution *self);

/* It is over but for its last output, for which the frontend has no room. */
bool execution_is_stalled(const struct execution *self);

/* One line for the log: its pid, its age, and what it waits for. */
void execution_describe(const struct execution *self, char *out, size_t size);

#endif
