/*
 * Connects the engine with intake, outbox and heartbeat. Intake acquires a step, the engine
 * executes it, and its result goes back through intake into the outbox. Start reading at advance().
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
#include "wire/features.h"

/* How long the agent waits for Redis to delete the heartbeat key, which expires anyway. */
#define HEARTBEAT_REMOVAL_MS 2000

/* How long the agent waits for the reader of its log when it logs results that are lost. */
#define UNDELIVERED_LOG_MS 2000

/* The most bytes of deferred events of a read-only step. With more, its start is announced. */
#define DEFERRED_MAX ((size_t)64 * 1024)

/*
 * The states of the end:
 *
 *   OPEN --close()--> DELIVERING --done--> REMOVING_HEARTBEAT --delivered--> CLOSED
 *
 * "Done" means that everything is delivered and intake has stopped. (After a loss of data, intake
 * compares its steps with Redis first.) Any state is followed by CLOSED if Redis is unreachable and
 * the close is not graceful, or if the time limit is reached.
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
  struct event *turn;            /* active if something was recorded; calls advance() */
  struct run_alive *run_alive;   /* the query under way at the idle limit; NULL: none */
  unsigned wanted;               /* how many more requests the engine accepts */
  struct execution *unstarted;   /* the execution whose start is not acknowledged; NULL: none */
  bool is_freed;                 /* the reader of the execution's events has let it continue */
  bool deferring;                /* the events of the execution are deferred */
  struct rate_limit rate_limit;  /* of events */
  struct event *rate_limit_wait; /* fires when the rate limit may allow more events */
  struct event *read_limit;      /* fires when a read-only step has taken too long */
  enum closing closing;
  enum frontend_close close;
  struct event *removal_limit;
  struct event *connect_limit;
  struct error error;   /* the first permanent error; its text is empty if there was none */
  bool waits_for_redis; /* the wait for Redis at startup was logged */
};

static struct redis_frontend *self_of(struct frontend *frontend) {
  return (struct redis_frontend *)frontend;
}

/* Schedules advance(), because something was recorded. */
static void wake(void *owner) {
  struct redis_frontend *self = owner;
  event_active(self->turn, 0, 0);
}

static struct delivery *delivery_of(const struct redis_frontend *self) {
  return self->outbox->delivery;
}

/* --- from intake to the engine --------------------------------------------------------------- */

static void submit(struct redis_frontend *self, struct queued_step *step) {
  self->wanted--;
  self->deferring = kind_of(&step->step)->read_only;
  intake_start_step(self->intake, !self->deferring);
  struct request request = {.step = step->step};
  step->step = (struct step){0};
  engine_submit(&self->frontend, &request);
}

static void reject(struct redis_frontend *self, struct queued_step *step) {
  engine_mask_rejected(&self->frontend, step->payload.bytes, step->payload.length, &step->error);
  struct step_result result = step_result_of_agent(step_answer_version(&step->step), step->step_id,
                                                   STEP_CAUSE_REFUSED, step->error.text);
  execution_result_log_refused(self->log, step->step_id, &step->error, step->payload.bytes,
                               step->payload.length);
  intake_finish_step(self->intake, NULL, &result);
}

/* Processes the next step, if one may begin now. Returns false if there is none. A step that is not
   work is a shutdown, because intake handles cancels. */
static bool process_next_step(struct redis_frontend *self) {
  struct queued_step *step = NULL;
  if (self->wanted > 0 && engine_leaving(&self->frontend) == NULL)
    step = intake_next_step(self->intake);
  if (step == NULL)
    return false;
  if (step->is_rejected) {
    reject(self, step);
  } else if (step_is_work(&step->step)) {
    submit(self, step);
  } else {
    intake_finish_step(self->intake, NULL, NULL);
    engine_leave(&self->frontend, AGENT_EXIT_SHUTDOWN, "shutdown step");
  }
  return true;
}

static void cancel_run_query(struct redis_frontend *self) {
  if (self->run_alive != NULL)
    run_alive_cancel(self->run_alive);
  self->run_alive = NULL;
}

static void on_arrived(void *owner) {
  struct redis_frontend *self = owner;
  cancel_run_query(self);
  engine_touch(&self->frontend);
}

static void on_cancel(void *owner, const char *step_id) {
  struct redis_frontend *self = owner;
  (void)engine_cancel(&self->frontend, step_id, "cancelled: by a cancel step");
}

/* The reader of a step gave a sign, or was awaited for too long. */
static void free_capacity(struct redis_frontend *self) {
  self->is_freed = true;
  wake(self);
}

static void on_read(void *owner, const char *step_id, uint64_t seq) {
  struct redis_frontend *self = owner;
  flow_control_read(&self->outbox->flow, step_id, seq, clock_monotonic_ms());
  free_capacity(self);
}

static void on_answered(void *owner, const struct step_result *result) {
  struct redis_frontend *self = owner;
  step_counts_add(&self->status.steps, result);
}

static bool on_interrupted(void *owner) {
  struct redis_frontend *self = owner;
  return engine_await_dead_agents(&self->frontend);
}

/* --- the end --------------------------------------------------------------------------------- */

static void log_undelivered(void *owner, const char *json, size_t length) {
  log_line(owner, LOG_ERROR, NULL, "undelivered result: %.*s", (int)length, json);
}

static void close_now(struct redis_frontend *self) {
  bool delivered = self->closing >= REMOVING_HEARTBEAT || outbox_is_empty(self->outbox);
  if (!delivered) {
    struct log log = *self->log;
    log.wait_until_ms = clock_monotonic_ms() + UNDELIVERED_LOG_MS;
    log_line(&log, LOG_ERROR, NULL,
             "the following results did not reach redis, and output may be missing");
    outbox_for_each(self->outbox, "LPUSH", self->keys.results, log_undelivered, &log);
  }
  self->closing = CLOSED;
  (void)evtimer_del(self->removal_limit);
  engine_frontend_closed(&self->frontend, delivered ? 0 : AGENT_EXIT_ERROR);
}

/* A SET that the heartbeat has sent does not create the key again; see heartbeat.c. */
static void remove_heartbeat(struct redis_frontend *self) {
  self->closing = REMOVING_HEARTBEAT;
  heartbeat_stop(self->heartbeat);
  outbox_end(self->outbox);
  loop_timer_start(self->removal_limit, HEARTBEAT_REMOVAL_MS);
}

/* Moves to the next state of the end, if its condition holds. */
static void advance_closing(struct redis_frontend *self) {
  if (self->closing == OPEN || self->closing == CLOSED)
    return;
  bool done = outbox_is_empty(self->outbox) && self->intake->state == INTAKE_STOPPED;
  bool wait = self->close == FRONTEND_CLOSE_GRACEFUL && self->closing == DELIVERING && !done;
  bool lost = delivery_error(delivery_of(self)) != NULL || !delivery_is_owner(delivery_of(self));
  bool removed = done && self->closing == REMOVING_HEARTBEAT;
  if (lost || removed || (!wait && delivery_is_unreachable(delivery_of(self))))
    close_now(self);
  else if (done)
    remove_heartbeat(self);
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

/* Records a permanent error. Only the first is logged as an error, because Redis usually rejects
   the other connections for the same reason. */
static void on_error(void *owner, const struct error *error) {
  struct redis_frontend *self = owner;
  bool is_first = self->error.text[0] == '\0';
  log_line(self->log, is_first ? LOG_ERROR : LOG_DEBUG, NULL, "%s", error->text);
  if (is_first)
    self->error = *error;
  wake(self);
}

/* --- notifications of the delivery ----------------------------------------------------------- */

/* Redis may be another server than before, with other rights. */
static void announce_features(struct redis_frontend *self) {
  const char *without[3] = {NULL};
  size_t count = 0;
  if (!delivery_offers(delivery_of(self), DELIVERY_REPLY_TO))
    without[count++] = FEATURE_REPLY_TO;
  if (!delivery_offers(delivery_of(self), DELIVERY_FLOW_CONTROL))
    without[count++] = FEATURE_FLOW_CONTROL;
  struct buffer abilities = {0};
  engine_add_abilities(&self->frontend, "Landlock", "Enforces", &abilities);
  status_announce(&self->status, self->options.version, without, &abilities);
  buffer_release(&abilities);
}

static char *on_ownership_command(void *owner) {
  struct redis_frontend *self = owner;
  announce_features(self);
  return heartbeat_command(self->heartbeat);
}

static void take_ownership(struct redis_frontend *self) {
  (void)evtimer_del(self->connect_limit);
  outbox_refresh(self->outbox);
  heartbeat_start(self->heartbeat);
}

static void start_execution(struct redis_frontend *self) {
  struct execution *execution = self->unstarted;
  if (execution == NULL || !outbox_is_empty(self->outbox))
    return;
  self->unstarted = NULL;
  log_line(execution_log(execution), LOG_DEBUG, execution_step(execution)->step_id, "started");
  engine_start(execution);
}

/* A step whose start is not acknowledged may have run before, if its id is that of an earlier
   step. */
static void recover_from_loss(struct redis_frontend *self) {
  outbox_lose_data(self->outbox);
  if (intake_lose_data(self->intake) && self->unstarted != NULL)
    engine_stop(self->unstarted, 0, STEP_CAUSE_LOST, intake_lost_message);
}

/* Logs once at startup that Redis is unreachable: a pod may start before its Redis. */
static void log_wait_for_redis(struct redis_frontend *self) {
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
  heartbeat_stop(self->heartbeat); /* it is unknown which agent owns the job */
  on_error(self, delivery_error(delivery_of(self)));
}

/* A loss of data comes before a delivery: it may stop the execution that the delivery would
   start. */
static void handle_notifications(struct redis_frontend *self, unsigned notifications) {
  bool is_open = engine_leaving(&self->frontend) == NULL;
  if ((notifications & DELIVERY_CONNECTED) != 0)
    announce_features(self);
  if ((notifications & DELIVERY_CONNECTED) != 0 && is_open && !delivery_is_owner(delivery_of(self)))
    consumer_prepare(self->intake->consumer);
  if ((notifications & DELIVERY_OWNED) != 0)
    take_ownership(self);
  if ((notifications & DELIVERY_LOST_DATA) != 0)
    recover_from_loss(self);
  if ((notifications & DELIVERY_DELIVERED) != 0)
    start_execution(self);
  if ((notifications & DELIVERY_UNREACHABLE) != 0)
    log_wait_for_redis(self);
  if ((notifications & DELIVERY_FAILED) != 0)
    fail(self);
}

/*
 * Decides what happens next. It runs once in each loop iteration in which a connection or the
 * engine has recorded something, and calls both. If they record something meanwhile, it runs again
 * in the next iteration.
 */
static void advance(struct redis_frontend *self) {
  if (self->closing == CLOSED)
    return;
  unsigned notifications = delivery_take_notifications(delivery_of(self));
  handle_notifications(self, notifications);
  if (self->error.text[0] != '\0')
    engine_leave(&self->frontend, AGENT_EXIT_ERROR, "an error of redis");
  do
    intake_advance(self->intake);
  while (process_next_step(self));
  heartbeat_advance(self->heartbeat);
  advance_closing(self);
  outbox_flush(self->outbox);
  bool is_freed = self->is_freed || ((notifications & DELIVERY_DELIVERED) != 0 &&
                                     outbox_has_capacity_again(self->outbox));
  self->is_freed = false;
  if (is_freed && rate_limit_allows(&self->rate_limit))
    engine_capacity_freed(&self->frontend);
}

LOOP_CALLBACK(on_turn, struct redis_frontend *self) {
  advance(self);
}

/* --- callbacks of the heartbeat -------------------------------------------------------------- */

static void on_describe(void *owner, struct buffer *out) {
  struct redis_frontend *self = owner;
  uint64_t reconnections = delivery_reconnections(delivery_of(self)) +
                           consumer_reconnections(self->intake->consumer) +
                           heartbeat_reconnections(self->heartbeat);
  static const struct status_sources sources = {cgroup_own, kind_default_directory};
  status_write(&self->status, &sources, self->outbox->send_queue.bytes, reconnections, out);
}

static void on_checked(void *owner, int64_t began_ms, bool is_first) {
  struct redis_frontend *self = owner;
  bool was_paused = flow_control_is_paused(&self->outbox->flow);
  flow_control_checked(&self->outbox->flow, began_ms, is_first, clock_monotonic_ms());
  if (was_paused && !flow_control_is_paused(&self->outbox->flow)) {
    log_line(self->log, LOG_WARN, NULL,
             "the reader of the running step sends no control messages; the step continues "
             "without it, and events may be trimmed before they are read");
    free_capacity(self);
  }
}

static void on_message(void *owner, const struct payload *payload) {
  struct redis_frontend *self = owner;
  intake_message(self->intake, payload);
}

/* --- calls of the engine --------------------------------------------------------------------- */

static void want(struct frontend *frontend, unsigned requests) {
  struct redis_frontend *self = self_of(frontend);
  if (requests == 0) {
    cancel_run_query(self);
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
  outbox_flush(self->outbox);
}

static size_t capacity(const struct frontend *frontend) {
  const struct redis_frontend *self = (const struct redis_frontend *)frontend;
  bool waits = !rate_limit_allows(&self->rate_limit) || flow_control_is_paused(&self->outbox->flow);
  return waits ? 0 : outbox_capacity(self->outbox);
}

static void ending(struct frontend *frontend, struct execution *execution, bool is_over) {
  struct redis_frontend *self = self_of(frontend);
  (void)execution;
  flow_control_drain(&self->outbox->flow, is_over);
  free_capacity(self);
}

/* Refills the bucket. If it was empty, an execution may have found no capacity and must be woken
   later, even if the bucket has tokens now. */
static void refill_rate_limit(struct redis_frontend *self) {
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

/* Ends the exception for a read-only step: its start is written, so that a later agent does not run
   it again. */
static void announce_start(struct redis_frontend *self) {
  self->deferring = false;
  (void)evtimer_del(self->read_limit);
  intake_announce_start(self->intake);
  outbox_add_deferred(self->outbox);
  wake(self);
}

LOOP_CALLBACK(on_read_limit, struct redis_frontend *self) {
  announce_start(self);
}

static void event(struct frontend *frontend, const struct execution *execution,
                  const struct step_event *event) {
  struct redis_frontend *self = self_of(frontend);
  const struct step *step = execution_step(execution);
  if (event->kind == STEP_EVENT_STARTED && step->flow_control &&
      self->options.delivery.events_maxlen > 0 &&
      delivery_offers(delivery_of(self), DELIVERY_FLOW_CONTROL))
    flow_control_begin(&self->outbox->flow, step->step_id, clock_monotonic_ms());
  rate_limit_take(&self->rate_limit);
  if (!self->deferring)
    outbox_add_event(self->outbox, event);
  else if (outbox_defer_event(self->outbox, event) > DEFERRED_MAX)
    announce_start(self);
}

static void flush(struct frontend *frontend) {
  struct redis_frontend *self = self_of(frontend);
  if (!self->deferring)
    wake(self);
  if (self->rate_limit.per_second > 0)
    refill_rate_limit(self);
}

static void result(struct frontend *frontend, const struct execution *execution,
                   const struct execution_result *end) {
  struct redis_frontend *self = self_of(frontend);
  struct step_end answer;
  execution_step_end(execution, end, &answer);
  intake_finish_step(self->intake, &answer.completed, &answer.result);
  flow_control_end(&self->outbox->flow, clock_monotonic_ms());
  (void)evtimer_del(self->read_limit);
  self->deferring = false;
  self->unstarted = NULL;
}

static void activity(struct frontend *frontend, unsigned running) {
  heartbeat_set_in_flight(self_of(frontend)->heartbeat, running > 0);
}

static void interrupted_ended(struct frontend *frontend) {
  struct redis_frontend *self = self_of(frontend);
  intake_interrupted_ended(self->intake);
  wake(self);
}

static void on_run_alive(void *owner, enum run_alive_answer answer, const char *why) {
  struct redis_frontend *self = owner;
  const char *execution = self->options.run_id;
  self->run_alive = NULL;
  if (answer == RUN_ALIVE_YES) {
    log_line(self->log, LOG_INFO, NULL, "run %.200s is alive: continuing to wait", execution);
    engine_wait_on(&self->frontend, 0);
    return;
  }
  if (answer == RUN_ALIVE_UNKNOWN) {
    log_line(self->log, LOG_WARN, NULL, "cannot find out whether run %.200s is in %.200s: %s",
             execution, self->options.run_set, why);
    engine_wait_on(&self->frontend, self->options.idle_cycle_ms);
    return;
  }
  log_line(self->log, LOG_INFO, NULL, "run %.200s is not in %.200s", execution,
           self->options.run_set);
  engine_leave(&self->frontend, AGENT_EXIT_IDLE, "the idle limit");
}

/* It is an error if Redis has not accepted all output by then. */
static void idle(struct frontend *frontend) {
  struct redis_frontend *self = self_of(frontend);
  if (!delivery_is_owner(delivery_of(self)))
    engine_leave(frontend, AGENT_EXIT_UNREACHED, "the idle limit, and redis could not be reached");
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
  static const char *const closing[] = {"open", "delivering", "removing the heartbeat", "closed"};
  log_line(self->log, LOG_WARN, NULL, "state: frontend redis: %s, %s, %zu bytes not acknowledged",
           closing[self->closing],
           !delivery_is_owner(delivery_of(self))        ? "the job is not taken over yet"
           : delivery_is_unreachable(delivery_of(self)) ? "redis is unreachable"
                                                        : "connected",
           self->outbox->send_queue.bytes);
  intake_dump(self->intake);
}

/* --- the frontend itself ---------------------------------------------------------------------- */

static void free_frontend(struct frontend *frontend) {
  struct redis_frontend *self = self_of(frontend);
  cancel_run_query(self);
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
                                                         .ending = ending,
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
                                                     .read = on_read,
                                                     .interrupted = on_interrupted,
                                                     .answered = on_answered,
                                                     .failed = on_error};

static const struct heartbeat_handler heartbeat_handler = {.changed = wake,
                                                           .message = on_message,
                                                           .checked = on_checked,
                                                           .describe = on_describe,
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
  const struct redis_url *url = options->delivery.url;
  self->turn = loop_timer_new(base, on_turn, self);
  self->outbox =
      outbox_new(base, log, &self->options.delivery, &self->keys, &delivery_handler, self);
  self->intake = intake_new(base, log, url, &self->keys, self->outbox, &intake_handler, self);
  self->heartbeat =
      heartbeat_new(base, log, url, &self->keys, keys_client_name(&self->keys, "heartbeat").text,
                    self->outbox, &self->intake->control, &heartbeat_handler, self);
  delivery_start(delivery_of(self));
  char server[256];
  redis_url_name(url, server, sizeof server);
  log_line(log, LOG_INFO, NULL, "started: pid %d, redis %s, steps from %s", (int)getpid(), server,
           self->keys.in);
  return &self->frontend;
}
