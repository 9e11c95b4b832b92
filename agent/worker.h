#ifndef AGENT_WORKER_H
#define AGENT_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/engine/run.h"
#include "agent/job.h"
#include "base/error.h"

/*
 * Works off the steps of the job: takes them, runs one at a time in their order, answers each.
 * Joins the two rooms: what arrives through the intake is run by a step_run, and what that says
 * leaves through the outbox, which is the agent's.
 *
 *   worker_begin              before the outbox starts: what it needs is asked with the claim
 *     busy(), idle()          there is something to do; there is not, or it waits for Redis
 *     shutdown()              a step said so: worker_stop follows
 *   worker_delivered, worker_room, worker_forgotten     what the outbox says
 *   worker_stop               no more steps
 *     stopped()               the one that was running is answered
 */
struct worker;

struct worker_handler {
  void (*busy)(void *owner);
  void (*idle)(void *owner);
  void (*shutdown)(void *owner);
  void (*stopped)(void *owner);
  void (*failed)(void *owner, const struct error *error); /* nothing more can be taken */
};

/* The context must outlive it. */
struct worker *worker_new(const struct job *job, const struct run_context *context,
                          const struct worker_handler *handler, void *owner);
void worker_free(struct worker *self);

void worker_begin(struct worker *self);

/* See consumer_prepare. */
void worker_prepare(struct worker *self);

/* Everything is delivered; there is room again; Redis has lost what was delivered. */
void worker_delivered(struct worker *self);
void worker_room(struct worker *self);
void worker_forgotten(struct worker *self);

/* Takes and begins no more steps; the running one is ended within `grace_ms` and answered with
   `reason`. What waits stays with Redis, for the next agent. */
void worker_stop(struct worker *self, int64_t grace_ms, const char *reason);

/* A step is in flight. */
bool worker_is_running(const struct worker *self);

/* See process_reaped. */
bool worker_reaped(struct worker *self, pid_t pid, int status);

#endif
