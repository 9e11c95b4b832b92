/*
 * The end of the program, in this order: no more requests, the runs end and are answered, what earlier
 * steps left in the background ends, the door delivers what it holds, the loop ends.
 *
 *   RUNNING --leave--> ENDING_RUNS --runs over--> ENDING_TREE --tree gone--> CLOSING --closed--> OVER
 *     |                    `---------no run----------^
 *     `--SIGTERM--> DRAINING --runs over, SIGTERM, limit--> as if leaving now
 *
 * Another signal, or a limit, goes to CLOSING at once and closes the door with DOOR_CLOSE_NOW.
 */
#include "agent/engine/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/memory_guard.h"
#include "agent/engine/memory_victim.h"
#include "agent/engine/run.h"
#include "agent/engine/signal_origin.h"
#include "agent/exit_code.h"
#include "agent/process/dead_agents.h"
#include "agent/process/keepers.h"
#include "agent/process/process_table.h"
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
  struct door *door;
  struct run *runs[ENGINE_RUNS_MAX]; /* the table of runs; NULL: free */
  unsigned run_count;
  uint64_t run_number; /* of the run made last */
  struct run_context run_context;
  struct keepers *keepers;
  struct memory_guard *memory_guard; /* NULL before the first step */
  bool memory_told;                  /* that nobody has much of it; until it is relieved */
  struct event *spare;               /* makes a keeper ahead of time */
  char job[8 + 1];                   /* a hash of its id */
  char tag[64];
  struct event *dead_agents;      /* looks again: see engine_await_dead_agents */
  int64_t dead_agents_give_up_ms; /* monotonic */
  struct event *signals;          /* NULL: they are somebody else's */
  int64_t refused_ms;             /* when a refused signal was logged last; monotonic, 0: never */
  int64_t asked_ms;               /* and the state */
  struct event *reap_on;    /* pending while there may be more children than are reaped in a turn */
  struct event *idle_limit; /* pending while nothing executes */
  bool asked_idle;          /* the door was asked at the limit, and has not answered */
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
  CHECK(self->options.idle_limit_ms == 0 || self->door->terms.runs == 1);
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

/* What earlier steps have left counts, too. */
static bool is_memory_guard_needed(void *owner) {
  const struct engine *self = owner;
  return self->run_count > 0 || keepers_are_busy(self->keepers);
}

/* Ends one, and no other before that has given its memory back. */
static bool on_memory_exhausted(void *owner, const struct memory_shortage *shortage) {
  struct engine *self = owner;
  char text[MEMORY_VICTIM_TEXT_SIZE];
  if (keepers_are_killing(self->keepers))
    return true;
  if (!keepers_count(self->keepers))
    return false;
  const struct memory_victim victim =
      memory_victim_find(self->runs, ENGINE_RUNS_MAX, self->keepers, shortage, text);
  const bool is_nobodys = victim.run == NULL && victim.keeper == NULL;
  if (victim.run != NULL)
    run_stop(victim.run, 0, STEP_CAUSE_MEMORY_LIMIT, text);
  else if (!is_nobodys || !self->memory_told)
    log_line(self->options.log, LOG_WARN, NULL, "%s", text);
  self->memory_told |= is_nobodys;
  if (victim.keeper != NULL)
    keeper_kill(victim.keeper);
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
  if (self->run_count < self->door->terms.runs)
    keepers_make_spare(self->keepers);
}

/* As long as more may run, one keeper waits for it. */
static void make_spare_in(struct engine *self, int64_t milliseconds) {
  if (self->options.keeps_spare && !is_leaving(self) && !evtimer_pending(self->spare, NULL))
    loop_timer_start(self->spare, milliseconds);
}

void engine_submit(struct door *door, struct request *request) {
  struct engine *self = door->engine;
  end_idle(self);
  struct run **slot = find_slot(self, NULL);
  struct run *run = run_new(&self->run_context, door, request, ++self->run_number);
  *slot = run;
  self->run_count++;
  tell_activity(self);
  begin_idle(self);
  door->type->begin(door, run);
  run_prepare(run);  /* while the door makes the start durable */
  look_around(self); /* and the process is being made */
  memory_guard_watch(self->memory_guard);
}

void engine_start(struct run *run) {
  struct engine *self = run_door(run)->engine;
  end_idle(self);
  run_start(run);
}

void engine_stop(struct run *run, int64_t grace_ms, enum step_cause cause, const char *reason) {
  run_stop(run, grace_ms, cause, reason);
}

void engine_room(struct door *door) {
  struct engine *self = door->engine;
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (self->runs[i] != NULL)
      run_resume(self->runs[i]);
}

static void close_door(struct engine *self, enum door_close how) {
  self->phase = PHASE_CLOSING;
  self->door->type->close(self->door, how);
}

/* From here on it is time without a step. Without a server there may never be room. */
static void on_run_stalled(void *engine, struct run *run) {
  struct engine *self = engine;
  begin_idle(self);
  if (is_leaving(self))
    run_ignore_room(run);
}

/* A shutdown step waits for a server that is away, everything else exits without it. */
static void on_tree_gone(void *owner, size_t survivors) {
  struct engine *self = owner;
  if (survivors > 0)
    log_line(self->options.log, LOG_WARN, NULL, "%zu processes survive SIGKILL", survivors);
  if (self->phase == PHASE_ENDING_TREE)
    close_door(self,
               self->exit_code == AGENT_EXIT_SHUTDOWN ? DOOR_CLOSE_PATIENT : DOOR_CLOSE_PROMPT);
}

static void end_tree(struct engine *self, int64_t grace_ms) {
  self->phase = PHASE_ENDING_TREE;
  keepers_end(self->keepers, grace_ms, on_tree_gone, self);
}

static void obey_signal(struct engine *self);

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
  run_end_log(end, run_log(run), run_step(run), door->terms.output_bytes > 0);
  run_free(run);
  make_spare_in(self, 0);
  if (self->phase == PHASE_DRAINING && self->run_count == 0)
    obey_signal(self);
  else if (self->phase == PHASE_ENDING_RUNS && self->run_count == 0)
    end_tree(self, door->terms.leave_background_ms);
}

bool engine_cancel(struct door *door, const char *step_id, const char *reason) {
  struct engine *self = door->engine;
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++) {
    struct run *run = self->runs[i];
    if (run == NULL || strcmp(run_step(run)->step_id, step_id) != 0)
      continue;
    log_line(run_log(run), LOG_INFO, step_id, "cancel: ending the running step");
    engine_stop(run, door->terms.grace_ms, STEP_CAUSE_CANCELLED, reason);
    return true;
  }
  return false;
}

void engine_mask_rejected(struct door *door, const char *payload, size_t length,
                          struct error *error) {
  secrets_mask_rejected(door->engine->options.secrets, payload, length, error);
}

void engine_reap(struct engine *self) {
  bool has_died;
  if (keepers_reap(self->keepers, &has_died))
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
  return self->options.job_id != NULL && dead_agents_count_keepers(self->job) > 0;
}

LOOP_CALLBACK(on_dead_agents, struct engine *self) {
  if (has_dead_agents(self) && clock_monotonic_ms() < self->dead_agents_give_up_ms)
    loop_timer_start(self->dead_agents, DEAD_AGENTS_PAUSE_MS);
  else
    self->door->type->interrupted_ended(self->door);
}

bool engine_await_dead_agents(struct door *door) {
  struct engine *self = door->engine;
  if (!has_dead_agents(self))
    return true;
  log_line(self->options.log, LOG_WARN, NULL, "waiting for the end of what an earlier agent left");
  self->dead_agents_give_up_ms = clock_monotonic_ms() + KEEPERS_GIVE_UP_MS;
  loop_timer_start(self->dead_agents, DEAD_AGENTS_PAUSE_MS);
  return false;
}

/* --- the end -------------------------------------------------------------------------------- */

const char *engine_leaving(const struct door *door) {
  return door->engine->leaving;
}

/* What is over and has no room left for its output. */
static void let_stalled_end(struct engine *self) {
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (self->runs[i] != NULL && run_is_stalled(self->runs[i]))
      run_ignore_room(self->runs[i]);
}

void engine_leave(struct door *door, int exit_code, const char *reason) {
  struct engine *self = door->engine;
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
    end_tree(self, door->terms.leave_grace_ms);
  door->type->want(door, 0);
  char text[96];
  (void)snprintf(text, sizeof text, "cancelled: the agent was stopped by %s", reason);
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (self->runs[i] != NULL)
      run_stop(self->runs[i], door->terms.leave_grace_ms, STEP_CAUSE_CANCELLED, text);
  let_stalled_end(self);
}

void engine_door_closed(struct door *door, int lost) {
  struct engine *self = door->engine;
  if (lost != 0 && self->signal == 0)
    self->exit_code = lost;
  self->phase = PHASE_OVER;
  (void)event_base_loopbreak(self->options.base);
}

static void end_at_once(struct engine *self) {
  if (self->phase == PHASE_OVER)
    return;
  keepers_kill(self->keepers);
  close_door(self, DOOR_CLOSE_NOW);
}

/* In order, within ENGINE_DEADLINE_MS. */
static void obey_signal(struct engine *self) {
  loop_timer_start(self->deadline, ENGINE_DEADLINE_MS);
  if (self->phase == PHASE_CLOSING)
    close_door(self, DOOR_CLOSE_PROMPT);
  engine_leave(self->door, self->exit_code, printable_signal(self->signal));
}

/* What runs may end by itself. The door is asked for nothing more, and so begins nothing; but it goes on
   taking in what may be a cancel, which want(0) would end. */
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
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++) {
    char text[256];
    if (self->runs[i] == NULL)
      continue;
    run_describe(self->runs[i], text, sizeof text);
    log_line(run_log(self->runs[i]), LOG_WARN, run_step(self->runs[i])->step_id, "state: run %s",
             text);
  }
  self->door->type->dump(self->door);
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
  bool has_steps =
      origin == SIGNAL_OF_GONE && (self->run_count > 0 || keepers_have_processes(self->keepers));
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

/* Of a door with several runs at a time. */
#define IDLE_KEEPERS_MAX 4

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
  self->options.keepers.base = options->base;
  self->options.keepers.keeper.job = self->job;
  self->options.keepers.keeper.log = options->log;
  self->keepers = keepers_new(&self->options.keepers);
  self->run_context =
      (struct run_context){.stalled = on_run_stalled,
                           .done = on_run_done,
                           .engine = self,
                           .process = {.base = options->base,
                                       .keepers = self->keepers,
                                       .stdin_fd = options->keepers.keeper.stdin_fd},
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
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++)
    if (self->runs[i] != NULL)
      run_free(self->runs[i]);
  if (self->signals != NULL)
    event_free(self->signals);
  event_free(self->idle_limit);
  event_free(self->spare);
  event_free(self->dead_agents);
  event_free(self->reap_on);
  event_free(self->outage_limit);
  event_free(self->deadline);
  keepers_free(self->keepers);
  if (self->memory_guard != NULL)
    memory_guard_free(self->memory_guard);
  free(self);
}

void engine_set_door(struct engine *self, struct door *door) {
  CHECK(door->terms.runs >= 1 && door->terms.runs <= ENGINE_RUNS_MAX);
  CHECK(self->options.drain_ms == 0 || door->terms.runs == 1);
  door->engine = self;
  self->door = door;
  self->run_context.process.grace_ms = door->terms.grace_ms;
  self->run_context.process.drain_ms = door->terms.drain_ms;
  self->run_context.process.lists_alive = door->terms.output_bytes == 0; /* its results have room */
  keepers_limit_idle(self->keepers,
                     door->terms.runs < IDLE_KEEPERS_MAX ? door->terms.runs : IDLE_KEEPERS_MAX);
}

int engine_run(struct engine *self) {
  begin_idle(self);
  self->door->type->want(self->door, self->door->terms.runs);
  make_spare_in(self, SPARE_START_MS);
  if (self->phase != PHASE_OVER)
    (void)event_base_dispatch(self->options.base);
  return self->exit_code;
}
