#ifndef AGENT_STEP_STEP_RUN_H
#define AGENT_STEP_STEP_RUN_H

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
 *   run = step_run_new(…)               event(started), flush()
 *   step_run_start(run)                 from here on the command runs
 *     step_run_reaped(…)                for every child that was reaped
 *     event(…) …, flush()               while the command prints
 *     step_run_resume(…)                when the owner is no longer full
 *   waits()                           the command is over, its lines are not: the owner is full
 *   done(completed, result)           once, never inside another call of the owner
 *   step_run_free(run)                  from done(), or to give up
 */
struct step_run;

struct step_run_report {
  struct step_event completed; /* the last event, which belongs to the result */
  struct step_result result;
  const char *holder; /* who still holds the step's output in the background; "" for nobody */
  size_t survivors;   /* processes that SIGKILL did not end */
};

struct step_run_handler {
  void (*event)(void *owner, const struct step_event *event);
  void (*flush)(void *owner);
  bool (*full)(void *owner, size_t more); /* there is no room for so many bytes more */
  void (*waits)(void *owner);
  void (*done)(void *owner, const struct step_run_report *report);
};

/* What all steps of one agent share. Nothing is owned. */
struct step_run_context {
  struct process_context process;
  const char *job_id;
  char *const *environment; /* what commands inherit */
  const char *agent_tag;    /* unique to this agent process, begins every step's tag */
};

/* Takes the step over: `*step` is empty afterwards. `number` is unique in this agent. The context
   must outlive the run. */
struct step_run *step_run_new(const struct step_run_context *context, struct step *step,
                              uint64_t number, const struct step_run_handler *handler, void *owner);

/* A command that cannot be started is reported through done(), like everything else. Nothing
   happens when the run was stopped before. */
void step_run_start(struct step_run *self);

/* Kills what may still run. */
void step_run_free(struct step_run *self);

const struct step *step_run_step(const struct step_run *self);

/* See process_reaped. */
bool step_run_reaped(struct step_run *self, pid_t pid, int status);

/* The owner has room again. */
void step_run_resume(struct step_run *self);

/* Ends the step: SIGTERM, `grace_ms`, SIGKILL; the result says `reason`. Once is enough; again, it
   can only shorten the grace. One that was not started is done without having run. */
void step_run_stop(struct step_run *self, int64_t grace_ms, const char *reason);

#endif
