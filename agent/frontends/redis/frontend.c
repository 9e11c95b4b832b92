/*
 * A step's way: intake gives it out, the engine runs it, and its answer goes back through intake.
 * If you read advance(), at the end of the first part, you know the frontend.
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
#include "agent/frontends/redis/intake/intake.h"
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
 *   OPEN --close--> DELIVERING --done--> REMOVING_HEARTBEAT --delivered--> CLOSED
 *
 * Done: all is delivered, and the intake has stopped (after a loss of data it compares again).
 * From each of them to CLOSED when Redis is away and nobody waits for it, or when the time is over.
 */
enum closing { OPEN, DELIVERING, REMOVING_HEARTBEAT, CLOSED };

struct redis_frontend {
  struct frontend frontend; /* first */
  struct event_base *base;
  const struct log *log;
  struct redis_frontend_options options;
  struct keys keys;
  struct outbox *outbox;
  struct heartbeat *heartbeat;
  struct status status;
  struct intake *intake;
  struct event *turn;            /* active when something was recorded: advance() */
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
  struct error error;   /* the first that does not pass; "": there was none */
  bool waits_for_redis; /* and that was logged: it could not be reached yet */
};

static struct redis_frontend *self_of(struct frontend *frontend) {
  return (struct redis_frontend *)frontend;
}

/* Something was recorded. */
static void wake(void *owner) {
  struct redis_frontend *self = owner;
  event_active(self->turn, 0, 0);
}

static struct delivery *delivery_of(const struct redis_frontend *self) {
  return self->outbox->delivery;
}

/* --- from the intake to the engine ----------------------------------------------------------- */

static void submit(struct redis_frontend *self, struct held_step *step) {
  self->wanted--;
  self->deferring = kind_of(&step->step)->read_only;
  intake_core_begin(intake_core_of(self->intake), !self->deferring);
  struct request request = {.step = step->step};
  step->step = (struct step){0};
  engine_submit(&self->frontend, &request);
}

static void refuse(struct redis_frontend *self, struct held_step *step) {
  engine_mask_rejected(&self->frontend, step->payload.bytes, step->payload.length, &step->error);
  struct step_result result = step_result_of_agent(step_answer_version(&step->step), step->step_id,
                                                   STEP_CAUSE_REFUSED, step->error.text);
  execution_result_log_refused(self->log, step->step_id, &step->error, step->payload.bytes,
                               step->payload.length);
  intake_core_answer(intake_core_of(self->intake), NULL, &result);
}

/* The next step, if one may begin now. Whatever is no work is a shutdown: a cancel is no step. */
static bool give(struct redis_frontend *self) {
  struct held_step *step = NULL;
  if (self->wanted > 0 && engine_leaving(&self->frontend) == NULL)
    step = intake_core_give(intake_core_of(self->intake));
  if (step == NULL)
    return false;
  if (step->is_refused) {
    refuse(self, step);
  } else if (step_is_work(&step->step)) {
    submit(self, step);
  } else {
    intake_core_answer(intake_core_of(self->intake), NULL, NULL);
    engine_leave(&self->frontend, AGENT_EXIT_SHUTDOWN, "shutdown step");
  }
  return true;
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

static void on_cancel(void *owner, const char *step_id) {
  struct redis_frontend *self = owner;
  (void)engine_cancel(&self->frontend, step_id, "cancelled: by a cancel step");
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
  bool delivered = self->closing >= REMOVING_HEARTBEAT || outbox_is_empty(self->outbox);
  if (!delivered) {
    struct log log = *self->log;
    log.wait_until_ms = clock_monotonic_ms() + UNDELIVERED_LOG_MS;
    log_line(&log, LOG_ERROR, NULL, "what follows did not reach redis, nor did output");
    intake_log_undelivered(self->intake, &log);
  }
  self->closing = CLOSED;
  (void)evtimer_del(self->removal_limit);
  engine_frontend_closed(&self->frontend, delivered ? 0 : AGENT_EXIT_ERROR);
}

/* What the heartbeat has sent does not create the key again: heartbeat.c. Where Redis refused to
   set the key it is not asked to remove it either. */
static void remove_heartbeat(struct redis_frontend *self) {
  bool is_refused = heartbeat_is_refused(self->heartbeat);
  self->closing = REMOVING_HEARTBEAT;
  heartbeat_stop(self->heartbeat);
  if (is_refused) {
    close_now(self);
    return;
  }
  outbox_end(self->outbox);
  loop_timer_start(self->removal_limit, HEARTBEAT_REMOVAL_MS);
}

/* The next step of the end, as far as what is delivered allows it. */
static void go_on_closing(struct redis_frontend *self) {
  if (self->closing == OPEN || self->closing == CLOSED)
    return;
  bool done = outbox_is_empty(self->outbox) && intake_is_stopped(self->intake);
  bool wait = self->close == FRONTEND_CLOSE_GRACEFUL && self->closing == DELIVERING && !done;
  bool lost = delivery_error(delivery_of(self)) != NULL || !delivery_is_owner(delivery_of(self));
  if (lost || (!wait && delivery_is_unreachable(delivery_of(self))))
    close_now(self);
  else if (done && self->closing == DELIVERING)
    remove_heartbeat(self);
  else if (done && self->closing == REMOVING_HEARTBEAT)
    close_now(self);
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
    wake(self);
}

/* An error that does not pass. Only the first is logged as one: what Redis denies to one
   connection, it mostly denies to the others, too. */
static void on_error(void *owner, const struct error *error) {
  struct redis_frontend *self = owner;
  bool is_first = self->error.text[0] == '\0';
  log_line(self->log, is_first ? LOG_ERROR : LOG_DEBUG, NULL, "%s", error->text);
  if (is_first)
    self->error = *error;
  wake(self);
}

/* --- what the outbox says -------------------------------------------------------------------- */

static char *on_ownership_command(void *owner) {
  struct redis_frontend *self = owner;
  return heartbeat_command(self->heartbeat);
}

static void take_ownership(struct redis_frontend *self) {
  (void)evtimer_del(self->connect_limit);
  outbox_refresh(self->outbox);
  heartbeat_start(self->heartbeat);
}

static void start_run(struct redis_frontend *self) {
  struct execution *execution = self->unstarted;
  if (execution == NULL || !outbox_is_empty(self->outbox))
    return;
  self->unstarted = NULL;
  log_line(execution_log(execution), LOG_DEBUG, execution_step(execution)->step_id, "started");
  engine_start(execution);
}

/* A step whose start is not acknowledged may have run before. */
static void recover_from_loss(struct redis_frontend *self) {
  if (intake_lose_data(self->intake) && self->unstarted != NULL)
    engine_stop(self->unstarted, 0, STEP_CAUSE_LOST, intake_lost_result);
}

/* At boot a pod may be there before its Redis. */
static void wait_for_redis(struct redis_frontend *self) {
  int64_t idle_ms = engine_idle_left_ms(&self->frontend);
  struct timeval limit;
  if (self->waits_for_redis || delivery_is_owner(delivery_of(self)))
    return;
  self->waits_for_redis = true;
  if (evtimer_pending(self->connect_limit, &limit))
    log_line(self->log, LOG_WARN, NULL, "waiting for redis, at most %lld s, then exit code 3",
             (long long)(self->options.connect_timeout_ms / 1000));
  else if (idle_ms > 0)
    log_line(self->log, LOG_WARN, NULL,
             "waiting for redis until the idle limit, %lld s from now, then exit code 2",
             (long long)(idle_ms + 500) / 1000);
}

LOOP_CALLBACK(on_connect_limit, struct redis_frontend *self) {
  struct error error;
  (void)error_set(&error, "redis could not be reached within %lld s (--connect-timeout)",
                  (long long)(self->options.connect_timeout_ms / 1000));
  on_error(self, &error);
}

static void fail(struct redis_frontend *self) {
  heartbeat_stop(self->heartbeat); /* nobody knows whose the job is */
  on_error(self, delivery_error(delivery_of(self)));
}

/* A loss comes first: what a delivery means may depend on it. */
static void receive_notifications(struct redis_frontend *self, unsigned news) {
  bool is_open = engine_leaving(&self->frontend) == NULL;
  if ((news & DELIVERY_CONNECTED) != 0 && is_open && !delivery_is_owner(delivery_of(self)))
    intake_prepare(self->intake);
  if ((news & DELIVERY_OWNED) != 0)
    take_ownership(self);
  if ((news & DELIVERY_LOST_DATA) != 0)
    recover_from_loss(self);
  if ((news & DELIVERY_DELIVERED) != 0)
    start_run(self);
  if ((news & DELIVERY_UNREACHABLE) != 0)
    wait_for_redis(self);
  if ((news & DELIVERY_FAILED) != 0)
    fail(self);
}

/*
 * What happens next. It is called once in each turn of the loop in which something was recorded, by
 * a connection or by the engine, and calls both. What these record meanwhile makes the turn active
 * again.
 */
static void advance(struct redis_frontend *self) {
  if (self->closing == CLOSED)
    return;
  unsigned news = delivery_take_news(delivery_of(self));
  receive_notifications(self, news);
  if (self->error.text[0] != '\0')
    engine_leave(&self->frontend, AGENT_EXIT_ERROR, "an error of redis");
  do
    intake_advance(self->intake);
  while (give(self));
  heartbeat_advance(self->heartbeat);
  go_on_closing(self);
  outbox_flush(self->outbox);
  if ((news & DELIVERY_DELIVERED) != 0 && outbox_has_capacity_again(self->outbox) &&
      rate_limit_allows(&self->rate_limit))
    engine_capacity_freed(&self->frontend);
}

LOOP_CALLBACK(on_turn, struct redis_frontend *self) {
  advance(self);
}

/* --- what the heartbeat says ----------------------------------------------------------------- */

static void read_status(struct redis_frontend *self) {
  uint64_t reconnections = delivery_reconnections(delivery_of(self)) +
                           intake_reconnections(self->intake) +
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
  return delivery_check_owner(delivery_of(self), value, length);
}

static void on_message(void *owner, const struct payload *payload) {
  struct redis_frontend *self = owner;
  intake_core_message(intake_core_of(self->intake), payload);
}

/* While Redis is away altogether the write would only be late. The outbox takes one only when the
   one before has arrived. */
static bool on_fallback(void *owner, const char *value, const char *seconds) {
  struct redis_frontend *self = owner;
  bool wrote_before = self->outbox->beat_length > 0;
  if (delivery_is_unreachable(delivery_of(self)) || !outbox_beat(self->outbox, value, seconds))
    return false;
  wake(self);
  return wrote_before;
}

/* Perhaps the outbox's connection is dead, too. */
static void on_silent(void *owner) {
  struct redis_frontend *self = owner;
  delivery_check_ownership(delivery_of(self));
}

/* --- what the engine says -------------------------------------------------------------------- */

static void want(struct frontend *frontend, unsigned requests) {
  struct redis_frontend *self = self_of(frontend);
  if (requests == 0) {
    withdraw_question(self);
    intake_stop(self->intake);
  }
  self->wanted += requests;
  wake(self);
}

static void begin(struct frontend *frontend, struct execution *execution) {
  struct redis_frontend *self = self_of(frontend);
  if (self->deferring) {
    loop_timer_start(self->read_limit, REDIS_FRONTEND_READ_MS);
    engine_start(execution);
    return;
  }
  self->unstarted = execution;
  wake(self);
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
  intake_core_announce(intake_core_of(self->intake));
  outbox_put_deferred(self->outbox);
  wake(self);
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
    wake(self);
  if (self->rate_limit.per_second > 0)
    keep_pace(self);
}

static void result(struct frontend *frontend, const struct execution *execution,
                   const struct execution_result *end) {
  struct redis_frontend *self = self_of(frontend);
  struct step_end answer;
  execution_step_end(execution, end, &answer);
  intake_core_answer(intake_core_of(self->intake), &answer.completed, &answer.result);
  (void)evtimer_del(self->read_limit);
  self->deferring = false;
  self->unstarted = NULL;
}

static void activity(struct frontend *frontend, unsigned running) {
  heartbeat_set_in_flight(self_of(frontend)->heartbeat, running > 0);
}

static void interrupted_ended(struct frontend *frontend) {
  struct redis_frontend *self = self_of(frontend);
  intake_core_interrupted_ended(intake_core_of(self->intake));
  wake(self);
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
  if (!delivery_is_owner(delivery_of(self)))
    engine_leave(frontend, AGENT_EXIT_IDLE, "the idle limit, and redis could not be reached");
  else if (!outbox_is_empty(self->outbox))
    engine_leave(frontend, AGENT_EXIT_ERROR, "the idle limit");
  else if (self->options.run_id == NULL)
    engine_leave(frontend, AGENT_EXIT_IDLE, "the idle limit");
  else
    self->run_alive =
        run_alive_ask(self->base, self->log, self->options.delivery.url,
                      keys_client_name(&self->keys, "guard").text, self->options.run_set,
                      self->options.run_id, on_run_alive, self);
}

static void dump(const struct frontend *frontend) {
  const struct redis_frontend *self = (const struct redis_frontend *)frontend;
  static const char *const closing[] = {"open", "delivering", "ending the heartbeat",
                                        "removing the heartbeat", "closed"};
  log_line(self->log, LOG_WARN, NULL, "state: frontend redis: %s, %s, %zu bytes not acknowledged",
           closing[self->closing],
           !delivery_is_owner(delivery_of(self))        ? "the job is not taken over yet"
           : delivery_is_unreachable(delivery_of(self)) ? "redis is away"
                                                        : "connected",
           self->outbox->send_queue.bytes);
  intake_dump(self->intake);
}

/* --- the frontend itself ---------------------------------------------------------------------- */

static void free_frontend(struct frontend *frontend) {
  struct redis_frontend *self = self_of(frontend);
  withdraw_question(self);
  heartbeat_free(self->heartbeat);
  intake_free(self->intake);
  status_release(&self->status);
  outbox_free(self->outbox);
  event_free(self->turn);
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

static const struct delivery_handler delivery_handler = {.changed = wake,
                                                         .ownership_command = on_ownership_command};

static const struct intake_handler intake_handler = {.changed = wake,
                                                     .arrived = on_arrived,
                                                     .cancel = on_cancel,
                                                     .interrupted = on_interrupted,
                                                     .answered = on_answered,
                                                     .failed = on_error};

static const struct heartbeat_handler heartbeat_handler = {.changed = wake,
                                                           .committed = on_committed,
                                                           .message = on_message,
                                                           .describe = on_describe,
                                                           .fallback = on_fallback,
                                                           .silent = on_silent,
                                                           .failed = on_error};

struct frontend *redis_frontend_new(struct event_base *base, const struct log *log,
                                    const struct redis_frontend_options *options) {
  struct redis_frontend *self = memory_allocate(sizeof *self);
  *self = (struct redis_frontend){
      .frontend = {.type = &redis_frontend_type, .terms = FRONTEND_TERMS_OF_PROTOCOL},
      .base = base,
      .log = log,
      .options = *options};
  keys_init(&self->keys, options->job_id);
  rate_limit_init(&self->rate_limit, options->events_pace, options->delivery.events_maxlen,
                  clock_monotonic_ms());
  self->rate_limit_wait = loop_timer_new(base, on_rate_limit_wait, self);
  self->read_limit = loop_timer_new(base, on_read_limit, self);
  self->removal_limit = loop_timer_new(base, on_removal_limit, self);
  self->connect_limit = loop_timer_new(base, on_connect_limit, self);
  if (options->connect_timeout_ms > 0)
    loop_timer_start(self->connect_limit, options->connect_timeout_ms);
  status_init(&self->status, options->version);
  const struct redis_url *url = options->delivery.url;
  self->turn = loop_timer_new(base, on_turn, self);
  self->outbox =
      outbox_new(base, log, &self->options.delivery, &self->keys, &delivery_handler, self);
  self->intake = intake_new(base, log, url, &self->keys, self->outbox, &intake_handler, self);
  self->heartbeat =
      heartbeat_new(base, log, url, &self->keys, keys_client_name(&self->keys, "heartbeat").text,
                    &intake_core_of(self->intake)->control, &heartbeat_handler, self);
  delivery_start(delivery_of(self));
  char server[256];
  redis_url_name(url, server, sizeof server);
  log_line(log, LOG_INFO, NULL, "started: pid %d, redis %s, steps from %s", (int)getpid(), server,
           self->keys.in);
  return &self->frontend;
}
