/*
 * The agent's life:
 *
 *   STARTING --outbox ready--> WORKING --shutdown, signal, idle limit, error--> STOPPING
 *   STOPPING --tree gone--> DRAINING --everything delivered--> STOPPED
 *
 * Stopping has an order: no more steps, the running step ends and is answered, what earlier steps
 * left in the background ends, everything is delivered, the heartbeat ends.
 */
#include "agent/agent.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/idle.h"
#include "agent/last_words.h"
#include "agent/loop_event.h"
#include "agent/presence.h"
#include "agent/redis/outbox.h"
#include "agent/signals.h"
#include "agent/step/kill_sequence.h"
#include "agent/worker.h"
#include "wire/keys.h"

/* From SIGTERM to SIGKILL when the agent is stopped, and for what is left in the background when
   the running step has used that up; and when it leaves whatever happens. An orchestrator gives it
   10 s. */
#define STOP_GRACE_MS 5000
#define STOP_LEFTOVERS_GRACE_MS 1000
#define STOP_DEADLINE_MS 7500

enum state { STARTING, WORKING, STOPPING, DRAINING, STOPPED };

struct agent {
  const struct options *options;
  const struct log *log;
  struct event_base *base;
  struct keys keys;
  struct outbox *outbox;
  struct presence *presence;
  struct worker *worker;
  struct idle *idle;
  struct leftovers *leftovers;
  char tag[64];
  struct process_tree everything; /* all descendants of this process */
  struct kill_sequence kill;
  struct signals signals;
  struct event *drain_limit;
  struct event *stop_deadline;
  enum state state;
  bool owns_job;
  bool looked_at_proc;
  int exit_code;
  int signal; /* the first one that ordered a stop; 0 for none */
};

static void stop(struct agent *self, int exit_code, const char *reason);

static void leave(void *owner) {
  struct agent *self = owner;
  if (!outbox_is_empty(self->outbox) && !presence_is_ending(self->presence))
    last_words(self->log, self->outbox);
  self->state = STOPPED;
  (void)event_base_loopbreak(self->base);
}

/* Everything is ended; what remains is to be delivered, as long as there is somebody to do it. A
   shutdown waits for Redis until the idle limit, everything else leaves without it. */
static void drain(struct agent *self) {
  self->state = DRAINING;
  bool ending = presence_is_ending(self->presence);
  bool empty = outbox_is_empty(self->outbox);
  bool patient = self->exit_code == AGENT_EXIT_SHUTDOWN && !empty && !ending;
  if (!self->owns_job || (outbox_is_gone(self->outbox) && !patient))
    leave(self);
  else if (empty && ending)
    presence_delivered(self->presence);
  else if (empty)
    presence_end(self->presence);
}

/* The running step ends with the tree; its answer comes first. */
static void on_tree_gone(void *owner, size_t survivors) {
  struct agent *self = owner;
  if (survivors > 0)
    log_line(self->log, LOG_WARN, NULL, "%zu processes survive SIGKILL", survivors);
  if (!worker_is_running(self->worker))
    drain(self);
}

static void on_worker_busy(void *owner) {
  struct agent *self = owner;
  if (self->state == WORKING)
    idle_end(self->idle);
}

static void on_worker_idle(void *owner) {
  struct agent *self = owner;
  if (self->state < STOPPING)
    idle_begin(self->idle);
}

static void on_worker_shutdown(void *owner) {
  stop(owner, AGENT_EXIT_SHUTDOWN, "shutdown step");
}

static void on_worker_stopped(void *owner) {
  struct agent *self = owner;
  if (self->state == STOPPING)
    kill_sequence_start(&self->kill, STOP_LEFTOVERS_GRACE_MS);
}

/* At boot, while Redis answers the outbox. */
static void on_outbox_reached(void *owner) {
  struct agent *self = owner;
  if (self->state == STARTING)
    worker_prepare(self->worker);
}

static char *on_outbox_claiming(void *owner) {
  struct agent *self = owner;
  return presence_command(self->presence);
}

static void on_outbox_ready(void *owner) {
  struct agent *self = owner;
  self->owns_job = true;
  presence_start(self->presence);
  if (self->state == STARTING)
    self->state = WORKING;
}

static void on_outbox_room(void *owner) {
  struct agent *self = owner;
  worker_room(self->worker);
}

/* Once it waits for steps: reading there takes as long as a round trip. */
static void look_at_proc(struct agent *self) {
  if (!self->looked_at_proc && !process_tree_is_known())
    log_line(self->log, LOG_WARN, NULL,
             "/proc cannot be read: a process that leaves its step's process group is not found");
  self->looked_at_proc = true;
}

static void on_outbox_empty(void *owner) {
  struct agent *self = owner;
  look_at_proc(self);
  if (self->state == DRAINING)
    drain(self);
  else
    worker_delivered(self->worker);
}

static void on_outbox_forgotten(void *owner) {
  struct agent *self = owner;
  worker_forgotten(self->worker);
}

static void on_outbox_gone(void *owner) {
  struct agent *self = owner;
  if (self->state == DRAINING)
    drain(self);
}

static void on_redis_failed(void *owner, const struct error *error) {
  struct agent *self = owner;
  log_line(self->log, LOG_ERROR, NULL, "%s", error->text);
  if (self->state < STOPPING)
    stop(self, AGENT_EXIT_ERROR, "an error of redis");
  else
    on_outbox_gone(self);
}

/* Nobody brings what a shutdown would wait for any more. */
static void on_outbox_failed(void *owner, const struct error *error) {
  struct agent *self = owner;
  bool shutting_down = self->state >= STOPPING && self->exit_code == AGENT_EXIT_SHUTDOWN;
  if (shutting_down && !presence_is_ending(self->presence))
    self->exit_code = AGENT_EXIT_ERROR;
  presence_stop(self->presence);
  on_redis_failed(self, error);
}

static bool is_running(void *owner) {
  const struct agent *self = owner;
  return worker_is_running(self->worker);
}

/* Redis was never there, or does not take what it has to say. */
static bool is_stuck(void *owner) {
  const struct agent *self = owner;
  return self->state == STARTING || !outbox_is_empty(self->outbox);
}

static void on_idle_over(void *owner) {
  stop(owner, is_stuck(owner) ? AGENT_EXIT_ERROR : AGENT_EXIT_IDLE, "the idle limit");
}

static void on_drain_limit(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct agent *self = context;
  if (!presence_is_ending(self->presence))
    self->exit_code = AGENT_EXIT_ERROR;
  leave(self);
}

static void on_stop_deadline(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct agent *self = context;
  (void)process_tree_signal(&self->everything, SIGKILL);
  leave(self);
}

static void on_order(void *owner, int signal) {
  struct agent *self = owner;
  if (self->signal != 0) {
    log_line(self->log, LOG_WARN, NULL, "second signal (%s): leaving at once",
             signals_name(signal));
    (void)process_tree_signal(&self->everything, SIGKILL);
    leave(self);
    return;
  }
  self->signal = signal;
  loop_timer_start(self->stop_deadline, STOP_DEADLINE_MS);
  if (self->state < STOPPING)
    stop(self, AGENT_EXIT_SIGNAL + signal, signals_name(signal));
  else
    self->exit_code = AGENT_EXIT_SIGNAL + signal;
  if (self->state == DRAINING)
    drain(self); /* a shutdown was more patient */
}

static void on_reaped(void *owner, pid_t pid, int status) {
  struct agent *self = owner;
  if (!worker_reaped(self->worker, pid, status))
    kill_sequence_orphan_reaped(&self->kill);
}

static void stop(struct agent *self, int exit_code, const char *reason) {
  log_line(self->log, LOG_INFO, NULL, "stopping: %s", reason);
  self->state = STOPPING;
  self->exit_code = exit_code;
  idle_end(self->idle);
  loop_timer_start(self->drain_limit, idle_limit_ms(self->options));
  char text[64];
  (void)snprintf(text, sizeof text, "cancelled: the agent was stopped by %s", reason);
  worker_stop(self->worker, STOP_GRACE_MS, text);
  if (!worker_is_running(self->worker))
    kill_sequence_start(&self->kill, STOP_GRACE_MS);
}

static void make_outbox(struct agent *self) {
  static const struct outbox_handler handler = {.reached = on_outbox_reached,
                                                .claiming = on_outbox_claiming,
                                                .ready = on_outbox_ready,
                                                .room = on_outbox_room,
                                                .empty = on_outbox_empty,
                                                .forgotten = on_outbox_forgotten,
                                                .gone = on_outbox_gone,
                                                .failed = on_outbox_failed};
  const struct options *options = self->options;
  char name[128];
  (void)snprintf(name, sizeof name, "sandbox:%.100s:out", options->job_id);
  struct outbox_options outbox_options = {.url = &options->redis,
                                          .keys = &self->keys,
                                          .name = name,
                                          .events_maxlen = options->events_maxlen,
                                          .key_ttl_seconds = options->key_ttl_seconds,
                                          .hold_bytes = options->hold_bytes};
  self->outbox = outbox_new(self->base, self->log, &outbox_options, &handler, self);
}

static void make_presence(struct agent *self) {
  static const struct presence_handler handler = {
      .is_running = is_running, .over = leave, .failed = on_redis_failed};
  struct presence_context context = {.base = self->base,
                                     .log = self->log,
                                     .options = self->options,
                                     .keys = &self->keys,
                                     .outbox = self->outbox};
  self->presence = presence_new(&context, &handler, self);
}

static void make_worker(struct agent *self, const struct self *process) {
  static const struct worker_handler handler = {.busy = on_worker_busy,
                                                .idle = on_worker_idle,
                                                .shutdown = on_worker_shutdown,
                                                .stopped = on_worker_stopped,
                                                .failed = on_redis_failed};
  (void)snprintf(self->tag, sizeof self->tag, "%d-%lld", (int)getpid(), (long long)clock_unix_ms());
  self->leftovers = leftovers_new(self->base);
  struct worker_context context = {
      .base = self->base,
      .log = self->log,
      .options = self->options,
      .keys = &self->keys,
      .outbox = self->outbox,
      .run = {
          .process = {.base = self->base, .leftovers = self->leftovers, .spawn = process->spawn},
          .job_id = self->options->job_id,
          .environment = environ,
          .agent_tag = self->tag}};
  self->worker = worker_new(&context, &handler, self);
}

static void agent_init(struct agent *self, const struct options *options,
                       const struct self *process, const struct log *log) {
  static const struct signals_handler signals_handler = {.ordered = on_order, .reaped = on_reaped};
  static const struct idle_handler idle_handler = {.is_stuck = is_stuck, .over = on_idle_over};
  *self = (struct agent){.options = options, .log = log, .base = loop_event_base_new()};
  keys_init(&self->keys, options->job_id);
  kill_sequence_init(&self->kill, self->base, &self->everything, on_tree_gone, self);
  signals_init(&self->signals, self->base, process->signal_fd, &signals_handler, self);
  self->drain_limit = loop_timer_new(self->base, on_drain_limit, self);
  self->stop_deadline = loop_timer_new(self->base, on_stop_deadline, self);
  self->idle = idle_new(self->base, log, options, &idle_handler, self);
  make_outbox(self);
  make_presence(self);
  make_worker(self, process);
}

static void agent_release(struct agent *self) {
  worker_free(self->worker);
  idle_free(self->idle);
  presence_free(self->presence);
  outbox_free(self->outbox);
  leftovers_free(self->leftovers);
  kill_sequence_release(&self->kill);
  signals_release(&self->signals);
  event_free(self->drain_limit);
  event_free(self->stop_deadline);
  (void)event_base_loop(self->base, EVLOOP_NONBLOCK); /* what resolvers left behind */
  event_base_free(self->base);
  keys_release(&self->keys);
}

int agent_run(const struct options *options, const struct self *process, const struct log *log) {
  struct agent agent;
  agent_init(&agent, options, process, log);
  outbox_start(agent.outbox);
  worker_begin(agent.worker);
  on_worker_idle(&agent);
  char server[256];
  redis_url_name(&options->redis, server, sizeof server);
  log_line(log, LOG_INFO, NULL, "started: pid %d, redis %s, steps from %s", (int)getpid(), server,
           agent.keys.in);
  (void)event_base_dispatch(agent.base);
  int exit_code = agent.exit_code;
  agent_release(&agent);
  log_line(log, LOG_INFO, NULL, "left with exit code %d", exit_code);
  return exit_code;
}
