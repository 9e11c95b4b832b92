#include "agent/engine/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/engine_state.h"
#include "agent/process/process_table.h"
#include "agent/process/supervisor_fork.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/loop.h"
#include "base/memory.h"
#include "wire/features.h"

/* --- idle time -------------------------------------------------------------------------------- */

/* A limit that is pending already goes on. */
static void begin_idle(struct engine *self) {
  CHECK(self->options.idle_limit_ms == 0 || self->frontend->terms.executions == 1);
  if (self->options.idle_limit_ms > 0 && !shutdown_has_begun(self) && !self->has_asked_idle &&
      !evtimer_pending(self->idle_limit, NULL))
    loop_timer_start(self->idle_limit, self->options.idle_limit_ms);
}

void engine_end_idle(struct engine *self) {
  (void)evtimer_del(self->idle_limit);
  self->has_asked_idle = false;
}

LOOP_CALLBACK(on_idle_limit, struct engine *self) {
  log_line(self->options.log, LOG_INFO, NULL, "no step for %lld s",
           (long long)(self->options.idle_limit_ms / 1000));
  self->has_asked_idle = true;
  self->frontend->type->idle(self->frontend);
}

void engine_touch(struct frontend *frontend) {
  struct engine *self = frontend->engine;
  if (self->execution_count > 0)
    return; /* idle time may run while an execution waits for capacity */
  engine_end_idle(self);
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
  if (!self->has_asked_idle)
    return; /* the question was withdrawn */
  self->has_asked_idle = false;
  begin_idle(self);
  if (milliseconds > 0 && evtimer_pending(self->idle_limit, NULL))
    loop_timer_start(self->idle_limit, milliseconds);
}

/* --- executions ------------------------------------------------------------------------------- */

static void notify_activity(struct engine *self) {
  if (self->frontend->type->activity != NULL)
    self->frontend->type->activity(self->frontend, self->execution_count);
}

/* Returns the place of this execution; NULL: a free place. There is one, because a frontend submits
   at most as many requests as the engine wanted. */
static struct execution **find_slot(struct engine *self, const struct execution *execution) {
  size_t i = 0;
  while (i < ENGINE_EXECUTIONS_MAX && self->executions[i] != execution)
    i++;
  CHECK(i < ENGINE_EXECUTIONS_MAX);
  return &self->executions[i];
}

/* The first step pays for it, not the start of the program. */
static void prepare_first_step(struct engine *self) {
  if (self->guard != NULL)
    return;
  self->guard =
      resource_guard_new(self->options.base, self->options.log, self->options.memory_reserve,
                         self->executions, self->supervisors);
  if (!process_table_is_known())
    log_line(self->options.log, LOG_WARN, NULL,
             "/proc is unreadable or belongs to another pid namespace: a process that leaves its "
             "step's process group is not found");
}

/* The start of the program does not wait for the first one. */
#define SPARE_START_MS 50

LOOP_CALLBACK(on_spare, struct engine *self) {
  if (self->execution_count < self->frontend->terms.executions)
    supervisors_make_spare(self->supervisors);
}

/* One supervisor is ready at the start, and after each step, unless a step kills it. */
static void start_spare_timer(struct engine *self, int64_t milliseconds) {
  if (!shutdown_has_begun(self) && !evtimer_pending(self->spare, NULL))
    loop_timer_start(self->spare, milliseconds);
}

void engine_submit(struct frontend *frontend, struct request *request) {
  struct engine *self = frontend->engine;
  engine_end_idle(self);
  struct execution **slot = find_slot(self, NULL);
  struct execution *execution =
      execution_new(&self->execution_context, frontend, request, ++self->last_number);
  *slot = execution;
  self->execution_count++;
  notify_activity(self);
  begin_idle(self);
  frontend->type->begin(frontend, execution);
  execution_prepare(execution); /* while the frontend makes the start durable */
  prepare_first_step(self);     /* and while the process is being made */
  resource_guard_watch(self->guard, execution);
}

void engine_start(struct execution *execution) {
  struct engine *self = execution_frontend(execution)->engine;
  engine_end_idle(self);
  execution_start(execution);
}

void engine_capacity_freed(struct frontend *frontend) {
  struct engine *self = frontend->engine;
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL)
      execution_resume(self->executions[i]);
}

/* From here on idle time runs: without a server there may never be capacity. */
void engine_execution_stalled(struct execution *execution) {
  struct engine *self = execution_frontend(execution)->engine;
  begin_idle(self);
  if (shutdown_has_begun(self))
    execution_finish_stalled(execution);
}

/* The result is sent together with the start of the next step, and before it is logged, because the
   server waits for it. */
void engine_execution_done(struct execution *execution, const struct execution_result *end) {
  struct frontend *frontend = execution_frontend(execution);
  struct engine *self = frontend->engine;
  *find_slot(self, execution) = NULL;
  self->execution_count--;
  frontend->type->result(frontend, execution, end);
  notify_activity(self);
  begin_idle(self);
  if (!shutdown_has_begun(self))
    frontend->type->want(frontend, 1);
  if (frontend->type->flush != NULL)
    frontend->type->flush(frontend);
  execution_result_log(end, execution_log(execution), execution_step(execution),
                       frontend->terms.output_bytes > 0);
  execution_free(execution);
  start_spare_timer(self, 0);
  if (self->execution_count == 0)
    shutdown_no_executions(self);
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

char *engine_step_title(struct frontend *frontend, const struct step *step) {
  const struct engine_options *options = &frontend->engine->options;
  struct step_secrets added = secrets_add_step(options->secrets, options->log, step);
  char *title = kind_title(step, &options->secrets->masker);
  secrets_end_step(options->secrets, &added);
  return title;
}

void engine_reap(struct engine *self) {
  if (supervisors_reap(self->supervisors))
    (void)kill(getpid(), SIGCHLD); /* for the rest, in another turn of the loop */
}

bool engine_find_processes(struct engine *self) {
  return self->execution_count > 0 || supervisors_find_processes(self->supervisors);
}

/* --- dead agents ------------------------------------------------------------------------------ */

/* How often /proc is read: their supervisors are no children of this process. */
#define DEAD_AGENTS_PAUSE_MS 10

static size_t count_dead_agents(const struct engine *self) {
  return self->options.job_id != NULL ? supervisor_fork_count_orphaned(self->job) : 0;
}

LOOP_CALLBACK(on_dead_agents, struct engine *self) {
  if (count_dead_agents(self) > 0 && clock_monotonic_ms() < self->dead_agents_give_up_ms)
    loop_timer_start(self->dead_agents, DEAD_AGENTS_PAUSE_MS);
  else
    self->frontend->type->interrupted_ended(self->frontend);
}

bool engine_await_dead_agents(struct frontend *frontend) {
  struct engine *self = frontend->engine;
  if (count_dead_agents(self) == 0)
    return true;
  log_line(self->options.log, LOG_WARN, NULL, "waiting for the processes of a dead agent to end");
  self->dead_agents_give_up_ms = clock_monotonic_ms() + SUPERVISORS_GIVE_UP_MS;
  loop_timer_start(self->dead_agents, DEAD_AGENTS_PAUSE_MS);
  return false;
}

/* --- the state in the log --------------------------------------------------------------------- */

static void dump(const struct engine *self) {
  const struct log *log = self->options.log;
  struct buffer features = {0};
  for (size_t i = 0; protocol_features[i] != NULL; i++)
    buffer_add_format(&features, " %s", protocol_features[i]);
  log_line(log, LOG_WARN, NULL, "state: version %s, protocol " PROTOCOL_VERSIONS ":%.*s",
           self->options.version, (int)features.length, features.bytes);
  buffer_release(&features);
  log_line(log, LOG_WARN, NULL, "state: %u executions, %s", self->execution_count,
           self->shutdown.phase == SHUTDOWN_DRAINING ? "draining"
           : shutdown_has_begun(self)                ? "stopping"
           : evtimer_pending(self->idle_limit, NULL) ? "idle time runs"
                                                     : "busy");
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++) {
    char text[256];
    if (self->executions[i] == NULL)
      continue;
    execution_describe(self->executions[i], text, sizeof text);
    log_line(execution_log(self->executions[i]), LOG_WARN,
             execution_step(self->executions[i])->step_id, "state: execution %s", text);
  }
  self->frontend->type->dump(self->frontend);
}

void engine_add_abilities(const struct frontend *frontend, const char *abi, const char *list,
                          struct buffer *json) {
  const char *words[CONFINEMENT_PARTS + 1];
  const int landlock = confinement_describe(frontend->engine->options.kind.confinement, words);
  buffer_add_format(json, ",\"%s\":%d,\"%s\":[", abi, landlock, list);
  for (size_t i = 0; words[i] != NULL; i++)
    buffer_add_format(json, "%s\"%s\"", i > 0 ? "," : "", words[i]);
  buffer_add_string(json, "]");
}

void engine_signal(struct engine *self, int signal) {
  if (signal == SIGUSR1)
    dump(self);
  else
    shutdown_signal(self, signal);
}

/* --- the engine itself ---------------------------------------------------------------------- */

/* For a frontend with several executions at a time. */
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
  self->options.supervisor.job = self->job;
  self->options.supervisor.log = options->log;
  self->supervisors = supervisors_new(options->base, &self->options.supervisor);
  self->execution_context =
      (struct execution_context){.options = &self->options,
                                 .process = {.base = options->base,
                                             .supervisors = self->supervisors,
                                             .stdin_fd = options->supervisor.stdin_fd,
                                             .drains = &self->drains},
                                 .agent_tag = self->tag};
  if (options->signal_fd >= 0)
    self->signals = signals_new(self, options->base, options->signal_fd, options->log);
  self->idle_limit = loop_timer_new(options->base, on_idle_limit, self);
  self->spare = loop_timer_new(options->base, on_spare, self);
  self->dead_agents = loop_timer_new(options->base, on_dead_agents, self);
  shutdown_init(self);
  return self;
}

void engine_free(struct engine *self) {
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL)
      execution_free(self->executions[i]);
  if (self->signals != NULL)
    signals_free(self->signals);
  event_free(self->idle_limit);
  event_free(self->spare);
  event_free(self->dead_agents);
  event_free(self->shutdown.limit);
  supervisors_free(self->supervisors);
  process_end_drains(&self->execution_context.process);
  if (self->guard != NULL)
    resource_guard_free(self->guard);
  free(self);
}

void engine_set_frontend(struct engine *self, struct frontend *frontend) {
  CHECK(frontend->terms.executions >= 1 && frontend->terms.executions <= ENGINE_EXECUTIONS_MAX);
  CHECK(self->options.drain_ms == 0 || frontend->terms.executions == 1);
  frontend->engine = self;
  self->frontend = frontend;
  self->execution_context.process.grace_ms = frontend->terms.grace_ms;
  self->execution_context.process.drain_ms = frontend->terms.drain_ms;
  const unsigned idle_max = frontend->terms.executions < IDLE_SUPERVISORS_MAX
                                ? frontend->terms.executions
                                : IDLE_SUPERVISORS_MAX;
  const bool has_lines = frontend->terms.output_bytes == 0;
  supervisors_set_terms(self->supervisors, idle_max, has_lines); /* results have a field for them */
}

int engine_run(struct engine *self) {
  begin_idle(self);
  self->frontend->type->want(self->frontend, self->frontend->terms.executions);
  start_spare_timer(self, SPARE_START_MS);
  if (self->shutdown.phase != SHUTDOWN_OVER)
    (void)event_base_dispatch(self->options.base);
  return self->shutdown.exit_code;
}
