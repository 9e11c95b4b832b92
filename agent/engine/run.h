#ifndef AGENT_ENGINE_RUN_H
#define AGENT_ENGINE_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/process.h"
#include "wire/step.h"
#include "wire/step_event.h"
#include "wire/step_result.h"

/*
 * One step in flight: a process, a line splitter for each of its streams, a batcher, and what the
 * result will tell. Knows nothing of Redis: its owner takes the events and says when it is full.
 *
 *   run = run_new(…)               event(started), flush()
 *   run_start(run)                 from here on the command runs
 *     run_reaped(…)                for every child that was reaped
 *     event(…) …, flush()               while the command prints
 *     run_resume(…)                when the owner is no longer full
 *   waits()                           the command is over, its lines are not: the owner is full
 *   done(completed, result)           once, never inside another call of the owner
 *   run_free(run)                  from done(), or to give up
 */
struct run;

struct run_report {
  struct step_event completed; /* the last event, which belongs to the result */
  struct step_result result;
  const char *holder; /* who still holds the step's output in the background; "" for nobody */
  size_t survivors;   /* processes that SIGKILL did not end */
};

struct run_handler {
  void (*event)(void *owner, const struct step_event *event);
  void (*flush)(void *owner);
  bool (*full)(void *owner, size_t more); /* there is no room for so many bytes more */
  void (*waits)(void *owner);
  void (*done)(void *owner, const struct run_report *report);
};

/* What all steps of one agent share. Nothing is owned. */
struct run_context {
  struct process_context process;
  const char *job_id;
  char *const *environment; /* what commands inherit */
  const char *agent_tag;    /* unique to this agent process, begins every step's tag */
};

/* Takes the step over: `*step` is empty afterwards. `number` is unique in this agent. The context
   must outlive the run. */
struct run *run_new(const struct run_context *context, struct step *step, uint64_t number,
                    const struct run_handler *handler, void *owner);

/* A command that cannot be started is reported through done(), like everything else. Nothing
   happens when the run was stopped before. */
void run_start(struct run *self);

/* Kills what may still run. */
void run_free(struct run *self);

const struct step *run_step(const struct run *self);

/* See process_reaped. */
bool run_reaped(struct run *self, pid_t pid, int status);

/* The owner has room again. */
void run_resume(struct run *self);

/* Ends the step: SIGTERM, `grace_ms`, SIGKILL; the result says `reason`. Once is enough; again, it
   can only shorten the grace. One that was not started is done without having run. */
void run_stop(struct run *self, int64_t grace_ms, const char *reason);

#endif
