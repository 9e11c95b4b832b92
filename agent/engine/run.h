#ifndef AGENT_ENGINE_RUN_H
#define AGENT_ENGINE_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/engine/door.h"
#include "agent/kinds/kind.h"
#include "agent/process/process.h"

/*
 * One step in flight: a process, and what becomes of its output (enum run_output). The engine's own;
 * doors see what door.h shows of it.
 *
 *   run = run_new(…)               event(started)
 *   run_prepare(run)               its process is made, and waits
 *   run_start(run)                 the process executes
 *     event(…) …, flush()          while it prints
 *     stalled()                    the command is over, its output is not: the door has no room
 *     done()                       once, from the event loop
 *   run_free(run)                  from there, or to give up
 *
 * States; each arrow is the only way from one to the next:
 *
 *   NEW --start--> RUNNING --command over, pipes not--> DRAINING --pipes drained--> ENDED --> DONE
 *    |                `----------command over, pipes drained-------------------------^
 *    `--stop, or no process could be made--------------------------------------------^
 *
 * In ENDED lines may still wait for room in the door.
 */
enum run_state { RUN_NEW, RUN_RUNNING, RUN_DRAINING, RUN_ENDED, RUN_DONE };

/* What becomes of the output, from the run's making on. */
enum run_output {
  RUN_LINES,   /* of a command: each line is an event, and a part is kept (capture.h) */
  RUN_RAW,     /* of a command, where the door's terms have output_bytes (raw_output.h) */
  RUN_CONTENT, /* of a file kind: stdout is its content, lines of stderr are events and kept */
};

/* What a run tells its engine, from the event loop only. */
struct run_handler {
  void (*stalled)(void *engine, struct run *run);
  void (*done)(void *engine, struct run *run, const struct run_end *end);
};

/* What all runs of an engine share. Nothing is owned. */
struct run_context {
  const struct run_handler *handler;
  void *engine;
  struct process_context process;
  const struct log *log;
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

/* Ends the step: SIGTERM, `grace_ms`, SIGKILL; the result says `reason`. A second call can only
   shorten the grace. A run that was not started is done without having executed. */
void run_stop(struct run *self, int64_t grace_ms, const char *reason);

struct door *run_door(const struct run *self);
enum run_state run_state(const struct run *self);

/* It executes, and what it waits for is not the door. */
bool run_is_busy(const struct run *self);

/* One line for the log: its pid, its age, and what it waits for. */
void run_describe(const struct run *self, char *out, size_t size);

#endif
