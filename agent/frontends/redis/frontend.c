/*
 * A step's way: intake/ledger.h has it as a table. The window gives a step out, the engine runs it,
 * and its answer goes back through the window.
 */
#include "agent/frontends/redis/frontend.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "agent/frontends/redis/heartbeat/heartbeat.h"
#include "agent/frontends/redis/heartbeat/run_alive.h"
#include "agent/frontends/redis/heartbeat/status.h"
#include "agent/frontends/redis/intake/window.h"
#include "agent/frontends/redis/keys.h"
#include "agent/frontends/redis/rate_limit.h"
#include "agent/kinds/kind.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* How long Redis may take to remove a key that expires by itself. */
#define HEARTBEAT_REMOVAL_MS 2000

/* How long the log's reader may take for all results that are lost. */
#define UNDELIVERED_LOG_MS 2000

/* Output of a step that changes nothing is kept back up to this; with more it is made known. */
#define DEFERRED_MAX ((size_t)64 * 1024)

/*
 * The end, each state after the one before:
 *
 *   OPEN --close--> DELIVERING --done--> ENDING_HEARTBEAT --ended--> REMOVING_HEARTBEAT --> CLOSED
 *
 * Done: all is delivered, and the window has stopped (after a loss of data it reads once more).
 * From each of them to CLOSED when Redis is away and nobody waits for it, or when the time is over.
 */
enum closing { OPEN, DELIVERING, ENDING_HEARTBEAT, REMOVING_HEARTBEAT, CLOSED };

struct redis_frontend {
  struct frontend frontend; /* first */
  struct event_base *base;
  const struct log *log;
  struct redis_frontend_options options;
  struct keys keys;
  struct outbox *outbox;
  struct heartbeat *heartbeat;
  struct status status;
  struct window *window;
  struct run_alive *run_alive;   /* NULL: the question is not open */
  unsigned wanted;               /* requests that the engine takes */
  struct execution *unstarted;   /* its start is not acknowledged; NULL: none */
  bool deferring;                /* its events are kept back */
  struct rate_limit rate_limit;  /* of the events */
  struct event *rate_limit_wait; /* until the pace allows more */
  struct event *read_limit;      /* for a step whose events are kept back */
  enum closing closing;
  enum frontend_close close;
  struct event *removal_limit;
  struct event *connect_limit;
  bool waits_for_redis;   /* and that was logged: it could not be reached yet */
  bool had_error;         /* that does not pass */
  bool failed;            /* nothing more can be delivered */
  bool heartbeat_refused; /* Redis does not take the key */
};

static struct redis_frontend *self_of(struct frontend *frontend) {
  return (struct redis_frontend *)frontend;
}

/* --- from the window to the engine ----------------------------------------------------------- */

static void submit(struct redis_frontend *self, struct claimed_step *step) {
  self->wanted--;
  self->deferring = kind_of(&step->step)->read_only;
  window_begin(self->window, step, !self->deferring);
  struct request request = {.step = step->step, .user_data = step};
  step->step = (struct step){0};
  engine_submit(&self->frontend, &request);
}

static void refuse(struct redis_frontend *self, struct claimed_step *step) {
  engine_mask_rejected(&self->frontend, step->claimed.payload, step->claimed.length, &step->error);
  struct step_result result = step_result_of_agent(step_answer_version(&step->step), step->step_id,
                                                   STEP_CAUSE_REFUSED, step->error.text);
  execution_result_log_refused(self->log, step->step_id, &step->error, step->claimed.payload,
                               step->claimed.length);
  window_answer(self->window, step, NULL, &result);
  outbox_flush(self->outbox);
}

/* What overtakes does not come this way: all that is no work is a shutdown. */
static void shut_down(struct redis_frontend *self, struct claimed_step *step) {
  window_remove(self->window, step);
  outbox_flush(self->outbox);
  engine_leave(&self->frontend, AGENT_EXIT_SHUTDOWN, "shutdown step");
}

static void next(struct redis_frontend *self) {
  struct claimed_step *step;
  while (self->wanted > 0 && engine_leaving(&self->frontend) == NULL &&
         (step = window_take(self->window)) != NULL)
    if (step->refused)
      refuse(self, step);
    else if (step_is_work(&step->step))
      submit(self, step);
    else
      shut_down(self, step);
  window_more(self->window);
}

static void withdraw_question(struct redis_frontend *self) {
  if (self->run_alive != NULL)
    run_alive_cancel(self->run_alive);
  self->run_alive = NULL;
}

static void on_arrived(void *owner) {
  struct redis_frontend *self = owner;
  withdraw_question(self);
  engine_touch(&self->frontend);
}

static bool on_cancel(void *owner, const char *step_id) {
  struct redis_frontend *self = owner;
  return engine_cancel(&self->frontend, step_id, "cancelled: by a cancel step");
}

static void on_answered(void *owner, const struct step_result *result) {
  struct redis_frontend *self = owner;
  status_count(&self->status, result);
}

static bool on_interrupted(void *owner) {
  struct redis_frontend *self = owner;
  return engine_await_dead_agents(&self->frontend);
}

/* --- the end --------------------------------------------------------------------------------- */

static void close_now(struct redis_frontend *self) {
  bool delivered = self->closing >= ENDING_HEARTBEAT || outbox_is_empty(self->outbox);
  if (!delivered) {
    struct log log = *self->log;
    log.wait_until_ms = clock_monotonic_ms() + UNDELIVERED_LOG_MS;
    log_line(&log, LOG_ERROR, NULL, "what follows did not reach redis, nor did output");
    window_log_undelivered(self->window, &log);
  }
  self->closing = CLOSED;
  (void)evtimer_del(self->removal_limit);
  engine_frontend_closed(&self->frontend, delivered ? 0 : AGENT_EXIT_ERROR);
}

static void remove_heartbeat(struct redis_frontend *self) {
  self->closing = REMOVING_HEARTBEAT;
  outbox_end(self->outbox);
  outbox_flush(self->outbox);
}

static void end_heartbeat(struct redis_frontend *self) {
  self->closing = ENDING_HEARTBEAT;
  /* Where Redis refused to set the key it is not asked to remove it either. */
  loop_timer_start(self->removal_limit, self->heartbeat_refused ? 0 : HEARTBEAT_REMOVAL_MS);
  if (!self->heartbeat_refused && heartbeat_end(self->heartbeat))
    remove_heartbeat(self);
}

/* The next step of the end, as far as what is delivered allows it. */
static void go_on_closing(struct redis_frontend *self) {
  if (self->closing == OPEN || self->closing == CLOSED)
    return;
  bool done = outbox_is_empty(self->outbox) && window_is_stopped(self->window);
  bool wait = self->close == FRONTEND_CLOSE_GRACEFUL && self->closing == DELIVERING && !done;
  bool lost = self->failed || !delivery_is_owner(self->outbox->delivery);
  if (lost || (!wait && delivery_is_unreachable(self->outbox->delivery)))
    close_now(self);
  else if (done && self->closing == DELIVERING)
    end_heartbeat(self);
  else if (done && self->closing == REMOVING_HEARTBEAT)
    loop_timer_start_now(self->removal_limit);
}

static void on_changed(void *owner) {
  struct redis_frontend *self = owner;
  next(self);
  go_on_closing(self);
}

LOOP_CALLBACK(on_removal_limit, struct redis_frontend *self) {
  close_now(self);
}

static void close_frontend(struct frontend *frontend, enum frontend_close how) {
  struct redis_frontend *self = self_of(frontend);
  if (self->closing == CLOSED)
    return;
  self->close = how;
  if (self->closing == OPEN)
    self->closing = DELIVERING;
  if (how == FRONTEND_CLOSE_IMMEDIATE)
    close_now(self);
  else
    go_on_closing(self);
}

/* An error that does not pass. Only the first is logged as one: what Redis denies to one
   connection, it mostly denies to the others, too. */
static void on_error(void *owner, const struct error *error) {
  struct redis_frontend *self = owner;
  log_line(self->log, self->had_error ? LOG_DEBUG : LOG_ERROR, NULL, "%s", error->text);
  self->had_error = true;
  engine_leave(&self->frontend, AGENT_EXIT_ERROR, "an error of redis");
  go_on_closing(self);
}

/* --- what the outbox says -------------------------------------------------------------------- */

static void on_connected(void *owner) {
  struct redis_frontend *self = owner;
  if (!delivery_is_owner(self->outbox->delivery) && engine_leaving(&self->frontend) == NULL)
    window_prepare(self->window);
}

static char *on_ownership_command(void *owner) {
  struct redis_frontend *self = owner;
  return heartbeat_command(self->heartbeat);
}

static void on_owned(void *owner) {
  struct redis_frontend *self = owner;
  (void)evtimer_del(self->connect_limit);
  outbox_refresh(self->outbox);
  heartbeat_start(self->heartbeat);
}

static void on_delivered(void *owner) {
  struct redis_frontend *self = owner;
  struct execution *execution = self->unstarted;
  if (execution != NULL && outbox_is_empty(self->outbox)) {
    self->unstarted = NULL;
    log_line(execution_log(execution), LOG_DEBUG, execution_step(execution)->step_id, "started");
    engine_start(execution);
  }
  if (outbox_has_capacity_again(self->outbox) && rate_limit_allows(&self->rate_limit))
    engine_capacity_freed(&self->frontend);
  next(self);
  go_on_closing(self);
}

/* A step whose start is not acknowledged may have run before. */
static void on_lost_data(void *owner) {
  struct redis_frontend *self = owner;
  if (window_forgotten(self->window) && self->unstarted != NULL)
    engine_stop(self->unstarted, 0, STEP_CAUSE_LOST, window_lost_result);
}

/* At boot a pod may be there before its Redis. */
static void wait_for_redis(struct redis_frontend *self) {
  int64_t idle_ms = engine_idle_left_ms(&self->frontend);
  struct timeval limit;
  self->waits_for_redis = true;
  if (evtimer_pending(self->connect_limit, &limit))
    log_line(self->log, LOG_WARN, NULL, "waiting for redis, at most %lld s, then exit code 3",
             (long long)(self->options.connect_timeout_ms / 1000));
  else if (idle_ms > 0)
    log_line(self->log, LOG_WARN, NULL,
             "waiting for redis until the idle limit, %lld s from now, then exit code 2",
             (long long)(idle_ms + 500) / 1000);
}

static void on_unreachable(void *owner) {
  struct redis_frontend *self = owner;
  if (!self->waits_for_redis && !delivery_is_owner(self->outbox->delivery))
    wait_for_redis(self);
  go_on_closing(self);
}

LOOP_CALLBACK(on_connect_limit, struct redis_frontend *self) {
  struct error error;
  (void)error_set(&error, "redis could not be reached within %lld s (--connect-timeout)",
                  (long long)(self->options.connect_timeout_ms / 1000));
  on_error(self, &error);
}

static void on_outbox_failed(void *owner, const struct error *error) {
  struct redis_frontend *self = owner;
  self->failed = true;
  heartbeat_stop(self->heartbeat); /* nobody knows whose the job is */
  on_error(self, error);
}

/* --- what the heartbeat says ----------------------------------------------------------------- */

static void read_status(struct redis_frontend *self) {
  uint64_t reconnections = delivery_reconnections(self->outbox->delivery) +
                           window_reconnections(self->window) +
                           heartbeat_reconnections(self->heartbeat);
  /* The start does not wait for the container's figures: the second heartbeat follows soon. */
  status_read(&self->status, self->status.written > 0 ? cgroup_own() : NULL,
              self->outbox->send_queue.bytes, reconnections);
}

static void on_describe(void *owner, struct buffer *out) {
  struct redis_frontend *self = owner;
  if (status_is_due(&self->status))
    read_status(self);
  status_write(&self->status, out);
}

static bool on_committed(void *owner, const char *value, size_t length) {
  struct redis_frontend *self = owner;
  return delivery_check_owner(self->outbox->delivery, value, length);
}

/* While Redis is away altogether the write would only be late. The outbox takes one only when the
   one before has arrived. */
static bool on_fallback(void *owner, const char *value, const char *seconds) {
  struct redis_frontend *self = owner;
  bool wrote_before = self->outbox->beat_length > 0;
  if (delivery_is_unreachable(self->outbox->delivery) || !outbox_beat(self->outbox, value, seconds))
    return false;
  outbox_flush(self->outbox);
  return wrote_before;
}

/* Perhaps the outbox's connection is dead, too. */
static void on_silent(void *owner) {
  struct redis_frontend *self = owner;
  delivery_check_ownership(self->outbox->delivery);
}

/* The frontend may be closed by then: without a connection nothing is waited for. */
static void on_heartbeat_ended(void *owner) {
  struct redis_frontend *self = owner;
  if (self->closing == ENDING_HEARTBEAT)
    remove_heartbeat(self);
}

static void on_heartbeat_failed(void *owner, const struct error *error) {
  struct redis_frontend *self = owner;
  self->heartbeat_refused = true;
  on_error(self, error);
}

/* --- what the engine says -------------------------------------------------------------------- */

static void want(struct frontend *frontend, unsigned requests) {
  struct redis_frontend *self = self_of(frontend);
  if (requests == 0) {
    withdraw_question(self);
    window_stop(self->window);
    return;
  }
  self->wanted += requests;
  next(self);
}

static void begin(struct frontend *frontend, struct execution *execution) {
  struct redis_frontend *self = self_of(frontend);
  if (self->deferring) {
    loop_timer_start(self->read_limit, REDIS_FRONTEND_READ_MS);
    engine_start(execution);
    return;
  }
  self->unstarted = execution;
  outbox_flush(self->outbox);
}

static size_t capacity(const struct frontend *frontend) {
  const struct redis_frontend *self = (const struct redis_frontend *)frontend;
  return rate_limit_allows(&self->rate_limit) ? outbox_capacity(self->outbox) : 0;
}

/* Executions that found no capacity because of the rate limit are woken, even if it allows more by
   now. */
static void keep_pace(struct redis_frontend *self) {
  bool allowed = rate_limit_allows(&self->rate_limit);
  rate_limit_refill(&self->rate_limit, clock_monotonic_ms());
  if (!allowed)
    loop_timer_start(self->rate_limit_wait, rate_limit_wait_ms(&self->rate_limit));
}

LOOP_CALLBACK(on_rate_limit_wait, struct redis_frontend *self) {
  rate_limit_refill(&self->rate_limit, clock_monotonic_ms());
  if (rate_limit_allows(&self->rate_limit))
    engine_capacity_freed(&self->frontend);
  else
    loop_timer_start(self->rate_limit_wait, rate_limit_wait_ms(&self->rate_limit));
}

/* From here on the step is like every other: an agent after this one does not run it again. */
static void make_known(struct redis_frontend *self) {
  self->deferring = false;
  (void)evtimer_del(self->read_limit);
  window_announce(self->window);
  outbox_put_deferred(self->outbox);
  outbox_flush(self->outbox);
}

LOOP_CALLBACK(on_read_limit, struct redis_frontend *self) {
  make_known(self);
}

static void event(struct frontend *frontend, const struct execution *execution,
                  const struct step_event *event) {
  struct redis_frontend *self = self_of(frontend);
  (void)execution;
  rate_limit_take(&self->rate_limit);
  if (!self->deferring)
    outbox_event(self->outbox, event);
  else if (outbox_defer_event(self->outbox, event) > DEFERRED_MAX)
    make_known(self);
}

static void flush(struct frontend *frontend) {
  struct redis_frontend *self = self_of(frontend);
  if (!self->deferring)
    outbox_flush(self->outbox);
  if (self->rate_limit.per_second > 0)
    keep_pace(self);
}

static void result(struct frontend *frontend, const struct execution *execution,
                   const struct execution_result *end) {
  struct redis_frontend *self = self_of(frontend);
  struct step_end answer;
  execution_step_end(execution, end, &answer);
  window_answer(self->window, execution_user_data(execution), &answer.completed, &answer.result);
  (void)evtimer_del(self->read_limit);
  self->deferring = false;
  self->unstarted = NULL;
}

static void activity(struct frontend *frontend, unsigned running) {
  heartbeat_set_in_flight(self_of(frontend)->heartbeat, running > 0);
}

static void interrupted_ended(struct frontend *frontend) {
  window_interrupted_ended(self_of(frontend)->window);
}

static void on_run_alive(void *owner, enum run_alive_answer answer, const char *why) {
  struct redis_frontend *self = owner;
  const char *execution = self->options.run_id;
  self->run_alive = NULL;
  if (answer == RUN_ALIVE_YES) {
    log_line(self->log, LOG_INFO, NULL, "run %.200s is alive: waiting on", execution);
    engine_wait_on(&self->frontend, 0);
    return;
  }
  if (answer == RUN_ALIVE_UNKNOWN) {
    log_line(self->log, LOG_WARN, NULL, "whether run %.200s is in %.200s is not known: %s",
             execution, self->options.run_set, why);
    engine_wait_on(&self->frontend, self->options.idle_cycle_ms);
    return;
  }
  log_line(self->log, LOG_INFO, NULL, "run %.200s is not in %.200s", execution,
           self->options.run_set);
  engine_leave(&self->frontend, AGENT_EXIT_IDLE, "the idle limit");
}

/* A Redis that does not take what is held is an error; nobody is asked then. */
static void idle(struct frontend *frontend) {
  struct redis_frontend *self = self_of(frontend);
  if (!delivery_is_owner(self->outbox->delivery))
    engine_leave(frontend, AGENT_EXIT_IDLE, "the idle limit, and redis could not be reached");
  else if (!outbox_is_empty(self->outbox))
    engine_leave(frontend, AGENT_EXIT_ERROR, "the idle limit");
  else if (self->options.run_id == NULL)
    engine_leave(frontend, AGENT_EXIT_IDLE, "the idle limit");
  else
    self->run_alive = run_alive_ask(
        self->base, self->log, self->options.url, keys_client_name(&self->keys, "guard").text,
        self->options.run_set, self->options.run_id, on_run_alive, self);
}

static void dump(const struct frontend *frontend) {
  const struct redis_frontend *self = (const struct redis_frontend *)frontend;
  static const char *const closing[] = {"open", "delivering", "ending the heartbeat",
                                        "removing the heartbeat", "closed"};
  log_line(self->log, LOG_WARN, NULL, "state: frontend redis: %s, %s, %zu bytes not acknowledged",
           closing[self->closing],
           !delivery_is_owner(self->outbox->delivery)        ? "the job is not taken over yet"
           : delivery_is_unreachable(self->outbox->delivery) ? "redis is away"
                                                             : "connected",
           self->outbox->send_queue.bytes);
  window_dump(self->window);
}

/* --- the frontend itself ---------------------------------------------------------------------- */

static void free_frontend(struct frontend *frontend) {
  struct redis_frontend *self = self_of(frontend);
  withdraw_question(self);
  window_free(self->window);
  heartbeat_free(self->heartbeat);
  status_release(&self->status);
  outbox_free(self->outbox);
  event_free(self->rate_limit_wait);
  event_free(self->read_limit);
  event_free(self->removal_limit);
  event_free(self->connect_limit);
  keys_release(&self->keys);
  free(self);
}

static const struct frontend_type redis_frontend_type = {.name = "redis",
                                                         .want = want,
                                                         .begin = begin,
                                                         .capacity = capacity,
                                                         .event = event,
                                                         .flush = flush,
                                                         .result = result,
                                                         .activity = activity,
                                                         .interrupted_ended = interrupted_ended,
                                                         .idle = idle,
                                                         .close = close_frontend,
                                                         .dump = dump,
                                                         .free = free_frontend};

static const struct delivery_handler delivery_handler = {.connected = on_connected,
                                                         .ownership_command = on_ownership_command,
                                                         .owned = on_owned,
                                                         .delivered = on_delivered,
                                                         .lost_data = on_lost_data,
                                                         .unreachable = on_unreachable,
                                                         .failed = on_outbox_failed};

static const struct window_handler window_handler = {.arrived = on_arrived,
                                                     .cancel = on_cancel,
                                                     .interrupted = on_interrupted,
                                                     .changed = on_changed,
                                                     .answered = on_answered,
                                                     .failed = on_error};

static const struct heartbeat_handler heartbeat_handler = {.committed = on_committed,
                                                           .describe = on_describe,
                                                           .fallback = on_fallback,
                                                           .silent = on_silent,
                                                           .ended = on_heartbeat_ended,
                                                           .failed = on_heartbeat_failed};

struct frontend *redis_frontend_new(struct event_base *base, const struct log *log,
                                    const struct redis_frontend_options *options) {
  struct redis_frontend *self = memory_allocate(sizeof *self);
  *self = (struct redis_frontend){
      .frontend = {.type = &redis_frontend_type, .terms = FRONTEND_TERMS_OF_PROTOCOL},
      .base = base,
      .log = log,
      .options = *options};
  keys_init(&self->keys, options->job_id);
  rate_limit_init(&self->rate_limit, options->events_pace, options->events_maxlen,
                  clock_monotonic_ms());
  self->rate_limit_wait = loop_timer_new(base, on_rate_limit_wait, self);
  self->read_limit = loop_timer_new(base, on_read_limit, self);
  self->removal_limit = loop_timer_new(base, on_removal_limit, self);
  self->connect_limit = loop_timer_new(base, on_connect_limit, self);
  if (options->connect_timeout_ms > 0)
    loop_timer_start(self->connect_limit, options->connect_timeout_ms);
  status_init(&self->status, options->version);
  self->outbox = outbox_new(base, log, &self->options, &self->keys, &delivery_handler, self);
  self->window =
      window_new(base, log, options->url, &self->keys, self->outbox, &window_handler, self);
  self->heartbeat =
      heartbeat_new(base, log, options->url, &self->keys,
                    keys_client_name(&self->keys, "heartbeat").text, &heartbeat_handler, self);
  delivery_start(self->outbox->delivery);
  char server[256];
  redis_url_name(options->url, server, sizeof server);
  log_line(log, LOG_INFO, NULL, "started: pid %d, redis %s, steps from %s", (int)getpid(), server,
           self->keys.in);
  return &self->frontend;
}
