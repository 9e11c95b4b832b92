#ifndef AGENT_ENGINE_RUN_H
#define AGENT_ENGINE_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/engine/door.h"
#include "agent/engine/secrets.h"
#include "agent/kinds/kind.h"
#include "agent/process/process.h"

/*
 * One step in flight: a process, and what becomes of its output. The engine's own; doors see what
 * door.h shows of it.
 *
 *   run = run_new(…)               event(started)
 *   run_prepare(run)               its process is made, and waits
 *   run_start(run)                 the process executes
 *     event(…) …, flush()          while it prints
 *     stalled()                    the command is over, its output is not: the door has no room
 *     done()                       once, from the event loop
 *   run_free(run)                  from there, or to give up
 */

/* What all runs of an engine share. Nothing is owned. */
struct run_context {
  /* What a run tells its engine, from the event loop only. */
  void (*stalled)(void *engine, struct run *run);
  void (*done)(void *engine, struct run *run, const struct run_end *end);
  void *engine;
  struct process_context process;
  const struct log *log;
  struct secrets *secrets;
  struct kind_context kind;
  size_t line_bytes;     /* of the longest line that comes whole, see lines.h */
  const char *agent_tag; /* unique to this agent process; every run's tag begins with it */
};

/* Takes the request over: its step is empty afterwards. `number` is unique in this engine. The
   context and the door must outlive the run. */
struct run *run_new(const struct run_context *context, struct door *door, struct request *request,
                    uint64_t number);

/* Kills what may still run. */
void run_free(struct run *self);

/* Makes the process ahead of run_start; not needed. */
void run_prepare(struct run *self);

/* A command that cannot be started is reported through done(), like everything else. Nothing
   happens when the run was stopped before. */
void run_start(struct run *self);

/* The door has room again. */
void run_resume(struct run *self);

/* From now on the door counts as having room: what is over is little, and its result is worth it.
 */
void run_ignore_room(struct run *self);

/* See engine_stop. */
void run_stop(struct run *self, int64_t grace_ms, enum step_cause cause, const char *reason);

/* As of process_memory; 0: it has no process, or was not started. */
int64_t run_memory(const struct run *self);

struct door *run_door(const struct run *self);

/* It is over but for its last output, for which the door has no room. */
bool run_is_stalled(const struct run *self);

/* One line for the log: its pid, its age, and what it waits for. */
void run_describe(const struct run *self, char *out, size_t size);

#endif
