#include "agent/engine/shutdown.h"

#include "agent/exit_code.h"
#include "base/loop.h"
#include "base/printable.h"

static void close_door(struct shutdown *self, enum door_close how) {
  self->state = SHUTDOWN_CLOSING;
  self->door->type->close(self->door, how);
}

/* A shutdown step waits for a server that is away, everything else exits without it. */
static void deliver(struct shutdown *self) {
  close_door(self, self->exit_code == AGENT_EXIT_SHUTDOWN ? DOOR_CLOSE_PATIENT : DOOR_CLOSE_PROMPT);
}

static void on_tree_gone(void *owner, size_t survivors) {
  struct shutdown *self = owner;
  if (survivors > 0)
    log_line(self->log, LOG_WARN, NULL, "%zu processes survive SIGKILL", survivors);
  if (self->state == SHUTDOWN_ENDING_TREE)
    deliver(self);
}

static void end_at_once(struct shutdown *self) {
  if (self->state == SHUTDOWN_OVER)
    return;
  keepers_kill(self->keepers);
  close_door(self, DOOR_CLOSE_NOW);
}

static void on_time_over(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  end_at_once(context);
}

void shutdown_init(struct shutdown *self, struct event_base *base, const struct log *log,
                   struct keepers *keepers) {
  *self = (struct shutdown){.base = base, .log = log, .keepers = keepers};
  self->outage_limit = loop_timer_new(base, on_time_over, self);
  self->deadline = loop_timer_new(base, on_time_over, self);
}

void shutdown_release(struct shutdown *self) {
  event_free(self->outage_limit);
  event_free(self->deadline);
}

void shutdown_begin(struct shutdown *self, struct door *door, int exit_code, const char *reason,
                    int64_t outage_limit_ms, bool runs) {
  self->door = door;
  self->reason = reason;
  self->exit_code = exit_code;
  if (outage_limit_ms > 0)
    loop_timer_start(self->outage_limit, outage_limit_ms);
  self->state = runs ? SHUTDOWN_ENDING_RUNS : SHUTDOWN_ENDING_TREE;
  if (!runs)
    keepers_end(self->keepers, door->terms.leave_grace_ms, on_tree_gone, self);
}

void shutdown_runs_over(struct shutdown *self) {
  if (self->state != SHUTDOWN_ENDING_RUNS)
    return;
  self->state = SHUTDOWN_ENDING_TREE;
  keepers_end(self->keepers, self->door->terms.leave_background_ms, on_tree_gone, self);
}

bool shutdown_signal(struct shutdown *self, struct door *door, int signal) {
  self->door = door;
  if (self->signal != 0) {
    log_line(self->log, LOG_WARN, NULL, "second signal (%s): exiting at once",
             printable_signal(signal));
    end_at_once(self);
    return false;
  }
  self->signal = signal;
  self->exit_code = AGENT_EXIT_SIGNAL + signal;
  loop_timer_start(self->deadline, SHUTDOWN_DEADLINE_MS);
  if (self->state == SHUTDOWN_CLOSING)
    close_door(self, DOOR_CLOSE_PROMPT);
  return self->state == SHUTDOWN_RUNNING;
}

void shutdown_closed(struct shutdown *self, int lost) {
  if (lost != 0 && self->signal == 0)
    self->exit_code = lost;
  self->state = SHUTDOWN_OVER;
  (void)event_base_loopbreak(self->base);
}
