#include "agent/engine/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/run.h"
#include "agent/engine/run_log.h"
#include "agent/engine/shutdown.h"
#include "agent/engine/signals.h"
#include "agent/exit_code.h"
#include "agent/process/guard.h"
#include "agent/process/process_tree.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/signal_name.h"

struct engine {
  struct engine_options options;
  struct door *door;
  struct run *runs[ENGINE_RUNS_MAX]; /* the table of runs; NULL: free */
  unsigned run_count;
  uint64_t run_number; /* of the run made last */
  struct run_context run_context;
  struct process_leaders leaders;
  struct guard guard;
  int64_t guard_made_ms; /* 0: never */
  struct standby standby;
  char job[PROCESS_TREE_JOB_SIZE];
  char tag[64];
  struct interrupted *interrupted; /* see engine_end_interrupted; NULL: never called */
  struct signals signals;
  struct event *idle_limit; /* pending while nothing executes */
  bool asked_idle;          /* the door was asked at the limit, and has not answered */
  struct shutdown shutdown;
};

static const struct log *log_of(const struct engine *self) {
  return self->options.log;
}

/* --- idle time ------------------------------------------------------------------------------ */

/* Time that runs already runs on. */
static void begin_idle(struct engine *self) {
  CHECK(self->options.idle_limit_ms == 0 || self->door->terms.runs == 1);
  bool leaving = self->shutdown.state != SHUTDOWN_RUNNING;
  if (self->options.idle_limit_ms > 0 && !leaving && !self->asked_idle &&
      !evtimer_pending(self->idle_limit, NULL))
    loop_timer_start(self->idle_limit, self->options.idle_limit_ms);
}

static void end_idle(struct engine *self) {
  (void)evtimer_del(self->idle_limit);
  self->asked_idle = false;
}

static void on_idle_limit(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct engine *self = context;
  log_line(log_of(self), LOG_INFO, NULL, "no step for %lld s",
           (long long)(self->options.idle_limit_ms / 1000));
  self->asked_idle = true;
  self->door->type->idle(self->door);
}

void engine_touch(struct door *door) {
  struct engine *self = door->engine;
  if (self->run_count > 0)
    return; /* it may be the time that runs in which the door has no room */
  end_idle(self);
  begin_idle(self);
}

int64_t engine_idle_left_ms(const struct door *door) {
  struct timeval end, now;
  if (!evtimer_pending(door->engine->idle_limit, &end))
    return 0;
  evutil_gettimeofday(&now, NULL);
  return (int64_t)(end.tv_sec - now.tv_sec) * 1000 + (end.tv_usec - now.tv_usec) / 1000;
}

void engine_wait_on(struct door *door, int64_t milliseconds) {
  struct engine *self = door->engine;
  if (!self->asked_idle)
    return; /* withdrawn */
  self->asked_idle = false;
  begin_idle(self);
  if (milliseconds > 0 && evtimer_pending(self->idle_limit, NULL))
    loop_timer_start(self->idle_limit, milliseconds);
}

/* --- runs ----------------------------------------------------------------------------------- */

static void tell_activity(struct engine *self) {
  if (self->door->type->activity != NULL)
    self->door->type->activity(self->door, self->run_count);
}

/* The place of this run, NULL for a free one. There is one: a door submits no more than it was
   asked for. */
static struct run **find_slot(struct engine *self, const struct run *run) {
  size_t i = 0;
  while (i < ENGINE_RUNS_MAX && self->runs[i] != run)
    i++;
  CHECK(i < ENGINE_RUNS_MAX);
  return &self->runs[i];
}

/* Once, when the first step comes: the start of the program does not wait for it. */
static void check_proc(const struct engine *self) {
  if (self->run_number == 0 && !process_tree_is_known())
    log_line(
        log_of(self), LOG_WARN, NULL,
        "/proc cannot be read or is of another pid namespace: a process that leaves its step's "
        "process group is not found");
}

/* Somebody may kill it, as often as it is made. */
#define GUARD_PAUSE_MS 1000

static void make_guard(struct engine *self) {
  struct error error;
  int64_t now_ms = clock_monotonic_ms();
  if (!self->door->terms.guarded || self->guard.pid != 0 ||
      (self->guard_made_ms != 0 && now_ms < self->guard_made_ms + GUARD_PAUSE_MS))
    return;
  self->guard_made_ms = now_ms;
  if (guard_start(&self->guard, self->tag, &error) != 0)
    log_line(log_of(self), LOG_WARN, NULL, "no guard: %s", error.text);
  if (self->guard.pid == 0)
    return;
  process_leaders_add(&self->leaders, self->guard.pid, false);
  self->shutdown.everything.except = self->guard.pid;
}

static void drop_guard(struct engine *self) {
  process_leaders_remove(&self->leaders, self->shutdown.everything.except);
  self->shutdown.everything.except = 0;
}

void engine_submit(struct door *door, struct request *request) {
  struct engine *self = door->engine;
  end_idle(self);
  check_proc(self);
  make_guard(self);
  struct run **slot = find_slot(self, NULL);
  struct run *run = run_new(&self->run_context, door, request, ++self->run_number);
  *slot = run;
  self->run_count++;
  tell_activity(self);
  begin_idle(self);
  door->type->begin(door, run);
  run_prepare(run); /* while the door makes the start durable */
}

void engine_start(struct run *run) {
  struct engine *self = run_door(run)->engine;
  end_idle(self);
  run_start(run);
}

void engine_stop(struct run *run, int64_t grace_ms, const char *reason) {
  run_stop(run, grace_ms, reason);
}

void engine_room(struct door *door) {
  struct engine *self = door->engine;
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (self->runs[i] != NULL)
      run_resume(self->runs[i]);
}

static bool is_leaving(const struct engine *self) {
  return self->shutdown.state != SHUTDOWN_RUNNING;
}

/* From here on it is time without a step. Without a server there may never be room. */
void engine_run_stalled(struct engine *self, struct run *run) {
  begin_idle(self);
  if (is_leaving(self))
    run_ignore_room(run);
}

/* The answer leaves together with the start of the next step, and before it is logged: somebody
   waits for it. */
void engine_run_done(struct engine *self, struct run *run, const struct run_report *report) {
  struct door *door = self->door;
  *find_slot(self, run) = NULL;
  self->run_count--;
  door->type->result(door, run, &report->completed, &report->result);
  tell_activity(self);
  begin_idle(self);
  if (!is_leaving(self))
    door->type->want(door, 1);
  door->type->flush(door);
  run_log_done(log_of(self), run_step(run), report, door->terms.output_bytes > 0);
  bool read_only = kind_of(run_step(run))->read_only;
  run_free(run);
  if (is_leaving(self) && self->run_count == 0)
    shutdown_runs_over(&self->shutdown);
  else if (read_only)
    standby_make(&self->standby); /* one such step is seldom the last */
}

struct run *engine_current_run(const struct door *door) {
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (door->engine->runs[i] != NULL)
      return door->engine->runs[i];
  return NULL;
}

bool engine_cancel(struct door *door, const char *step_id, const char *reason) {
  struct engine *self = door->engine;
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++) {
    struct run *run = self->runs[i];
    if (run == NULL || strcmp(run_step(run)->step_id, step_id) != 0)
      continue;
    engine_stop(run, door->terms.grace_ms, reason);
    return true;
  }
  return false;
}

void engine_reaped(struct engine *self, pid_t pid, int status) {
  if (standby_reaped(&self->standby, pid, status))
    return;
  if (guard_reaped(&self->guard, pid)) {
    drop_guard(self);
    if (self->run_count > 0)
      make_guard(self);
    return;
  }
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (self->runs[i] != NULL && run_reaped(self->runs[i], pid, status))
      return;
  shutdown_orphan_reaped(&self->shutdown);
}

/* --- what an earlier agent left -------------------------------------------------------------- */

struct interrupted {
  struct engine *engine;
  char *step_id;
  struct process_tree tree;
  struct kill_sequence kill;
};

static void interrupted_free(struct interrupted *self) {
  if (self == NULL)
    return;
  kill_sequence_release(&self->kill);
  free(self->step_id);
  free(self);
}

static void on_interrupted_ended(void *owner, size_t survivors) {
  const struct interrupted *self = owner;
  struct door *door = self->engine->door;
  if (survivors > 0)
    log_line(log_of(self->engine), LOG_WARN, self->step_id, "%zu processes survive SIGKILL",
             survivors);
  door->type->interrupted_ended(door);
}

bool engine_end_interrupted(struct door *door, const char *step_id) {
  struct engine *engine = door->engine;
  struct interrupted *self = memory_allocate(sizeof *self);
  *self = (struct interrupted){.engine = engine, .step_id = memory_copy(step_id, strlen(step_id))};
  self->tree = (struct process_tree){.job = engine->job, .step_id = self->step_id};
  kill_sequence_init(&self->kill, engine->options.base, &self->tree, on_interrupted_ended, self);
  interrupted_free(engine->interrupted);
  engine->interrupted = self;
  size_t living = process_tree_signal(&self->tree, 0);
  if (living == 0)
    return true;
  log_line(log_of(engine), LOG_WARN, step_id, "ending %zu processes that an earlier agent left",
           living);
  kill_sequence_start(&self->kill, door->terms.grace_ms);
  return false;
}

/* --- the end -------------------------------------------------------------------------------- */

const char *engine_leaving(const struct door *door) {
  return door->engine->shutdown.reason;
}

void engine_leave(struct door *door, int exit_code, const char *reason) {
  struct engine *self = door->engine;
  if (is_leaving(self))
    return;
  end_idle(self);
  log_line(log_of(self), LOG_INFO, NULL, "stopping: %s", reason);
  standby_release(&self->standby);
  shutdown_begin(&self->shutdown, door, exit_code, reason, self->options.idle_limit_ms,
                 self->run_count > 0);
  door->type->want(door, 0);
  char text[96];
  (void)snprintf(text, sizeof text, "cancelled: the agent was stopped by %s", reason);
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++) {
    struct run *run = self->runs[i];
    if (run == NULL)
      continue;
    run_stop(run, door->terms.leave_grace_ms, text);
    if (run_state(run) != RUN_NEW && !run_is_busy(run))
      run_ignore_room(run);
  }
}

void engine_door_closed(struct door *door, int lost) {
  shutdown_closed(&door->engine->shutdown, lost);
}

static void dump(const struct engine *self) {
  log_line(log_of(self), LOG_WARN, NULL, "state: %u runs, %s", self->run_count,
           is_leaving(self)                          ? "stopping"
           : evtimer_pending(self->idle_limit, NULL) ? "idle time runs"
                                                     : "busy");
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++) {
    char text[256];
    if (self->runs[i] == NULL)
      continue;
    run_describe(self->runs[i], text, sizeof text);
    log_line(log_of(self), LOG_WARN, run_step(self->runs[i])->step_id, "state: run %s", text);
  }
  self->door->type->dump(self->door);
}

void engine_signal(struct engine *self, int signal) {
  if (signal == SIGUSR1) {
    dump(self);
    return;
  }
  end_idle(self);
  if (shutdown_signal(&self->shutdown, self->door, signal))
    engine_leave(self->door, AGENT_EXIT_SIGNAL + signal, signal_name(signal));
}

/* --- the engine itself ---------------------------------------------------------------------- */

static void on_signal(void *owner, int signal) {
  engine_signal(owner, signal);
}

static void on_refused(void *owner, int signal) {
  log_line(log_of(owner), LOG_WARN, NULL, "a step sent %s: ignored", signal_name(signal));
}

static bool has_steps(void *owner) {
  const struct engine *self = owner;
  return self->run_count > 0 ||
         process_tree_signal(&self->shutdown.everything, 0) > (self->standby.child != NULL);
}

static void on_child_ended(void *owner, pid_t pid) {
  struct engine *self = owner;
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (self->runs[i] != NULL)
      run_child_ended(self->runs[i], pid);
}

static void on_reaped(void *owner, pid_t pid, int status) {
  engine_reaped(owner, pid, status);
}

struct engine *engine_new(const struct engine_options *options) {
  static const struct signals_handler handler = {.ordered = on_signal,
                                                 .refused = on_refused,
                                                 .has_steps = has_steps,
                                                 .child_ended = on_child_ended,
                                                 .reaped = on_reaped};
  struct engine *self = memory_allocate(sizeof *self);
  *self = (struct engine){.options = *options, .guard = GUARD_NONE};
  process_tree_job(options->job_id != NULL ? options->job_id : "", self->job);
  (void)snprintf(self->tag, sizeof self->tag, "%s-%d-%lld", self->job, (int)getpid(),
                 (long long)clock_unix_ms());
  self->run_context =
      (struct run_context){.process = {.base = options->base,
                                       .orphaned_pipes = orphaned_pipes_new(options->base),
                                       .leaders = &self->leaders,
                                       .spawn = options->spawn},
                           .log = options->log,
                           .kind = {.environment = options->environment},
                           .standby = &self->standby,
                           .line_bytes = options->line_bytes,
                           .agent_tag = self->tag};
  standby_init(&self->standby, &self->run_context.process, self->tag, options->program,
               options->environment);
  if (options->signal_fd >= 0)
    signals_init(&self->signals, options->base, options->signal_fd, &handler, self);
  self->idle_limit = loop_timer_new(options->base, on_idle_limit, self);
  shutdown_init(&self->shutdown, options->base, options->log,
                options->job_id != NULL ? self->job : NULL);
  return self;
}

void engine_free(struct engine *self) {
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (self->runs[i] != NULL)
      run_free(self->runs[i]);
  standby_release(&self->standby);
  orphaned_pipes_free(self->run_context.process.orphaned_pipes);
  if (self->options.signal_fd >= 0)
    signals_release(&self->signals);
  event_free(self->idle_limit);
  interrupted_free(self->interrupted);
  shutdown_release(&self->shutdown);
  process_leaders_release(&self->leaders);
  guard_release(&self->guard);
  free(self);
}

void engine_set_door(struct engine *self, struct door *door) {
  CHECK(door->terms.runs >= 1 && door->terms.runs <= ENGINE_RUNS_MAX);
  door->engine = self;
  self->door = door;
  self->run_context.process.grace_ms = door->terms.grace_ms;
  self->run_context.process.drain_ms = door->terms.drain_ms;
}

int engine_run(struct engine *self) {
  begin_idle(self);
  self->door->type->want(self->door, self->door->terms.runs);
  if (self->shutdown.state != SHUTDOWN_OVER)
    (void)event_base_dispatch(self->options.base);
  return self->shutdown.exit_code;
}
