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
#include "agent/process/keepers.h"
#include "agent/process/process_table.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/printable.h"

struct engine {
  struct engine_options options;
  struct door *door;
  struct run *runs[ENGINE_RUNS_MAX]; /* the table of runs; NULL: free */
  unsigned run_count;
  uint64_t run_number; /* of the run made last */
  struct run_context run_context;
  struct keepers *keepers;
  struct event *spare; /* makes a keeper ahead of time */
  char job[8 + 1];     /* a hash of its id */
  char tag[64];
  struct event *dead_agents;      /* looks again: see engine_await_dead_agents */
  int64_t dead_agents_give_up_ms; /* monotonic */
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
  if (self->run_number == 0 && !process_table_is_known())
    log_line(
        log_of(self), LOG_WARN, NULL,
        "/proc cannot be read or is of another pid namespace: a process that leaves its step's "
        "process group is not found");
}

/* Somebody may kill it, as often as it is made. */
#define SPARE_PAUSE_MS 1000

/* The program's start does not wait for the first. */
#define SPARE_START_MS 50

static void on_spare(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct engine *self = context;
  if (self->run_count < self->door->terms.runs)
    keepers_make_spare(self->keepers);
}

/* As long as more may run, one keeper waits for it. */
static void make_spare_in(struct engine *self, int64_t milliseconds) {
  if (self->options.keeps_spare && self->shutdown.state == SHUTDOWN_RUNNING &&
      !evtimer_pending(self->spare, NULL))
    loop_timer_start(self->spare, milliseconds);
}

void engine_submit(struct door *door, struct request *request) {
  struct engine *self = door->engine;
  end_idle(self);
  check_proc(self);
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
static void on_run_stalled(void *engine, struct run *run) {
  struct engine *self = engine;
  begin_idle(self);
  if (is_leaving(self))
    run_ignore_room(run);
}

/* The answer leaves together with the start of the next step, and before it is logged: somebody
   waits for it. */
static void on_run_done(void *engine, struct run *run, const struct run_end *end) {
  struct engine *self = engine;
  struct door *door = self->door;
  *find_slot(self, run) = NULL;
  self->run_count--;
  door->type->result(door, run, end);
  tell_activity(self);
  begin_idle(self);
  if (!is_leaving(self))
    door->type->want(door, 1);
  if (door->type->flush != NULL)
    door->type->flush(door);
  run_log_done(log_of(self), run_step(run), end, door->terms.output_bytes > 0);
  run_free(run);
  if (is_leaving(self) && self->run_count == 0)
    shutdown_runs_over(&self->shutdown);
  else
    make_spare_in(self, 0);
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
  if (keepers_reaped(self->keepers, pid, status))
    make_spare_in(self, SPARE_PAUSE_MS);
}

/* --- what an earlier agent left -------------------------------------------------------------- */

/* How often it is looked whether they are gone: they are nobody's children here. */
#define DEAD_AGENTS_MS 10

static bool has_dead_agents(struct engine *self) {
  return self->options.job_id != NULL && keepers_of_dead_agents(self->job) > 0;
}

static void on_dead_agents(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct engine *self = context;
  if (has_dead_agents(self) && clock_monotonic_ms() < self->dead_agents_give_up_ms)
    loop_timer_start(self->dead_agents, DEAD_AGENTS_MS);
  else
    self->door->type->interrupted_ended(self->door);
}

bool engine_await_dead_agents(struct door *door) {
  struct engine *self = door->engine;
  if (!has_dead_agents(self))
    return true;
  log_line(log_of(self), LOG_WARN, NULL, "waiting for the end of what an earlier agent left");
  self->dead_agents_give_up_ms = clock_monotonic_ms() + KEEPERS_GIVE_UP_MS;
  loop_timer_start(self->dead_agents, DEAD_AGENTS_MS);
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
  (void)evtimer_del(self->spare);
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
    engine_leave(self->door, AGENT_EXIT_SIGNAL + signal, printable_signal(signal));
}

/* --- the engine itself ---------------------------------------------------------------------- */

static void on_signal(void *owner, int signal) {
  engine_signal(owner, signal);
}

static void on_refused(void *owner, int signal) {
  log_line(log_of(owner), LOG_WARN, NULL, "a step sent %s: ignored", printable_signal(signal));
}

static bool has_steps(void *owner) {
  const struct engine *self = owner;
  return self->run_count > 0 || keepers_have_processes(self->keepers);
}

static void on_reaped(void *owner, pid_t pid, int status) {
  engine_reaped(owner, pid, status);
}

static void on_stopped(void *owner, pid_t pid) {
  const struct engine *self = owner;
  keepers_stopped(self->keepers, pid);
}

/* Of a door with several runs at a time. */
#define IDLE_KEEPERS_MAX 4

static struct keepers *make_keepers(const struct engine *self) {
  const struct engine_options *options = &self->options;
  const struct keepers_options keepers_options = {.base = options->base,
                                                  .program = options->program,
                                                  .job = self->job,
                                                  .environment = options->kind.environment,
                                                  .work = options->work,
                                                  .open_files = options->open_files,
                                                  .stdin_fd = options->stdin_fd};
  return keepers_new(&keepers_options);
}

static void set_names(struct engine *self) {
  const char *job_id = self->options.job_id != NULL ? self->options.job_id : "";
  uint64_t hash = hash_bytes(job_id, strlen(job_id));
  (void)snprintf(self->job, sizeof self->job, "%08x", (unsigned)(hash ^ hash >> 32));
  (void)snprintf(self->tag, sizeof self->tag, "%s-%d-%lld", self->job, (int)getpid(),
                 (long long)clock_unix_ms());
}

struct engine *engine_new(const struct engine_options *options) {
  static const struct signals_handler handler = {.ordered = on_signal,
                                                 .refused = on_refused,
                                                 .has_steps = has_steps,
                                                 .reaped = on_reaped,
                                                 .stopped = on_stopped};
  static const struct run_handler run_handler = {.stalled = on_run_stalled, .done = on_run_done};
  struct engine *self = memory_allocate(sizeof *self);
  *self = (struct engine){.options = *options};
  set_names(self);
  self->keepers = make_keepers(self);
  self->run_context =
      (struct run_context){.handler = &run_handler,
                           .engine = self,
                           .process = {.base = options->base,
                                       .keepers = self->keepers,
                                       .orphaned_pipes = orphaned_pipes_new(options->base),
                                       .stdin_fd = options->stdin_fd},
                           .log = options->log,
                           .kind = options->kind,
                           .line_bytes = options->line_bytes,
                           .agent_tag = self->tag};
  if (options->signal_fd >= 0)
    signals_init(&self->signals, options->base, options->signal_fd, &handler, self);
  self->idle_limit = loop_timer_new(options->base, on_idle_limit, self);
  self->spare = loop_timer_new(options->base, on_spare, self);
  self->dead_agents = loop_timer_new(options->base, on_dead_agents, self);
  shutdown_init(&self->shutdown, options->base, options->log, self->keepers);
  return self;
}

void engine_free(struct engine *self) {
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (self->runs[i] != NULL)
      run_free(self->runs[i]);
  orphaned_pipes_free(self->run_context.process.orphaned_pipes);
  if (self->options.signal_fd >= 0)
    signals_release(&self->signals);
  event_free(self->idle_limit);
  event_free(self->spare);
  event_free(self->dead_agents);
  shutdown_release(&self->shutdown);
  keepers_free(self->keepers);
  free(self);
}

void engine_set_door(struct engine *self, struct door *door) {
  CHECK(door->terms.runs >= 1 && door->terms.runs <= ENGINE_RUNS_MAX);
  door->engine = self;
  self->door = door;
  self->run_context.process.grace_ms = door->terms.grace_ms;
  self->run_context.process.drain_ms = door->terms.drain_ms;
  keepers_limit_idle(self->keepers,
                     door->terms.runs < IDLE_KEEPERS_MAX ? door->terms.runs : IDLE_KEEPERS_MAX);
}

int engine_run(struct engine *self) {
  begin_idle(self);
  self->door->type->want(self->door, self->door->terms.runs);
  make_spare_in(self, SPARE_START_MS);
  if (self->shutdown.state != SHUTDOWN_OVER)
    (void)event_base_dispatch(self->options.base);
  return self->shutdown.exit_code;
}
