/*
 *   NOT_YET --begin, order--> STOPPING --tree gone--> DRAINING --everything delivered--> OVER
 *
 * STOPPING is over when no step runs and nothing is left of any: the running one ends by itself
 * (worker_stop), and with its answer the kill sequence begins, for what earlier ones left.
 */
#include "agent/departure.h"

#include <signal.h>
#include <stdio.h>

#include "agent/engine/idle.h"
#include "agent/engine/signals.h"
#include "agent/last_words.h"
#include "base/loop.h"
#include "base/signal_name.h"

void departure_end(struct departure *self) {
  if (!outbox_is_empty(self->job.outbox) && !presence_is_ending(self->presence))
    last_words(self->job.log, self->job.outbox);
  self->state = DEPARTURE_OVER;
  (void)event_base_loopbreak(self->job.base);
}

/* Everything is ended; what remains is to be delivered, as long as there is somebody to do it. A
   shutdown waits for Redis until the idle limit, everything else leaves without it. */
static void drain(struct departure *self) {
  struct outbox *outbox = self->job.outbox;
  struct presence *presence = self->presence;
  self->state = DEPARTURE_DRAINING;
  bool ending = presence_is_ending(presence);
  bool empty = outbox_is_empty(outbox);
  bool patient = self->exit_code == AGENT_EXIT_SHUTDOWN && !empty && !ending;
  if (!outbox_is_ready(outbox) || (outbox_is_gone(outbox) && !patient))
    departure_end(self);
  else if (empty && ending)
    presence_delivered(presence);
  else if (empty)
    presence_end(presence);
}

void departure_go_on(struct departure *self) {
  if (self->state == DEPARTURE_DRAINING)
    drain(self);
}

/* The running step ends with the tree; its answer comes first. */
static void on_tree_gone(void *owner, size_t survivors) {
  struct departure *self = owner;
  if (survivors > 0)
    log_line(self->job.log, LOG_WARN, NULL, "%zu processes survive SIGKILL", survivors);
  if (!worker_is_running(self->worker))
    drain(self);
}

static void on_patience(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct departure *self = context;
  if (!presence_is_ending(self->presence))
    self->exit_code = AGENT_EXIT_ERROR;
  departure_end(self);
}

static void leave_at_once(struct departure *self) {
  (void)process_tree_signal(&self->everything, SIGKILL);
  departure_end(self);
}

static void on_deadline(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  leave_at_once(context);
}

void departure_init(struct departure *self, const struct job *job, struct presence *presence,
                    struct worker *worker) {
  *self = (struct departure){.job = *job, .presence = presence, .worker = worker};
  kill_sequence_init(&self->kill, job->base, &self->everything, on_tree_gone, self);
  self->patience = loop_timer_new(job->base, on_patience, self);
  self->deadline = loop_timer_new(job->base, on_deadline, self);
}

void departure_release(struct departure *self) {
  kill_sequence_release(&self->kill);
  event_free(self->patience);
  event_free(self->deadline);
}

bool departure_has_begun(const struct departure *self) {
  return self->state != DEPARTURE_NOT_YET;
}

void departure_begin(struct departure *self, int exit_code, const char *reason) {
  log_line(self->job.log, LOG_INFO, NULL, "stopping: %s", reason);
  self->state = DEPARTURE_STOPPING;
  self->exit_code = exit_code;
  loop_timer_start(self->patience, idle_limit_ms(self->job.options));
  char text[64];
  (void)snprintf(text, sizeof text, "cancelled: the agent was stopped by %s", reason);
  worker_stop(self->worker, DEPARTURE_GRACE_MS, text);
  if (!worker_is_running(self->worker))
    kill_sequence_start(&self->kill, DEPARTURE_GRACE_MS);
}

void departure_order(struct departure *self, int signal) {
  if (self->signal != 0) {
    log_line(self->job.log, LOG_WARN, NULL, "second signal (%s): leaving at once",
             signal_name(signal));
    leave_at_once(self);
    return;
  }
  self->signal = signal;
  loop_timer_start(self->deadline, DEPARTURE_DEADLINE_MS);
  if (departure_has_begun(self))
    self->exit_code = AGENT_EXIT_SIGNAL + signal;
  else
    departure_begin(self, AGENT_EXIT_SIGNAL + signal, signal_name(signal));
  departure_go_on(self); /* a shutdown was more patient */
}

void departure_answered(struct departure *self) {
  if (self->state == DEPARTURE_STOPPING)
    kill_sequence_start(&self->kill, DEPARTURE_LEFTOVERS_GRACE_MS);
}

void departure_reaped(struct departure *self) {
  kill_sequence_orphan_reaped(&self->kill);
}

void departure_undeliverable(struct departure *self) {
  bool shutting_down = departure_has_begun(self) && self->exit_code == AGENT_EXIT_SHUTDOWN;
  if (shutting_down && !presence_is_ending(self->presence))
    self->exit_code = AGENT_EXIT_ERROR;
}

int departure_exit_code(const struct departure *self) {
  return self->exit_code;
}
