/*
 * The state machine that joins the two rooms: what arrives through the intake is run by a step_run,
 * and what that says leaves through the outbox.
 *
 *   STARTING --outbox ready--> IDLE --step--> RUNNING --done--> REPORTING --room--> IDLE …
 *   any of them --shutdown, signal, idle limit, error--> STOPPING --tree gone--> DRAINING -->
 * STOPPED
 *
 * Stopping has an order: no more steps, the running step ends and is answered, what earlier steps
 * left in the background ends, everything is acknowledged.
 */
#include "agent/agent.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/loop_event.h"
#include "agent/redis/intake.h"
#include "agent/redis/outbox.h"
#include "agent/step/kill_sequence.h"
#include "agent/step/step_run.h"
#include "agent/step_log.h"
#include "wire/keys.h"
#include "wire/step.h"

/* From SIGTERM to SIGKILL when the agent is stopped, and for what is left in the background when
   the running step has used that up; and when it leaves whatever happens. An orchestrator gives it
   10 s. */
#define STOP_GRACE_MS 5000
#define STOP_LEFTOVERS_GRACE_MS 1000
#define STOP_DEADLINE_MS 7500

enum state { STARTING, IDLE, RUNNING, REPORTING, STOPPING, DRAINING, STOPPED };

struct agent {
  const struct options *options;
  const struct log *log;
  struct event_base *base;
  struct keys keys;
  struct outbox *outbox;
  struct intake *intake;
  struct step_run_context step_context;
  struct step_run *run; /* NULL when none is in flight */
  uint64_t steps;       /* runs so far */
  char tag[64];
  struct process_tree everything; /* all descendants of this process */
  struct kill_sequence kill;
  struct event *signals;
  struct event *idle_limit;
  struct event *stop_deadline;
  enum state state;
  int exit_code;
  int signal; /* the first one that ordered a stop; 0 for none */
};

static void stop(struct agent *self, int exit_code, const char *reason);

static int64_t idle_limit_ms(const struct agent *self) {
  return (int64_t)self->options->idle_cycles * AGENT_IDLE_CYCLE_SECONDS * 1000;
}

static void leave(struct agent *self) {
  size_t undelivered = outbox_unacknowledged(self->outbox);
  if (undelivered > 0)
    log_line(self->log, LOG_ERROR, NULL, "%zu events and results did not reach redis", undelivered);
  self->state = STOPPED;
  (void)event_base_loopbreak(self->base);
}

/* Everything is ended; what remains is to be acknowledged, as long as there is somebody to do it. A
   shutdown waits for Redis until the idle limit, everything else leaves without it. */
static void drain(struct agent *self) {
  self->state = DRAINING;
  bool patient = self->exit_code == AGENT_EXIT_SHUTDOWN;
  if (outbox_unacknowledged(self->outbox) == 0 || (!patient && outbox_is_gone(self->outbox)))
    leave(self);
}

static void on_tree_gone(void *owner, size_t survivors) {
  struct agent *self = owner;
  if (survivors > 0)
    log_line(self->log, LOG_WARN, NULL, "%zu processes survive SIGKILL", survivors);
  drain(self);
}

/* The idle time goes on where it runs already. */
static void start_idle_time(struct agent *self) {
  if (!evtimer_pending(self->idle_limit, NULL))
    loop_timer_start(self->idle_limit, idle_limit_ms(self));
}

/* Waits for the next step, unless Redis is behind: then the results would pile up. */
static void next_step(struct agent *self) {
  start_idle_time(self);
  self->state = outbox_is_full(self->outbox) ? REPORTING : IDLE;
  if (self->state == IDLE)
    intake_take(self->intake);
}

static void on_run_done(void *owner, const struct step_run_report *report) {
  struct agent *self = owner;
  step_log_done(self->log, step_run_step(self->run), report);
  outbox_result(self->outbox, &report->result);
  outbox_flush(self->outbox);
  step_run_free(self->run);
  self->run = NULL;
  if (self->state == STOPPING)
    kill_sequence_start(&self->kill, STOP_LEFTOVERS_GRACE_MS);
  else
    next_step(self);
}

static void on_run_event(void *owner, const struct step_event *event) {
  static const char *const names[] = {"started", "stdout", "stderr", "completed"};
  struct agent *self = owner;
  outbox_event(self->outbox, event);
  if (self->log->least <= LOG_DEBUG && self->run != NULL)
    log_line(self->log, LOG_DEBUG, step_run_step(self->run)->step_id, "%s: %.*s",
             names[event->kind], (int)event->line_length, event->line);
}

static void on_run_flush(void *owner) {
  struct agent *self = owner;
  outbox_flush(self->outbox);
}

static bool on_run_full(void *owner) {
  const struct agent *self = owner;
  return outbox_is_full(self->outbox);
}

/* Without Redis there may never be room: from here on it is time without a step. */
static void on_run_waits(void *owner) {
  start_idle_time(owner);
}

static void refuse(struct agent *self, const char *step_id, const struct error *error,
                   const char *payload, size_t length) {
  step_log_refused(self->log, step_id, error, payload, length);
  struct step_result result = {.step_id = step_id,
                               .exit_code = -1,
                               .error_message = error->text,
                               .error_message_length = strlen(error->text)};
  outbox_result(self->outbox, &result);
  outbox_flush(self->outbox);
  next_step(self);
}

static void on_step(void *owner, const char *payload, size_t length, bool whole) {
  static const struct step_run_handler handler = {.event = on_run_event,
                                                  .flush = on_run_flush,
                                                  .full = on_run_full,
                                                  .waits = on_run_waits,
                                                  .done = on_run_done};
  struct agent *self = owner;
  struct step step;
  struct error error;
  (void)evtimer_del(self->idle_limit);
  int parsed = step_parse(&step, payload, length, &error);
  /* A large payload takes a while; what is timed from here on starts now. */
  (void)event_base_update_cache_time(self->base);
  if (!whole)
    parsed = error_set(&error, "payload: expected at most %zu bytes", STEP_PAYLOAD_MAX);
  if (parsed != 0) {
    refuse(self, step.step_id, &error, payload, length);
  } else if (step.kind == STEP_SHUTDOWN) {
    stop(self, AGENT_EXIT_SHUTDOWN, "shutdown step");
  } else {
    self->state = RUNNING;
    self->run = step_run_start(&self->step_context, &step, ++self->steps, &handler, self);
    return;
  }
  step_release(&step);
}

static void on_outbox_ready(void *owner) {
  struct agent *self = owner;
  if (self->state == STARTING)
    next_step(self);
}

static void on_outbox_room(void *owner) {
  struct agent *self = owner;
  if (self->run != NULL)
    step_run_resume(self->run);
  else if (self->state == REPORTING)
    next_step(self);
}

static void on_outbox_empty(void *owner) {
  struct agent *self = owner;
  if (self->state == DRAINING)
    leave(self);
}

/* Nobody hears the end of the running step, which may even have to wait for room. */
static void on_outbox_gone(void *owner) {
  struct agent *self = owner;
  if (self->state == STOPPING)
    kill_sequence_start(&self->kill, STOP_GRACE_MS);
  else if (self->state == DRAINING)
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

static void on_idle_limit(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct agent *self = context;
  if (self->state >= STOPPING) {
    self->exit_code = AGENT_EXIT_ERROR;
    leave(self);
    return;
  }
  log_line(self->log, LOG_INFO, NULL, "no step for %lld s",
           (long long)(idle_limit_ms(self) / 1000));
  bool failed = self->state == STARTING || outbox_unacknowledged(self->outbox) > 0;
  stop(self, failed ? AGENT_EXIT_ERROR : AGENT_EXIT_IDLE, "the idle limit");
}

static void on_stop_deadline(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct agent *self = context;
  (void)process_tree_signal(&self->everything, SIGKILL);
  leave(self);
}

static const char *order_name(int signal) {
  return signal == SIGTERM  ? "SIGTERM"
         : signal == SIGINT ? "SIGINT"
         : signal == SIGHUP ? "SIGHUP"
                            : "SIGQUIT";
}

static void on_order(struct agent *self, int signal) {
  if (self->signal != 0) {
    log_line(self->log, LOG_WARN, NULL, "second signal (%s): leaving at once", order_name(signal));
    (void)process_tree_signal(&self->everything, SIGKILL);
    leave(self);
    return;
  }
  self->signal = signal;
  loop_timer_start(self->stop_deadline, STOP_DEADLINE_MS);
  if (self->state < STOPPING)
    stop(self, AGENT_EXIT_SIGNAL + signal, order_name(signal));
  else
    self->exit_code = AGENT_EXIT_SIGNAL + signal;
  if (self->state == DRAINING)
    drain(self); /* a shutdown was more patient */
}

/* Strangers too: orphans come to this process, and in a container it is everybody's last parent. */
static void reap(struct agent *self) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    if (self->run == NULL || !step_run_reaped(self->run, pid, status))
      kill_sequence_orphan_reaped(&self->kill);
}

static void on_signal(evutil_socket_t fd, short what, void *context) {
  (void)what;
  struct agent *self = context;
  struct signalfd_siginfo info;
  while (read((int)fd, &info, sizeof info) == (ssize_t)sizeof info)
    if (info.ssi_signo == SIGCHLD)
      reap(self);
    else
      on_order(self, (int)info.ssi_signo);
}

static void stop(struct agent *self, int exit_code, const char *reason) {
  log_line(self->log, LOG_INFO, NULL, "stopping: %s", reason);
  self->state = STOPPING;
  self->exit_code = exit_code;
  loop_timer_start(self->idle_limit, idle_limit_ms(self));
  intake_stop(self->intake);
  if (self->run != NULL) {
    char text[64];
    (void)snprintf(text, sizeof text, "cancelled: the agent was stopped by %s", reason);
    step_run_stop(self->run, STOP_GRACE_MS, text);
  }
  if (self->run == NULL || outbox_is_gone(self->outbox))
    kill_sequence_start(&self->kill, STOP_GRACE_MS);
}

/* libevent's own warnings are about what is reported here better, and in another form. */
static void ignore_message(int severity, const char *message) {
  (void)severity;
  (void)message;
}

static void connect_rooms(struct agent *self) {
  static const struct outbox_handler outbox_handler = {.ready = on_outbox_ready,
                                                       .room = on_outbox_room,
                                                       .empty = on_outbox_empty,
                                                       .gone = on_outbox_gone,
                                                       .failed = on_redis_failed};
  static const struct intake_handler intake_handler = {.step = on_step, .failed = on_redis_failed};
  const struct options *options = self->options;
  char name[128];
  (void)snprintf(name, sizeof name, "sandbox:%.100s:out", options->job_id);
  struct outbox_options outbox_options = {.url = &options->redis,
                                          .keys = &self->keys,
                                          .name = name,
                                          .events_maxlen = options->events_maxlen,
                                          .hold_bytes = options->hold_bytes};
  self->outbox = outbox_new(self->base, self->log, &outbox_options, &outbox_handler, self);
  (void)snprintf(name, sizeof name, "sandbox:%.100s:in", options->job_id);
  self->intake = intake_new(self->base, self->log, &options->redis, self->keys.in, name,
                            &intake_handler, self);
}

static void agent_init(struct agent *self, const struct options *options,
                       const struct self *process, const struct log *log) {
  event_set_log_callback(ignore_message);
  *self = (struct agent){.options = options, .log = log, .base = loop_event_base_new()};
  keys_init(&self->keys, options->job_id);
  (void)snprintf(self->tag, sizeof self->tag, "%d-%lld", (int)getpid(), (long long)clock_unix_ms());
  self->step_context = (struct step_run_context){.process = {.base = self->base,
                                                             .leftovers = leftovers_new(self->base),
                                                             .spawn = process->spawn},
                                                 .job_id = options->job_id,
                                                 .environment = environ,
                                                 .agent_tag = self->tag};
  kill_sequence_init(&self->kill, self->base, &self->everything, on_tree_gone, self);
  self->signals =
      loop_event_new(self->base, process->signal_fd, EV_READ | EV_PERSIST, on_signal, self);
  self->idle_limit = loop_timer_new(self->base, on_idle_limit, self);
  self->stop_deadline = loop_timer_new(self->base, on_stop_deadline, self);
  connect_rooms(self);
}

static void agent_release(struct agent *self) {
  if (self->run != NULL)
    step_run_free(self->run);
  intake_free(self->intake);
  outbox_free(self->outbox);
  leftovers_free(self->step_context.process.leftovers);
  kill_sequence_release(&self->kill);
  event_free(self->signals);
  event_free(self->idle_limit);
  event_free(self->stop_deadline);
  (void)event_base_loop(self->base, EVLOOP_NONBLOCK); /* what resolvers left behind */
  event_base_free(self->base);
  keys_release(&self->keys);
}

int agent_run(const struct options *options, const struct self *process, const struct log *log) {
  struct agent agent;
  agent_init(&agent, options, process, log);
  char server[256];
  redis_url_name(&options->redis, server, sizeof server);
  log_line(log, LOG_INFO, NULL, "started: pid %d, redis %s, steps from %s", (int)getpid(), server,
           agent.keys.in);
  if (!process_tree_is_known())
    log_line(log, LOG_WARN, NULL,
             "/proc cannot be read: a process that leaves its step's process group is not found");
  start_idle_time(&agent);
  outbox_start(agent.outbox);
  (void)event_base_dispatch(agent.base);
  int exit_code = agent.exit_code;
  agent_release(&agent);
  log_line(log, LOG_INFO, NULL, "left with exit code %d", exit_code);
  return exit_code;
}
