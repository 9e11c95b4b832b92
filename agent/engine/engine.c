/*
 * The end of the program, in this order: no more requests, the runs end and are answered, what
 * earlier steps left in the background ends, the frontend delivers what it holds, the loop ends.
 *
 *   RUNNING --leave--> ENDING_RUNS --runs over--> ENDING_TREE --tree gone--> CLOSING --closed--> OVER
 *     |                    `---------no run----------^
 *     `--SIGTERM--> DRAINING --runs over, SIGTERM, limit--> as if leaving now
 *
 * Another signal, or a limit, goes to CLOSING at once and closes the frontend with
 * FRONTEND_CLOSE_IMMEDIATE.
 */
#include "agent/engine/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/execution.h"
#include "agent/engine/memory_guard.h"
#include "agent/engine/memory_victim.h"
#include "agent/engine/signal_origin.h"
#include "agent/exit_code.h"
#include "agent/process/supervisor_process.h"
#include "agent/process/process_table.h"
#include "agent/process/supervisors.h"
#include "base/buffer.h"
#include "base/cgroup.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/printable.h"
#include "wire/features.h"

enum phase {
  PHASE_RUNNING,
  PHASE_DRAINING,
  PHASE_ENDING_RUNS,
  PHASE_ENDING_TREE,
  PHASE_CLOSING,
  PHASE_OVER
};

struct engine {
  struct engine_options options;
  struct frontend *frontend;
  struct execution *executions[ENGINE_EXECUTIONS_MAX]; /* the table of runs; NULL: free */
  unsigned run_count;
  uint64_t run_number; /* of the run made last */
  struct execution_context execution_context;
  struct supervisors *supervisors;
  struct memory_guard *memory_guard; /* NULL before the first step */
  bool memory_told;                  /* that nobody has much of it; until it is relieved */
  struct event *spare;               /* makes a supervisor ahead of time */
  char job[8 + 1];                   /* a hash of its id */
  char tag[64];
  struct event *dead_agents;      /* looks again: see engine_await_dead_agents */
  int64_t dead_agents_give_up_ms; /* monotonic */
  struct event *signals;          /* NULL: they are somebody else's */
  int64_t refused_ms;             /* when a refused signal was logged last; monotonic, 0: never */
  int64_t asked_ms;               /* and the state */
  struct event *reap_on;    /* pending while there may be more children than are reaped in a turn */
  struct event *idle_limit; /* pending while nothing executes */
  bool asked_idle;          /* the frontend was asked at the limit, and has not answered */
  enum phase phase;
  struct event *outage_limit; /* how long a patient close waits for a server that is away */
  struct event *deadline;     /* after a signal */
  const char *leaving;        /* the reason; NULL: it does not end */
  int exit_code;
  int signal; /* the first one that ordered the end; 0 for none */
};

static bool is_leaving(const struct engine *self) {
  return self->phase != PHASE_RUNNING;
}

/* --- idle time ------------------------------------------------------------------------------ */

/* Time that runs already runs on. */
static void begin_idle(struct engine *self) {
  CHECK(self->options.idle_limit_ms == 0 || self->frontend->terms.executions == 1);
  if (self->options.idle_limit_ms > 0 && !is_leaving(self) && !self->asked_idle &&
      !evtimer_pending(self->idle_limit, NULL))
    loop_timer_start(self->idle_limit, self->options.idle_limit_ms);
}

static void end_idle(struct engine *self) {
  (void)evtimer_del(self->idle_limit);
  self->asked_idle = false;
}

LOOP_CALLBACK(on_idle_limit, struct engine *self) {
  log_line(self->options.log, LOG_INFO, NULL, "no step for %lld s",
           (long long)(self->options.idle_limit_ms / 1000));
  self->asked_idle = true;
  self->frontend->type->idle(self->frontend);
}

void engine_touch(struct frontend *frontend) {
  struct engine *self = frontend->engine;
  if (self->run_count > 0)
    return; /* it may be the time that runs in which the frontend has no room */
  end_idle(self);
  begin_idle(self);
}

int64_t engine_idle_left_ms(const struct frontend *frontend) {
  struct timeval end, now;
  if (!evtimer_pending(frontend->engine->idle_limit, &end))
    return 0;
  evutil_gettimeofday(&now, NULL);
  return (int64_t)(end.tv_sec - now.tv_sec) * 1000 + (end.tv_usec - now.tv_usec) / 1000;
}

void engine_wait_on(struct frontend *frontend, int64_t milliseconds) {
  struct engine *self = frontend->engine;
  if (!self->asked_idle)
    return; /* withdrawn */
  self->asked_idle = false;
  begin_idle(self);
  if (milliseconds > 0 && evtimer_pending(self->idle_limit, NULL))
    loop_timer_start(self->idle_limit, milliseconds);
}

/* --- runs ----------------------------------------------------------------------------------- */

static void tell_activity(struct engine *self) {
  if (self->frontend->type->activity != NULL)
    self->frontend->type->activity(self->frontend, self->run_count);
}

/* The place of this run, NULL for a free one. There is one: a frontend submits no more than it was
   asked for. */
static struct execution **find_slot(struct engine *self, const struct execution *execution) {
  size_t i = 0;
  while (i < ENGINE_EXECUTIONS_MAX && self->executions[i] != execution)
    i++;
  CHECK(i < ENGINE_EXECUTIONS_MAX);
  return &self->executions[i];
}

/* What earlier steps have left counts, too. */
static bool is_memory_guard_needed(void *owner) {
  const struct engine *self = owner;
  return self->run_count > 0 || supervisors_are_busy(self->supervisors);
}

/* Ends one, and no other before that has given its memory back. */
static bool on_memory_exhausted(void *owner, const struct memory_shortage *shortage) {
  struct engine *self = owner;
  char text[MEMORY_VICTIM_TEXT_SIZE];
  if (supervisors_are_killing(self->supervisors))
    return true;
  if (!supervisors_count(self->supervisors))
    return false;
  const struct memory_victim victim = memory_victim_find(self->executions, ENGINE_EXECUTIONS_MAX,
                                                         self->supervisors, shortage, text);
  const bool is_nobodys = victim.execution == NULL && victim.supervisor == NULL;
  if (victim.execution != NULL)
    execution_stop(victim.execution, 0, STEP_CAUSE_MEMORY_LIMIT, text);
  else if (!is_nobodys || !self->memory_told)
    log_line(self->options.log, LOG_WARN, NULL, "%s", text);
  self->memory_told |= is_nobodys;
  if (victim.supervisor != NULL)
    supervisor_kill(victim.supervisor);
  return true;
}

static void on_memory_relieved(void *owner) {
  struct engine *self = owner;
  self->memory_told = false;
}

static void make_memory_guard(struct engine *self) {
  static const struct memory_guard_handler handler = {.is_needed = is_memory_guard_needed,
                                                      .exhausted = on_memory_exhausted,
                                                      .relieved = on_memory_relieved};
  const uint64_t reserve = self->options.memory_reserve;
  self->memory_guard = memory_guard_new(self->options.base, cgroup_own(), reserve, &handler, self);
  bool is_on = memory_guard_is_on(self->memory_guard);
  if (is_on && reserve == MEMORY_RESERVE_AUTO)
    log_line(self->options.log, LOG_INFO, NULL,
             "an out-of-memory kill would end the agent, too: a step that takes the last memory is "
             "ended before");
  else if (!is_on && reserve != MEMORY_RESERVE_AUTO && reserve > 0)
    log_line(
        self->options.log, LOG_WARN, NULL,
        "--memory-reserve has no effect: the container's memory has no limit that can be read, "
        "or one that is not larger");
}

/* Once, when the first step comes. */
static void look_around(struct engine *self) {
  if (self->memory_guard != NULL)
    return;
  make_memory_guard(self);
  if (!process_table_is_known())
    log_line(
        self->options.log, LOG_WARN, NULL,
        "/proc cannot be read or is of another pid namespace: a process that leaves its step's "
        "process group is not found");
}

/* Somebody may kill it, as often as it is made. */
#define SPARE_PAUSE_MS 1000

/* The program's start does not wait for the first. */
#define SPARE_START_MS 50

LOOP_CALLBACK(on_spare, struct engine *self) {
  if (self->run_count < self->frontend->terms.executions)
    supervisors_make_spare(self->supervisors);
}

/* As long as more may run, one supervisor waits for it. */
static void make_spare_in(struct engine *self, int64_t milliseconds) {
  if (self->options.keeps_spare && !is_leaving(self) && !evtimer_pending(self->spare, NULL))
    loop_timer_start(self->spare, milliseconds);
}

void engine_submit(struct frontend *frontend, struct request *request) {
  struct engine *self = frontend->engine;
  end_idle(self);
  struct execution **slot = find_slot(self, NULL);
  struct execution *execution =
      execution_new(&self->execution_context, frontend, request, ++self->run_number);
  *slot = execution;
  self->run_count++;
  tell_activity(self);
  begin_idle(self);
  frontend->type->begin(frontend, execution);
  execution_prepare(execution); /* while the frontend makes the start durable */
  look_around(self);            /* and the process is being made */
  memory_guard_watch(self->memory_guard);
}

void engine_start(struct execution *execution) {
  struct engine *self = execution_frontend(execution)->engine;
  end_idle(self);
  execution_start(execution);
}

void engine_stop(struct execution *execution, int64_t grace_ms, enum step_cause cause,
                 const char *reason) {
  execution_stop(execution, grace_ms, cause, reason);
}

void engine_capacity_freed(struct frontend *frontend) {
  struct engine *self = frontend->engine;
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL)
      execution_resume(self->executions[i]);
}

static void close_frontend(struct engine *self, enum frontend_close how) {
  self->phase = PHASE_CLOSING;
  self->frontend->type->close(self->frontend, how);
}

/* From here on it is time without a step. Without a server there may never be room. */
static void on_execution_stalled(void *engine, struct execution *execution) {
  struct engine *self = engine;
  begin_idle(self);
  if (is_leaving(self))
    execution_ignore_capacity(execution);
}

/* A shutdown step waits for a server that is away, everything else exits without it. */
static void on_tree_gone(void *owner, size_t survivors) {
  struct engine *self = owner;
  if (survivors > 0)
    log_line(self->options.log, LOG_WARN, NULL, "%zu processes survive SIGKILL", survivors);
  if (self->phase == PHASE_ENDING_TREE)
    close_frontend(self, self->exit_code == AGENT_EXIT_SHUTDOWN ? FRONTEND_CLOSE_GRACEFUL
                                                                : FRONTEND_CLOSE_FAST);
}

static void end_tree(struct engine *self, int64_t grace_ms) {
  self->phase = PHASE_ENDING_TREE;
  supervisors_end(self->supervisors, grace_ms, on_tree_gone, self);
}

static void obey_signal(struct engine *self);

/* The answer leaves together with the start of the next step, and before it is logged: somebody
   waits for it. */
static void on_execution_done(void *engine, struct execution *execution,
                              const struct execution_result *end) {
  struct engine *self = engine;
  struct frontend *frontend = self->frontend;
  *find_slot(self, execution) = NULL;
  self->run_count--;
  frontend->type->result(frontend, execution, end);
  tell_activity(self);
  begin_idle(self);
  if (!is_leaving(self))
    frontend->type->want(frontend, 1);
  if (frontend->type->flush != NULL)
    frontend->type->flush(frontend);
  execution_result_log(end, execution_log(execution), execution_step(execution),
                       frontend->terms.output_bytes > 0);
  execution_free(execution);
  make_spare_in(self, 0);
  if (self->phase == PHASE_DRAINING && self->run_count == 0)
    obey_signal(self);
  else if (self->phase == PHASE_ENDING_RUNS && self->run_count == 0)
    end_tree(self, frontend->terms.leave_background_ms);
}

bool engine_cancel(struct frontend *frontend, const char *step_id, const char *reason) {
  struct engine *self = frontend->engine;
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++) {
    struct execution *execution = self->executions[i];
    if (execution == NULL || strcmp(execution_step(execution)->step_id, step_id) != 0)
      continue;
    log_line(execution_log(execution), LOG_INFO, step_id, "cancel: ending the running step");
    engine_stop(execution, frontend->terms.grace_ms, STEP_CAUSE_CANCELLED, reason);
    return true;
  }
  return false;
}

void engine_mask_rejected(struct frontend *frontend, const char *payload, size_t length,
                          struct error *error) {
  secrets_mask_rejected(frontend->engine->options.secrets, payload, length, error);
}

void engine_reap(struct engine *self) {
  bool has_died;
  if (supervisors_reap(self->supervisors, &has_died))
    loop_timer_start(self->reap_on, 0);
  if (has_died)
    make_spare_in(self, SPARE_PAUSE_MS);
}

LOOP_CALLBACK(on_reap_on, struct engine *self) {
  engine_reap(self);
}

/* --- what an earlier agent left -------------------------------------------------------------- */

/* How often it is looked whether they are gone: they are nobody's children here. */
#define DEAD_AGENTS_PAUSE_MS 10

static bool has_dead_agents(struct engine *self) {
  return self->options.job_id != NULL && supervisor_process_count_orphaned(self->job) > 0;
}

LOOP_CALLBACK(on_dead_agents, struct engine *self) {
  if (has_dead_agents(self) && clock_monotonic_ms() < self->dead_agents_give_up_ms)
    loop_timer_start(self->dead_agents, DEAD_AGENTS_PAUSE_MS);
  else
    self->frontend->type->interrupted_ended(self->frontend);
}

bool engine_await_dead_agents(struct frontend *frontend) {
  struct engine *self = frontend->engine;
  if (!has_dead_agents(self))
    return true;
  log_line(self->options.log, LOG_WARN, NULL, "waiting for the end of what an earlier agent left");
  self->dead_agents_give_up_ms = clock_monotonic_ms() + SUPERVISORS_GIVE_UP_MS;
  loop_timer_start(self->dead_agents, DEAD_AGENTS_PAUSE_MS);
  return false;
}

/* --- the end -------------------------------------------------------------------------------- */

const char *engine_leaving(const struct frontend *frontend) {
  return frontend->engine->leaving;
}

/* What is over and has no room left for its output. */
static void let_stalled_end(struct engine *self) {
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL && execution_is_stalled(self->executions[i]))
      execution_ignore_capacity(self->executions[i]);
}

void engine_leave(struct frontend *frontend, int exit_code, const char *reason) {
  struct engine *self = frontend->engine;
  if (self->phase > PHASE_DRAINING)
    return;
  end_idle(self);
  log_line(self->options.log, LOG_INFO, NULL, "stopping: %s", reason);
  (void)evtimer_del(self->spare);
  self->leaving = reason;
  if (self->signal == 0)
    self->exit_code = exit_code;
  else /* by the signal, or while it drained */
    loop_timer_start(self->deadline, ENGINE_DEADLINE_MS);
  if (self->options.idle_limit_ms > 0)
    loop_timer_start(self->outage_limit, self->options.idle_limit_ms);
  self->phase = PHASE_ENDING_RUNS;
  if (self->run_count == 0)
    end_tree(self, frontend->terms.leave_grace_ms);
  frontend->type->want(frontend, 0);
  char text[96];
  (void)snprintf(text, sizeof text, "cancelled: the agent was stopped by %s", reason);
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL)
      execution_stop(self->executions[i], frontend->terms.leave_grace_ms, STEP_CAUSE_CANCELLED,
                     text);
  let_stalled_end(self);
}

void engine_frontend_closed(struct frontend *frontend, int lost) {
  struct engine *self = frontend->engine;
  if (lost != 0 && self->signal == 0)
    self->exit_code = lost;
  self->phase = PHASE_OVER;
  (void)event_base_loopbreak(self->options.base);
}

static void end_at_once(struct engine *self) {
  if (self->phase == PHASE_OVER)
    return;
  supervisors_kill(self->supervisors);
  close_frontend(self, FRONTEND_CLOSE_IMMEDIATE);
}

/* In order, within ENGINE_DEADLINE_MS. */
static void obey_signal(struct engine *self) {
  loop_timer_start(self->deadline, ENGINE_DEADLINE_MS);
  if (self->phase == PHASE_CLOSING)
    close_frontend(self, FRONTEND_CLOSE_FAST);
  engine_leave(self->frontend, self->exit_code, printable_signal(self->signal));
}

/* What runs may end by itself. The frontend is asked for nothing more, and so begins nothing; but
   it goes on taking in what may be a cancel, which want(0) would end. */
static void begin_draining(struct engine *self) {
  log_line(self->options.log, LOG_INFO, NULL, "draining: the running step has %lld s to finish",
           (long long)(self->options.drain_ms / 1000));
  self->phase = PHASE_DRAINING;
  (void)evtimer_del(self->spare);
  loop_timer_start(self->deadline, self->options.drain_ms);
  let_stalled_end(self);
}

LOOP_CALLBACK(on_time_over, struct engine *self) {
  if (self->phase == PHASE_DRAINING)
    obey_signal(self);
  else
    end_at_once(self);
}

static void dump_features(const struct engine *self) {
  struct buffer text = {0};
  for (size_t i = 0; protocol_features[i] != NULL; i++)
    buffer_add_format(&text, " %s", protocol_features[i]);
  log_line(self->options.log, LOG_WARN, NULL,
           "state: version %s, protocol " PROTOCOL_VERSIONS ":%.*s", self->options.version,
           (int)text.length, text.bytes);
  buffer_release(&text);
}

static void dump(const struct engine *self) {
  dump_features(self);
  log_line(self->options.log, LOG_WARN, NULL, "state: %u runs, %s", self->run_count,
           self->phase == PHASE_DRAINING             ? "draining"
           : is_leaving(self)                        ? "stopping"
           : evtimer_pending(self->idle_limit, NULL) ? "idle time runs"
                                                     : "busy");
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++) {
    char text[256];
    if (self->executions[i] == NULL)
      continue;
    execution_describe(self->executions[i], text, sizeof text);
    log_line(execution_log(self->executions[i]), LOG_WARN,
             execution_step(self->executions[i])->step_id, "state: run %s", text);
  }
  self->frontend->type->dump(self->frontend);
}

void engine_signal(struct engine *self, int signal) {
  if (signal == SIGUSR1) {
    dump(self);
    return;
  }
  end_idle(self);
  if (self->phase == PHASE_DRAINING) {
    obey_signal(self);
    return;
  }
  if (self->signal != 0) {
    log_line(self->options.log, LOG_WARN, NULL, "another signal (%s): exiting at once",
             printable_signal(signal));
    end_at_once(self);
    return;
  }
  self->signal = signal;
  self->exit_code = AGENT_EXIT_SIGNAL + signal;
  if (signal == SIGTERM && self->options.drain_ms > 0 && self->phase == PHASE_RUNNING &&
      self->run_count > 0)
    begin_draining(self);
  else
    obey_signal(self);
}

/* --- signals -------------------------------------------------------------------------------- */

/* Signals in one read; for more the event comes again. */
#define SIGNALS_AT_ONCE 4

/* A step may send any number: what they lead to in the log comes once in this time. */
#define SIGNALS_LOGGED_MS 1000

/* Whether it is too soon after the time before; else this is the time. */
static bool is_too_soon(int64_t *last_ms) {
  int64_t now_ms = clock_monotonic_ms();
  if (*last_ms != 0 && now_ms < *last_ms + SIGNALS_LOGGED_MS)
    return true;
  *last_ms = now_ms;
  return false;
}

/* A signal of a step is no order: SIGTERM to process 1 would end the job. */
static bool is_order(const struct engine *self, const struct signalfd_siginfo *info) {
  enum signal_origin origin = signal_origin_of(info);
  bool has_steps = origin == SIGNAL_OF_GONE &&
                   (self->run_count > 0 || supervisors_have_processes(self->supervisors));
  return origin != SIGNAL_OF_STEP && !has_steps;
}

/* The question for the state ends nothing, so everybody may ask; who does so from a shell in the
   container is gone when it is read. */
static void take_signal(struct engine *self, const struct signalfd_siginfo *info) {
  int signal = (int)info->ssi_signo;
  if (signal == SIGCHLD)
    engine_reap(self);
  else if (signal == SIGUSR1 ? !is_too_soon(&self->asked_ms) : is_order(self, info))
    engine_signal(self, signal);
  else if (signal != SIGUSR1 && !is_too_soon(&self->refused_ms))
    log_line(self->options.log, LOG_WARN, NULL, "a step sent %s: ignored",
             printable_signal(signal));
}

LOOP_CALLBACK(on_signals, struct engine *self) {
  struct signalfd_siginfo infos[SIGNALS_AT_ONCE];
  ssize_t length = read(self->options.signal_fd, infos, sizeof infos);
  for (ssize_t i = 0; length > 0 && i < length / (ssize_t)sizeof *infos; i++)
    take_signal(self, &infos[i]);
}

/* --- the engine itself ---------------------------------------------------------------------- */

/* Of a frontend with several runs at a time. */
#define IDLE_SUPERVISORS_MAX 4

static void set_names(struct engine *self) {
  const char *job_id = self->options.job_id != NULL ? self->options.job_id : "";
  uint64_t hash = hash_bytes(job_id, strlen(job_id));
  (void)snprintf(self->job, sizeof self->job, "%08x", (unsigned)(hash ^ hash >> 32));
  (void)snprintf(self->tag, sizeof self->tag, "%s-%d-%lld", self->job, (int)getpid(),
                 (long long)clock_unix_ms());
}

struct engine *engine_new(const struct engine_options *options) {
  struct engine *self = memory_allocate(sizeof *self);
  *self = (struct engine){.options = *options};
  set_names(self);
  self->options.supervisors.base = options->base;
  self->options.supervisors.supervisor.job = self->job;
  self->options.supervisors.supervisor.log = options->log;
  self->supervisors = supervisors_new(&self->options.supervisors);
  self->execution_context =
      (struct execution_context){.stalled = on_execution_stalled,
                                 .done = on_execution_done,
                                 .engine = self,
                                 .process = {.base = options->base,
                                             .supervisors = self->supervisors,
                                             .stdin_fd = options->supervisors.supervisor.stdin_fd},
                                 .log = options->log,
                                 .secrets = options->secrets,
                                 .kind = options->kind,
                                 .line_bytes = options->line_bytes,
                                 .agent_tag = self->tag};
  if (options->signal_fd >= 0)
    self->signals =
        loop_event_new(options->base, options->signal_fd, EV_READ | EV_PERSIST, on_signals, self);
  self->idle_limit = loop_timer_new(options->base, on_idle_limit, self);
  self->spare = loop_timer_new(options->base, on_spare, self);
  self->dead_agents = loop_timer_new(options->base, on_dead_agents, self);
  self->reap_on = loop_timer_new(options->base, on_reap_on, self);
  self->outage_limit = loop_timer_new(options->base, on_time_over, self);
  self->deadline = loop_timer_new(options->base, on_time_over, self);
  return self;
}

void engine_free(struct engine *self) {
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL)
      execution_free(self->executions[i]);
  if (self->signals != NULL)
    event_free(self->signals);
  event_free(self->idle_limit);
  event_free(self->spare);
  event_free(self->dead_agents);
  event_free(self->reap_on);
  event_free(self->outage_limit);
  event_free(self->deadline);
  supervisors_free(self->supervisors);
  if (self->memory_guard != NULL)
    memory_guard_free(self->memory_guard);
  free(self);
}

void engine_set_frontend(struct engine *self, struct frontend *frontend) {
  CHECK(frontend->terms.executions >= 1 && frontend->terms.executions <= ENGINE_EXECUTIONS_MAX);
  CHECK(self->options.drain_ms == 0 || frontend->terms.executions == 1);
  frontend->engine = self;
  self->frontend = frontend;
  self->execution_context.process.grace_ms = frontend->terms.grace_ms;
  self->execution_context.process.drain_ms = frontend->terms.drain_ms;
  self->execution_context.process.lists_alive =
      frontend->terms.output_bytes == 0; /* its results have room */
  supervisors_limit_idle(self->supervisors, frontend->terms.executions < IDLE_SUPERVISORS_MAX
                                                ? frontend->terms.executions
                                                : IDLE_SUPERVISORS_MAX);
}

int engine_run(struct engine *self) {
  begin_idle(self);
  self->frontend->type->want(self->frontend, self->frontend->terms.executions);
  make_spare_in(self, SPARE_START_MS);
  if (self->phase != PHASE_OVER)
    (void)event_base_dispatch(self->options.base);
  return self->exit_code;
}
