#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/engine.h"
#include "agent/engine/frontend.h"
#include "agent/process/process.h"

/*
 * The execution of one step: it runs the process and passes its output to the frontend. The engine
 * uses this; frontends see only what frontend.h declares. The hard part is a frontend without
 * capacity: the pipes are then not read, and the end of the step waits for its last output.
 *
 *   execution = execution_new(…)       event(started)
 *   execution_prepare(execution)       its process is made, and waits
 *   execution_start(execution)         the process executes the step
 *     event(…) …, flush()              while it prints
 *     engine_execution_stalled()       it is over, but the frontend has no capacity for its output
 *     engine_execution_done()          once, from the event loop
 *   execution_free(execution)          after that, or to give up
 */

/* What all executions of an engine share. Nothing is owned. */
struct execution_context {
  const struct engine_options *options;
  struct process_context process;
  const char *agent_tag; /* unique to this agent; the tag of each execution begins with it */
};

/* The engine implements these. They are called from the event loop; engine_stop may also call
   engine_execution_stalled. */
void engine_execution_stalled(struct execution *execution);
void engine_execution_done(struct execution *execution, const struct execution_result *end);

/* Takes ownership of the request's step, which is empty afterwards. `number` is unique in this
   engine. The context and the frontend must outlive the execution. */
struct execution *execution_new(const struct execution_context *context, struct frontend *frontend,
                                struct request *request, uint64_t number);

/* Kills the processes that still run. */
void execution_free(struct execution *self);

/* Makes the process ahead of execution_start, which would else make it. */
void execution_prepare(struct execution *self);

/* If the command cannot be started, its end reports it like any other end. Does nothing if the
   execution was stopped before. */
void execution_start(struct execution *self);

/* Continues to read the pipes, because the frontend has capacity again. */
void execution_resume(struct execution *self);

/* Whether it is over except for its last output, for which the frontend has no capacity. */
bool execution_is_stalled(const struct execution *self);

/* If it is stalled, passes its last output on nevertheless. */
void execution_finish_stalled(struct execution *self);

/* Returns the limits of its step and of the agent together. */
const struct policy_limits *execution_limits(const struct execution *self);

/* Whether execution_start was called. */
bool execution_was_started(const struct execution *self);

/* Return process_memory and process_count; 0 if it has no process or was not started. */
int64_t execution_memory(const struct execution *self);
int64_t execution_processes(const struct execution *self);

struct frontend *execution_frontend(const struct execution *self);

/* Writes a line for the log: the pid, the age, and what the execution waits for. */
void execution_describe(const struct execution *self, char *out, size_t size);
