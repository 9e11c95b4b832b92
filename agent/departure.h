#ifndef AGENT_DEPARTURE_H
#define AGENT_DEPARTURE_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/exit_code.h"
#include "agent/job.h"
#include "agent/presence.h"
#include "agent/process/kill_sequence.h"
#include "agent/worker.h"

/*
 * How the agent leaves. In this order: no more steps, the running step ends and is answered, what
 * earlier steps left in the background ends, everything is delivered, the heartbeat ends. A second
 * signal does not wait for any of it.
 *
 *   departure_begin, departure_order        for a reason; because of a signal
 *   departure_answered, _reaped, _undeliverable, _go_on, _end      what happens meanwhile
 *     the loop is left, and departure_exit_code says with what
 */

/* From SIGTERM to SIGKILL when the agent is stopped, and for what is left in the background when
   the running step has used that up; and when it leaves whatever happens. An orchestrator gives it
   10 s. */
#define DEPARTURE_GRACE_MS 5000
#define DEPARTURE_LEFTOVERS_GRACE_MS 1000
#define DEPARTURE_DEADLINE_MS 7500

enum departure_state { DEPARTURE_NOT_YET, DEPARTURE_STOPPING, DEPARTURE_DRAINING, DEPARTURE_OVER };

struct departure {
  struct job job;
  struct presence *presence;
  struct worker *worker;
  enum departure_state state;
  struct process_tree everything; /* all descendants of this process */
  struct kill_sequence kill;
  struct event *patience; /* how long a shutdown waits for Redis: until the idle limit */
  struct event *deadline;
  int exit_code;
  int signal; /* the first one that ordered it; 0 for none */
};

/* The departure must stay where it is. */
void departure_init(struct departure *self, const struct job *job, struct presence *presence,
                    struct worker *worker);
void departure_release(struct departure *self);

/* `reason` is for people: "shutdown step". Once. */
void departure_begin(struct departure *self, int exit_code, const char *reason);

/* A signal that orders a stop came: the first one begins, or hurries what has begun. */
void departure_order(struct departure *self, int signal);

bool departure_has_begun(const struct departure *self);

/* The step that was running when it began is answered. */
void departure_answered(struct departure *self);

/* A child was reaped that nobody knew. */
void departure_reaped(struct departure *self);

/* Everything is delivered; or Redis is gone, or does not take any more. */
void departure_go_on(struct departure *self);

/* The outbox has failed: nobody brings what a shutdown would wait for. */
void departure_undeliverable(struct departure *self);

/* Leaves the loop: the heartbeat has ended, which is last. */
void departure_end(struct departure *self);

int departure_exit_code(const struct departure *self);

#endif
