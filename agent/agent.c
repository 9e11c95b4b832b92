/* Joins what the agent consists of: what one of them tells the others have to know. */
#include "agent/agent.h"

#include <event2/event.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/departure.h"
#include "agent/engine/idle.h"
#include "agent/engine/signals.h"
#include "agent/job.h"
#include "agent/presence.h"
#include "agent/process/process_tree.h"
#include "agent/worker.h"
#include "base/clock.h"
#include "base/loop.h"

struct agent {
  struct job job;
  struct keys keys;
  struct presence *presence;
  struct worker *worker;
  struct idle *idle;
  struct orphaned_pipes *orphaned_pipes;
  char tag[64];
  struct run_context run_context;
  struct departure departure;
  struct signals signals;
  bool looked_at_proc;
};

static void stop(struct agent *self, int exit_code, const char *reason) {
  idle_end(self->idle);
  departure_begin(&self->departure, exit_code, reason);
}

static void on_worker_busy(void *owner) {
  struct agent *self = owner;
  if (outbox_is_ready(self->job.outbox))
    idle_end(self->idle);
}

static void on_worker_idle(void *owner) {
  struct agent *self = owner;
  if (!departure_has_begun(&self->departure))
    idle_begin(self->idle);
}

static void on_worker_shutdown(void *owner) {
  stop(owner, AGENT_EXIT_SHUTDOWN, "shutdown step");
}

static void on_worker_stopped(void *owner) {
  struct agent *self = owner;
  departure_answered(&self->departure);
}

/* At boot, while Redis answers the outbox. */
static void on_outbox_reached(void *owner) {
  struct agent *self = owner;
  if (!outbox_is_ready(self->job.outbox) && !departure_has_begun(&self->departure))
    worker_prepare(self->worker);
}

static char *on_outbox_claiming(void *owner) {
  struct agent *self = owner;
  return presence_command(self->presence);
}

static void on_outbox_ready(void *owner) {
  struct agent *self = owner;
  presence_start(self->presence);
}

static void on_outbox_room(void *owner) {
  struct agent *self = owner;
  worker_room(self->worker);
}

/* Once it waits for steps: reading there takes as long as a round trip. */
static void look_at_proc(struct agent *self) {
  if (!self->looked_at_proc && !process_tree_is_known())
    log_line(self->job.log, LOG_WARN, NULL,
             "/proc cannot be read: a process that leaves its step's process group is not found");
  self->looked_at_proc = true;
}

static void on_outbox_empty(void *owner) {
  struct agent *self = owner;
  look_at_proc(self);
  worker_delivered(self->worker);
  departure_go_on(&self->departure);
}

static void on_outbox_forgotten(void *owner) {
  struct agent *self = owner;
  worker_forgotten(self->worker);
}

static void on_outbox_gone(void *owner) {
  struct agent *self = owner;
  departure_go_on(&self->departure);
}

static void on_redis_failed(void *owner, const struct error *error) {
  struct agent *self = owner;
  log_line(self->job.log, LOG_ERROR, NULL, "%s", error->text);
  if (departure_has_begun(&self->departure))
    departure_go_on(&self->departure);
  else
    stop(self, AGENT_EXIT_ERROR, "an error of redis");
}

static void on_outbox_failed(void *owner, const struct error *error) {
  struct agent *self = owner;
  departure_undeliverable(&self->departure);
  presence_stop(self->presence);
  on_redis_failed(self, error);
}

static void on_presence_over(void *owner) {
  struct agent *self = owner;
  departure_end(&self->departure);
}

static bool is_running(void *owner) {
  const struct agent *self = owner;
  return worker_is_running(self->worker);
}

/* Redis was never there, or does not take what it has to say. */
static bool is_stuck(void *owner) {
  const struct agent *self = owner;
  return !outbox_is_ready(self->job.outbox) || !outbox_is_empty(self->job.outbox);
}

static void on_idle_over(void *owner) {
  stop(owner, is_stuck(owner) ? AGENT_EXIT_ERROR : AGENT_EXIT_IDLE, "the idle limit");
}

static void on_order(void *owner, int signal) {
  struct agent *self = owner;
  idle_end(self->idle);
  departure_order(&self->departure, signal);
}

static void on_reaped(void *owner, pid_t pid, int status) {
  struct agent *self = owner;
  if (!worker_reaped(self->worker, pid, status))
    departure_reaped(&self->departure);
}

static void make_outbox(struct agent *self) {
  static const struct outbox_handler handler = {.connected = on_outbox_reached,
                                                .claiming = on_outbox_claiming,
                                                .ready = on_outbox_ready,
                                                .room = on_outbox_room,
                                                .empty = on_outbox_empty,
                                                .forgotten = on_outbox_forgotten,
                                                .gone = on_outbox_gone,
                                                .failed = on_outbox_failed};
  const struct options *options = self->job.options;
  char name[128];
  (void)snprintf(name, sizeof name, "sandbox:%.100s:out", options->job_id);
  struct outbox_options outbox_options = {.url = &options->redis,
                                          .keys = &self->keys,
                                          .name = name,
                                          .events_maxlen = options->events_maxlen,
                                          .key_ttl_seconds = options->key_ttl_seconds,
                                          .hold_bytes = options->hold_bytes};
  self->job.outbox = outbox_new(self->job.base, self->job.log, &outbox_options, &handler, self);
}

static void make_worker(struct agent *self, const struct startup *process) {
  static const struct worker_handler handler = {.busy = on_worker_busy,
                                                .idle = on_worker_idle,
                                                .shutdown = on_worker_shutdown,
                                                .stopped = on_worker_stopped,
                                                .failed = on_redis_failed};
  (void)snprintf(self->tag, sizeof self->tag, "%d-%lld", (int)getpid(), (long long)clock_unix_ms());
  self->orphaned_pipes = orphaned_pipes_new(self->job.base);
  self->run_context = (struct run_context){.process = {.base = self->job.base,
                                                       .orphaned_pipes = self->orphaned_pipes,
                                                       .spawn = process->spawn},
                                           .job_id = self->job.options->job_id,
                                           .environment = environ,
                                           .agent_tag = self->tag};
  self->worker = worker_new(&self->job, &self->run_context, &handler, self);
}

static void agent_init(struct agent *self, const struct options *options,
                       const struct startup *process, const struct log *log) {
  static const struct signals_handler signals_handler = {.ordered = on_order, .reaped = on_reaped};
  static const struct idle_handler idle_handler = {.is_stuck = is_stuck, .over = on_idle_over};
  static const struct presence_handler presence_handler = {
      .is_running = is_running, .over = on_presence_over, .failed = on_redis_failed};
  struct event_base *base = loop_event_base_new();
  *self =
      (struct agent){.job = {.base = base, .log = log, .options = options, .keys = &self->keys}};
  keys_init(&self->keys, options->job_id);
  signals_init(&self->signals, base, process->signal_fd, &signals_handler, self);
  self->idle = idle_new(base, log, options, &idle_handler, self);
  make_outbox(self);
  self->presence = presence_new(&self->job, &presence_handler, self);
  make_worker(self, process);
  departure_init(&self->departure, &self->job, self->presence, self->worker);
}

static void agent_release(struct agent *self) {
  worker_free(self->worker);
  idle_free(self->idle);
  presence_free(self->presence);
  outbox_free(self->job.outbox);
  orphaned_pipes_free(self->orphaned_pipes);
  departure_release(&self->departure);
  signals_release(&self->signals);
  (void)event_base_loop(self->job.base, EVLOOP_NONBLOCK); /* what resolvers left behind */
  event_base_free(self->job.base);
  keys_release(&self->keys);
}

int agent_run(const struct options *options, const struct startup *process, const struct log *log) {
  struct agent agent;
  agent_init(&agent, options, process, log);
  outbox_start(agent.job.outbox);
  worker_begin(agent.worker);
  on_worker_idle(&agent);
  char server[256];
  redis_url_name(&options->redis, server, sizeof server);
  log_line(log, LOG_INFO, NULL, "started: pid %d, redis %s, steps from %s", (int)getpid(), server,
           agent.keys.in);
  (void)event_base_dispatch(agent.job.base);
  int exit_code = departure_exit_code(&agent.departure);
  agent_release(&agent);
  log_line(log, LOG_INFO, NULL, "left with exit code %d", exit_code);
  return exit_code;
}
