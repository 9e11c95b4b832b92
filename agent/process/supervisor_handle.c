#include "agent/process/supervisor_handle.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/process/process_tree.h"
#include "base/clock.h"

#define FUTEX_WAKE 1 /* of linux/futex.h, which musl does not have */

bool supervisor_has_processes(const struct supervisor *self) {
  return self->state != SUPERVISOR_DONE;
}

bool supervisor_is_idle(const struct supervisor *self) {
  return self->state == SUPERVISOR_DONE && self->notify == NULL && self->process.socket >= 0;
}

void supervisor_dismiss(struct supervisor *self) {
  if (self->process.socket < 0)
    return;
  event_free(self->readable);
  supervisor_process_dismiss(&self->process);
}

int supervisor_receive_notification(struct supervisor *self) {
  unsigned char notification = 0;
  if (recv(self->process.socket, &notification, sizeof notification, MSG_DONTWAIT) <= 0)
    return -1;
  if (self->state != SUPERVISOR_RUNS || notification != 0)
    self->silent_since_ms = 0;
  if ((notification & SUPERVISOR_ENDED) != 0 && self->state == SUPERVISOR_RUNS)
    self->state = SUPERVISOR_HOLDS;
  if ((notification & SUPERVISOR_EMPTY) != 0 && self->state != SUPERVISOR_DIED) {
    self->state = SUPERVISOR_DONE;
    self->is_complete = true;
  }
  if ((notification & SUPERVISOR_LEAVES) != 0)
    self->leaves = true;
  if ((notification & SUPERVISOR_COUNTED) != 0)
    supervisor_query_read_answer(&self->query, self->process.page);
  return notification;
}

void supervisor_start(struct supervisor *self) {
  self->is_waiting = false;
  atomic_store(&self->process.page->gate, SUPERVISOR_GATE_OPEN);
  (void)syscall(SYS_futex, &self->process.page->gate, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- what it reported ------------------------------------------------------------------------- */

/* The page may be ahead of the notifications. */
enum supervisor_state supervisor_state(const struct supervisor *self) {
  bool has_ended = atomic_load(&self->process.page->ended) != 0;
  return self->state == SUPERVISOR_RUNS && has_ended ? SUPERVISOR_HOLDS : self->state;
}

pid_t supervisor_pid(const struct supervisor *self) {
  int pid = atomic_load(&self->process.page->pid);
  return pid > 0 ? (pid_t)pid : 0;
}

/* After a report of impossible values the end is unknown, and the supervisor gets no other task. */
static void read_report(struct supervisor *self) {
  const struct log *log = self->options->supervisor.log;
  if (self->was_never_run || supervisor_report_read(&self->report, self->process.page))
    return;
  if (!self->leaves && log != NULL)
    log_line(log, LOG_ERROR, NULL,
             "supervisor %d reported impossible values about its step: the step counts as killed",
             (int)self->process.pid);
  self->leaves = true;
}

/* A command whose end is unknown was killed together with its supervisor. */
int supervisor_status(struct supervisor *self) {
  read_report(self);
  if (self->report.has_ended)
    return self->report.status;
  return self->is_work && self->process.pid == 0 ? self->own_status : SIGKILL;
}

const struct exec_failure *supervisor_failure(const struct supervisor *self, const char **whole) {
  *whole = self->report.whole_reason;
  return &self->report.failure;
}

size_t supervisor_left(const struct supervisor *self) {
  size_t left = atomic_load(&self->process.page->left);
  if (self->process.pid == 0)
    return self->left;
  return left < PROCESS_TREE_MAX ? left : PROCESS_TREE_MAX;
}

const struct step_usage *supervisor_usage(struct supervisor *self) {
  static const struct step_usage unknown = SUPERVISOR_UNKNOWN_USAGE;
  read_report(self);
  bool is_known = (self->process.pid != 0 || self->is_complete) && self->report.has_ended &&
                  !self->was_never_run;
  return is_known ? &self->report.usage : &unknown;
}

const struct step_process *supervisor_alive(const struct supervisor *self, size_t *count) {
  *count = self->report.alive_count;
  return self->report.alive;
}

bool supervisor_ask(struct supervisor *self, bool holder) {
  if (self->process.pid == 0 || self->is_work || !supervisor_has_processes(self))
    return false;
  supervisor_query_ask(&self->query, self->process.page, holder);
  (void)kill(self->process.pid, SIGCONT);
  return true;
}

const struct supervisor_census *supervisor_answer(const struct supervisor *self) {
  return supervisor_query_answer(&self->query);
}

/* --- orders ----------------------------------------------------------------------------------- */

static void raise_order(struct supervisor *self, int order) {
  if (self->order < order)
    self->order = order;
  atomic_store(&self->process.page->order, self->order);
  if (self->process.pid > 0)
    (void)kill(self->process.pid, SIGCONT);
}

void supervisor_kill(struct supervisor *self) {
  if (!supervisor_has_processes(self))
    return;
  if (self->kill_ms == 0)
    self->kill_ms = clock_monotonic_ms();
  raise_order(self, SUPERVISOR_ORDER_KILL);
  if (self->is_work && self->process.pid > 0)
    (void)kill(self->process.pid, SIGKILL);
}

void supervisor_terminate(struct supervisor *self) {
  if (self->is_work || self->is_waiting)
    supervisor_kill(self);
  else if (supervisor_has_processes(self))
    raise_order(self, SUPERVISOR_ORDER_TERMINATE);
}

void supervisor_set_never_run(struct supervisor *self, const char *reason) {
  supervisor_report_release(&self->report);
  self->report.has_ended = true;
  self->report.status = SIGKILL;
  if (reason != NULL) {
    self->report.status = 127 << 8;
    self->report.failure.stage = EXEC_NO_PROCESS;
    (void)error_set(&self->report.failure.reason, "cannot start a process: %s", reason);
  }
  self->was_never_run = true;
  self->state = SUPERVISOR_DONE;
  self->silent_since_ms = 0;
  supervisor_dismiss(self);
  if (self->process.pid > 0)
    (void)kill(self->process.pid, SIGKILL);
}
