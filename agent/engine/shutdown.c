/*
 * The end of the program, in this order: no more requests, the executions end and are answered,
 * the processes that earlier steps left in the background end, the frontend delivers what it
 * queues, the event loop ends. A frontend starts it with engine_leave, a signal with engine_signal.
 *
 *   RUNNING --leave--> ENDING_STEPS --over--> ENDING_TREE --gone--> CLOSING --closed--> OVER
 *     |                    `------no step------^
 *     `--SIGTERM--> DRAINING --steps over, SIGTERM, limit--> as if leaving now
 *
 * Another signal, or a limit, goes to CLOSING at once, with FRONTEND_CLOSE_IMMEDIATE.
 */
#include "agent/engine/engine_state.h"

#include <signal.h>
#include <stdio.h>

#include "agent/exit_code.h"
#include "base/loop.h"
#include "base/printable.h"

bool shutdown_has_begun(const struct engine *self) {
  return self->shutdown.phase != SHUTDOWN_RUNNING;
}

const char *engine_leaving(const struct frontend *frontend) {
  return frontend->engine->shutdown.reason;
}

bool engine_is_ending(const struct frontend *frontend) {
  return shutdown_has_begun(frontend->engine);
}

static void close_frontend(struct engine *self, enum frontend_close how) {
  self->shutdown.phase = SHUTDOWN_CLOSING;
  self->frontend->type->close(self->frontend, how);
}

/* Only a shutdown step waits for a server that is away. */
static void on_tree_gone(void *owner, size_t survivors) {
  struct engine *self = owner;
  if (survivors > 0)
    log_line(self->options.log, LOG_WARN, NULL, "%zu processes survive SIGKILL", survivors);
  if (self->shutdown.phase == SHUTDOWN_ENDING_TREE)
    close_frontend(self, self->shutdown.exit_code == AGENT_EXIT_SHUTDOWN ? FRONTEND_CLOSE_GRACEFUL
                                                                         : FRONTEND_CLOSE_FAST);
}

static void end_tree(struct engine *self, int64_t grace_ms) {
  self->shutdown.phase = SHUTDOWN_ENDING_TREE;
  supervisors_end(self->supervisors, grace_ms, on_tree_gone, self);
}

/* A step that is over no longer waits for capacity: its last output is small, and its result is
   worth it. */
static void finish_stalled(struct engine *self) {
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL)
      execution_finish_stalled(self->executions[i]);
}

void engine_leave(struct frontend *frontend, int exit_code, const char *reason) {
  struct engine *self = frontend->engine;
  struct shutdown *shutdown = &self->shutdown;
  if (shutdown->phase > SHUTDOWN_DRAINING)
    return;
  engine_end_idle(self);
  log_line(self->options.log, LOG_INFO, NULL, "stopping: %s", reason);
  (void)evtimer_del(self->spare);
  shutdown->reason = reason;
  if (shutdown->signal == 0)
    shutdown->exit_code = exit_code;
  if (shutdown->signal != 0) /* it caused this, or the step drained */
    loop_timer_start(shutdown->limit, ENGINE_DEADLINE_MS);
  else if (self->options.idle_limit_ms > 0)
    loop_timer_start(shutdown->limit, self->options.idle_limit_ms);
  shutdown->phase = SHUTDOWN_ENDING_STEPS;
  if (self->execution_count == 0)
    end_tree(self, frontend->terms.leave_grace_ms);
  frontend->type->want(frontend, 0);
  char text[96];
  (void)snprintf(text, sizeof text, "cancelled: the agent was stopped by %s", reason);
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL)
      engine_stop(self->executions[i], frontend->terms.leave_grace_ms, STEP_CAUSE_CANCELLED, text);
  finish_stalled(self);
}

void engine_frontend_closed(struct frontend *frontend, int lost) {
  struct engine *self = frontend->engine;
  if (lost != 0 && self->shutdown.signal == 0)
    self->shutdown.exit_code = lost;
  self->shutdown.phase = SHUTDOWN_OVER;
  (void)event_base_loopbreak(self->options.base);
}

static void end_at_once(struct engine *self) {
  if (self->shutdown.phase == SHUTDOWN_OVER)
    return;
  supervisors_kill(self->supervisors);
  close_frontend(self, FRONTEND_CLOSE_IMMEDIATE);
}

/* Ends in order, within ENGINE_DEADLINE_MS. */
static void leave_by_signal(struct engine *self) {
  loop_timer_start(self->shutdown.limit, ENGINE_DEADLINE_MS);
  if (self->shutdown.phase == SHUTDOWN_CLOSING)
    close_frontend(self, FRONTEND_CLOSE_FAST);
  engine_leave(self->frontend, self->shutdown.exit_code, printable_signal(self->shutdown.signal));
}

void shutdown_no_executions(struct engine *self) {
  if (self->shutdown.phase == SHUTDOWN_DRAINING)
    leave_by_signal(self);
  else if (self->shutdown.phase == SHUTDOWN_ENDING_STEPS)
    end_tree(self, self->frontend->terms.leave_background_ms);
}

/* The running step may end by itself. The frontend may submit nothing more, but still receives
   messages, such as a cancel. want(0) would end that. */
static void begin_draining(struct engine *self) {
  log_line(self->options.log, LOG_INFO, NULL, "draining: the running step has %lld s to finish",
           (long long)(self->options.drain_ms / 1000));
  self->shutdown.phase = SHUTDOWN_DRAINING;
  (void)evtimer_del(self->spare);
  loop_timer_start(self->shutdown.limit, self->options.drain_ms);
  finish_stalled(self);
}

LOOP_CALLBACK(on_limit, struct engine *self) {
  if (self->shutdown.phase == SHUTDOWN_DRAINING)
    leave_by_signal(self);
  else
    end_at_once(self);
}

void shutdown_signal(struct engine *self, int signal) {
  struct shutdown *shutdown = &self->shutdown;
  engine_end_idle(self);
  if (shutdown->phase == SHUTDOWN_DRAINING) {
    leave_by_signal(self);
    return;
  }
  if (shutdown->signal != 0) {
    log_line(self->options.log, LOG_WARN, NULL, "another signal (%s): exiting at once",
             printable_signal(signal));
    end_at_once(self);
    return;
  }
  shutdown->signal = signal;
  shutdown->exit_code = AGENT_EXIT_SIGNAL + signal;
  if (signal == SIGTERM && self->options.drain_ms > 0 && shutdown->phase == SHUTDOWN_RUNNING &&
      self->execution_count > 0)
    begin_draining(self);
  else
    leave_by_signal(self);
}

void shutdown_init(struct engine *self) {
  self->shutdown.limit = loop_timer_new(self->options.base, on_limit, self);
}
