/*
 * A step's way: claimed (it lies in `inflight`, and waits in the prefetch), begun (that it was
 * started is on its way to Redis), started (that is acknowledged, and it executes), answered (its
 * result, and its removal from `inflight`, are on their way).
 */
#include "agent/doors/redis/door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/doors/redis/heartbeat.h"
#include "agent/doors/redis/in/prefetch.h"
#include "agent/doors/redis/in/recent_steps.h"
#include "agent/doors/redis/in/reconcile.h"
#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/out/outbox.h"
#include "agent/doors/redis/run_guard.h"
#include "agent/engine/engine.h"
#include "agent/engine/run_log.h"
#include "agent/exit_code.h"
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
 *   OPEN --close--> DELIVERING --empty--> ENDING_HEARTBEAT --ended--> REMOVING_HEARTBEAT --> CLOSED
 *
 * From each of them to CLOSED when Redis is away and nobody waits for it, or when the time is over.
 */
enum closing { OPEN, DELIVERING, ENDING_HEARTBEAT, REMOVING_HEARTBEAT, CLOSED };

struct redis_door {
  struct door door; /* first */
  struct event_base *base;
  const struct log *log;
  struct redis_door_options options;
  struct keys keys;
  struct outbox *outbox;
  struct heartbeat *heartbeat;
  struct prefetch *prefetch;
  struct recent_steps recent_steps;
  struct reconcile reconcile;
  struct run_guard *run_guard;  /* NULL: the question is not open */
  unsigned wanted;              /* requests that the engine takes */
  const struct queued *current; /* the step that is run; NULL: none */
  struct run *unstarted;        /* its start is not acknowledged; NULL: none */
  bool deferring;               /* its events are kept back */
  struct event *read_limit;     /* for a step whose events are kept back */
  enum closing closing;
  enum door_close close;
  struct event *removal_limit;
  bool failed;            /* nothing more can be delivered */
  bool heartbeat_refused; /* Redis does not take the key */
  bool wrote_fallback;    /* the outbox has written the heartbeat once */
};

static const char lost_result[] = "lost: the step has run, and redis has lost its result";

static struct redis_door *self_of(struct door *door) {
  return (struct redis_door *)door;
}

static const struct redis_door *const_self_of(const struct door *door) {
  return (const struct redis_door *)door;
}

static void next(struct redis_door *self);

/* --- answers of the door's own --------------------------------------------------------------- */

static void answer(struct redis_door *self, const char *step_id, const char *message,
                   int64_t events, const struct taken *taken, bool started) {
  struct step_result result = {.step_id = step_id,
                               .exit_code = -1,
                               .error_message = message,
                               .error_message_length = strlen(message),
                               .event_count = events};
  outbox_result(self->outbox, NULL, &result, taken, started);
  outbox_flush(self->outbox);
}

static void remove_unanswered(struct redis_door *self, const struct taken *taken) {
  outbox_removal(self->outbox, taken);
  outbox_flush(self->outbox);
}

/* --- from the prefetch to the engine --------------------------------------------------------- */

static const char *current_id(const struct redis_door *self) {
  const struct run *run = engine_current_run(&self->door);
  return run != NULL ? run_step(run)->step_id : NULL;
}

/* What the key `started` has to say. */
static const char *started_id(const struct redis_door *self) {
  return self->deferring ? NULL : current_id(self);
}

static void submit(struct redis_door *self, struct queued *queued) {
  recent_steps_add(&self->recent_steps, queued->step.step_id);
  self->current = queued;
  self->wanted--;
  struct request request = {.step = queued->step, .ticket = queued};
  queued->step = (struct step){0};
  engine_submit(&self->door, &request);
}

static void begin_step(struct redis_door *self, struct queued *queued) {
  if (!queued->refused && step_is_work(&queued->step)) {
    submit(self, queued);
  } else if (queued->refused) {
    run_log_refused(self->log, queued->step.step_id, &queued->error, queued->taken.payload,
                    queued->taken.length);
    answer(self, queued->step.step_id, queued->error.text, 0, queued->gone ? NULL : &queued->taken,
           false);
    prefetch_settled(self->prefetch);
  } else { /* a shutdown: what overtakes does not come this way */
    remove_unanswered(self, &queued->taken);
    prefetch_settled(self->prefetch);
    engine_leave(&self->door, AGENT_EXIT_SHUTDOWN, "shutdown step");
  }
}

/* Not while the outbox is full: then the results would pile up. A step whose id was used before
   waits until the answer to that one is delivered: then it is known whether it is the same step. */
static bool may_begin(struct redis_door *self) {
  const struct queued *oldest = prefetch_oldest(self->prefetch);
  if (oldest == NULL || self->wanted == 0 || engine_is_leaving(&self->door))
    return false;
  if (!oldest->refused && recent_steps_times(&self->recent_steps, oldest->step.step_id) > 0)
    return outbox_is_empty(self->outbox);
  return outbox_room(self->outbox) > 0;
}

static void next(struct redis_door *self) {
  struct queued *queued;
  while (may_begin(self) && (queued = prefetch_next(self->prefetch)) != NULL)
    begin_step(self, queued);
  prefetch_more(self->prefetch);
}

/* It overtakes what waits. */
static void cancel(struct redis_door *self, const char *step_id) {
  static const char reason[] = "cancelled: by a cancel step";
  struct queued *waiting;
  if (engine_cancel(&self->door, step_id, reason)) {
    log_line(self->log, LOG_INFO, step_id, "cancel: ending the running step");
  } else if ((waiting = prefetch_take_run(self->prefetch, step_id)) != NULL) {
    log_line(self->log, LOG_INFO, step_id, "cancel: a step that was waiting will not run");
    answer(self, step_id, reason, 0, &waiting->taken, false);
    queued_free(waiting);
  } else {
    log_line(self->log, LOG_INFO, step_id, "cancel: no such step is running or waiting");
  }
}

static void withdraw_question(struct redis_door *self) {
  if (self->run_guard != NULL)
    run_guard_cancel(self->run_guard);
  self->run_guard = NULL;
}

static bool on_arrived(void *owner, struct queued *queued) {
  struct redis_door *self = owner;
  withdraw_question(self);
  engine_touch(&self->door);
  if (!queued->refused && queued->step.kind == &step_cancel) {
    cancel(self, queued->step.step_id);
    remove_unanswered(self, &queued->taken);
  } else if (!reconcile_settles(&self->reconcile, queued)) {
    return false;
  }
  queued_free(queued);
  return true;
}

static void on_drained(void *owner) {
  struct redis_door *self = owner;
  recent_steps_settle(&self->recent_steps);
}

static void on_changed(void *owner) {
  next(owner);
}

/* An agent before this one started it: it is answered, and not run again. */
static void on_interrupted(void *owner, const char *step_id, int64_t events,
                           const struct taken *taken) {
  static const char reason[] = "interrupted: the agent ended while this step was running";
  struct redis_door *self = owner;
  log_line(self->log, LOG_WARN, step_id, "%s", reason);
  recent_steps_add(&self->recent_steps, step_id);
  answer(self, step_id, reason, events, taken, true);
}

static void on_missing(void *owner) {
  struct redis_door *self = owner;
  reconcile_missing(&self->reconcile, current_id(self));
}

static void on_lost(void *owner, const struct queued *queued) {
  answer(owner, queued->step.step_id, lost_result, -1, &queued->taken, false);
}

/* --- the end --------------------------------------------------------------------------------- */

static void log_undelivered(void *owner, const char *json, size_t length) {
  log_line(owner, LOG_ERROR, NULL, "undelivered result: %.*s", (int)length, json);
}

static void close_now(struct redis_door *self) {
  bool delivered = self->closing >= ENDING_HEARTBEAT || outbox_is_empty(self->outbox);
  if (!delivered) {
    struct log log = *self->log;
    log.wait_until_ms = clock_monotonic_ms() + UNDELIVERED_LOG_MS;
    log_line(&log, LOG_ERROR, NULL, "what follows did not reach redis, nor did output");
    outbox_each_result(self->outbox, log_undelivered, &log);
  }
  self->closing = CLOSED;
  (void)evtimer_del(self->removal_limit);
  engine_door_closed(&self->door, delivered);
}

static void remove_heartbeat(struct redis_door *self) {
  self->closing = REMOVING_HEARTBEAT;
  outbox_remove_heartbeat(self->outbox);
  outbox_flush(self->outbox);
}

static void end_heartbeat(struct redis_door *self) {
  self->closing = ENDING_HEARTBEAT;
  /* Where Redis refused to set the key it is not asked to remove it either. */
  loop_timer_start(self->removal_limit, self->heartbeat_refused ? 0 : HEARTBEAT_REMOVAL_MS);
  if (!self->heartbeat_refused && heartbeat_end(self->heartbeat))
    remove_heartbeat(self);
}

/* The next step of the end, as far as what is delivered allows it. */
static void go_on_closing(struct redis_door *self) {
  if (self->closing == OPEN || self->closing == CLOSED)
    return;
  bool empty = outbox_is_empty(self->outbox);
  bool wait = self->close == DOOR_CLOSE_PATIENT && self->closing == DELIVERING && !empty;
  bool away = self->failed || !outbox_is_ready(self->outbox) || outbox_is_gone(self->outbox);
  if (self->failed || !outbox_is_ready(self->outbox) || (away && !wait))
    close_now(self);
  else if (empty && self->closing == DELIVERING)
    end_heartbeat(self);
  else if (empty && self->closing == REMOVING_HEARTBEAT)
    loop_timer_start_now(self->removal_limit);
}

static void on_removal_limit(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  close_now(context);
}

static void close_door(struct door *door, enum door_close how) {
  struct redis_door *self = self_of(door);
  if (self->closing == CLOSED)
    return;
  self->close = how;
  if (self->closing == OPEN)
    self->closing = DELIVERING;
  if (how == DOOR_CLOSE_NOW)
    close_now(self);
  else
    go_on_closing(self);
}

/* An error that does not pass. */
static void on_error(void *owner, const struct error *error) {
  struct redis_door *self = owner;
  log_line(self->log, LOG_ERROR, NULL, "%s", error->text);
  engine_leave(&self->door, AGENT_EXIT_ERROR, "an error of redis");
  go_on_closing(self);
}

/* --- what the outbox says -------------------------------------------------------------------- */

static void on_connected(void *owner) {
  struct redis_door *self = owner;
  if (!outbox_is_ready(self->outbox) && !engine_is_leaving(&self->door))
    prefetch_prepare(self->prefetch);
}

static char *on_claiming(void *owner) {
  struct redis_door *self = owner;
  return heartbeat_command(self->heartbeat);
}

static void on_claimed(void *owner) {
  struct redis_door *self = owner;
  outbox_refresh(self->outbox);
  heartbeat_start(self->heartbeat);
}

static void start_acknowledged(struct redis_door *self) {
  struct run *run = self->unstarted;
  if (run == NULL || !outbox_is_empty(self->outbox))
    return;
  self->unstarted = NULL;
  log_line(self->log, LOG_DEBUG, run_step(run)->step_id, "started");
  engine_start(run);
}

static void on_delivered(void *owner) {
  struct redis_door *self = owner;
  if (self->current == NULL)
    next(self);
  else
    prefetch_more(self->prefetch);
  start_acknowledged(self);
  if (outbox_has_room_again(self->outbox))
    engine_room(&self->door);
  go_on_closing(self);
}

/* A step that waits for its start may have run before; so may those that wait after it. */
static void on_forgotten(void *owner) {
  struct redis_door *self = owner;
  if (self->unstarted != NULL && recent_steps_times(&self->recent_steps, current_id(self)) > 1)
    engine_reject(self->unstarted, lost_result);
  reconcile_forgotten(&self->reconcile, current_id(self), started_id(self));
}

static void on_unreachable(void *owner) {
  go_on_closing(owner);
}

static void on_outbox_failed(void *owner, const struct error *error) {
  struct redis_door *self = owner;
  self->failed = true;
  heartbeat_stop(self->heartbeat); /* nobody knows whose the job is */
  on_error(self, error);
}

/* --- what the heartbeat says ----------------------------------------------------------------- */

static bool on_committed(void *owner, const char *value, size_t length) {
  struct redis_door *self = owner;
  return outbox_is_ours(self->outbox, value, length);
}

/* While Redis is away altogether the write would only be late. The outbox takes one only when the
   one before has arrived. */
static bool on_fallback(void *owner, const char *value, const char *seconds) {
  struct redis_door *self = owner;
  if (outbox_is_gone(self->outbox) || !outbox_beat(self->outbox, value, seconds))
    return false;
  outbox_flush(self->outbox);
  bool arrived = self->wrote_fallback;
  self->wrote_fallback = true;
  return arrived;
}

/* Perhaps the outbox's connection is dead, too. */
static void on_silent(void *owner) {
  struct redis_door *self = owner;
  outbox_probe(self->outbox);
}

static void on_heartbeat_ended(void *owner) {
  remove_heartbeat(owner);
}

static void on_heartbeat_failed(void *owner, const struct error *error) {
  struct redis_door *self = owner;
  self->heartbeat_refused = true;
  on_error(self, error);
}

/* --- what the engine says -------------------------------------------------------------------- */

static void want(struct door *door, unsigned requests) {
  struct redis_door *self = self_of(door);
  if (requests == 0) {
    withdraw_question(self);
    prefetch_stop(self->prefetch);
    return;
  }
  self->wanted += requests;
  next(self);
}

static void begin(struct door *door, struct run *run) {
  struct redis_door *self = self_of(door);
  if (self->deferring) {
    loop_timer_start(self->read_limit, REDIS_DOOR_READ_MS);
    engine_start(run);
    return;
  }
  outbox_started(self->outbox, run_step(run)->step_id);
  self->unstarted = run;
  outbox_flush(self->outbox);
}

static size_t room(const struct door *door) {
  return outbox_room(const_self_of(door)->outbox);
}

/* From here on the step is like every other: an agent after this one does not run it again. */
static void make_known(struct redis_door *self) {
  self->deferring = false;
  (void)evtimer_del(self->read_limit);
  outbox_started(self->outbox, current_id(self));
  outbox_put_deferred(self->outbox);
  outbox_flush(self->outbox);
}

static void on_read_limit(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  make_known(context);
}

static void event(struct door *door, const struct run *run, const struct step_event *event) {
  struct redis_door *self = self_of(door);
  if (event->kind == STEP_EVENT_STARTED)
    self->deferring = kind_of(run_step(run))->read_only;
  if (!self->deferring)
    outbox_event(self->outbox, event);
  else if (outbox_defer_event(self->outbox, event) > DEFERRED_MAX)
    make_known(self);
}

static void flush(struct door *door) {
  struct redis_door *self = self_of(door);
  if (!self->deferring)
    outbox_flush(self->outbox);
}

static void result(struct door *door, const struct run *run, const struct step_event *completed,
                   const struct step_result *result) {
  struct redis_door *self = self_of(door);
  struct queued *queued = run_ticket(run);
  outbox_result(self->outbox, completed, result, &queued->taken, !self->deferring);
  (void)evtimer_del(self->read_limit);
  self->deferring = false;
  self->current = NULL;
  self->unstarted = NULL;
  prefetch_settled(self->prefetch);
}

static void activity(struct door *door, unsigned running) {
  heartbeat_set_in_flight(self_of(door)->heartbeat, running > 0);
}

static void on_run_guard(void *owner, enum run_guard_answer answer, const char *why) {
  struct redis_door *self = owner;
  const char *run = self->options.run_id;
  self->run_guard = NULL;
  if (answer == RUN_GUARD_ALIVE) {
    log_line(self->log, LOG_INFO, NULL, "run %.200s is alive: waiting on", run);
    engine_wait_on(&self->door);
    return;
  }
  if (answer == RUN_GUARD_OVER)
    log_line(self->log, LOG_INFO, NULL, "run %.200s is not in %s", run, RUN_GUARD_KEY);
  else
    log_line(self->log, LOG_WARN, NULL, "whether run %.200s is in %s is not known: %s", run,
             RUN_GUARD_KEY, why);
  engine_leave(&self->door, AGENT_EXIT_IDLE, "the idle limit");
}

/* "sandbox:<job>:out", for CLIENT LIST. */
struct client_name {
  char text[128];
};

static struct client_name client_name(const struct redis_door *self, const char *role) {
  struct client_name name;
  (void)snprintf(name.text, sizeof name.text, "sandbox:%.100s:%s", self->options.job_id, role);
  return name;
}

/* A Redis that never answered, or does not take what is held, is an error; nobody is asked then. */
static void idle(struct door *door) {
  struct redis_door *self = self_of(door);
  bool stuck = !outbox_is_ready(self->outbox) || !outbox_is_empty(self->outbox);
  if (stuck)
    engine_leave(door, AGENT_EXIT_ERROR, "the idle limit");
  else if (self->options.run_id == NULL)
    engine_leave(door, AGENT_EXIT_IDLE, "the idle limit");
  else
    self->run_guard =
        run_guard_ask(self->base, self->log, self->options.url, client_name(self, "guard").text,
                      self->options.run_id, on_run_guard, self);
}

static void dump(const struct door *door) {
  const struct redis_door *self = const_self_of(door);
  static const char *const closing[] = {"open", "delivering", "ending the heartbeat",
                                        "removing the heartbeat", "closed"};
  log_line(self->log, LOG_INFO, NULL, "state: door redis: %s, %s, %zu bytes not acknowledged",
           closing[self->closing],
           !outbox_is_ready(self->outbox) ? "the job is not taken over yet"
           : outbox_is_gone(self->outbox) ? "redis is away"
                                          : "connected",
           outbox_bytes(self->outbox));
  prefetch_dump(self->prefetch, self->log);
}

/* --- the door itself ------------------------------------------------------------------------- */

static const struct door_type redis_door_type = {.name = "redis",
                                                 .lost_exit_code = AGENT_EXIT_ERROR,
                                                 .want = want,
                                                 .begin = begin,
                                                 .room = room,
                                                 .event = event,
                                                 .flush = flush,
                                                 .result = result,
                                                 .activity = activity,
                                                 .idle = idle,
                                                 .close = close_door,
                                                 .dump = dump};

static void make_outbox(struct redis_door *self) {
  static const struct delivery_handler handler = {.connected = on_connected,
                                                  .claiming = on_claiming,
                                                  .claimed = on_claimed,
                                                  .delivered = on_delivered,
                                                  .forgotten = on_forgotten,
                                                  .unreachable = on_unreachable,
                                                  .failed = on_outbox_failed};
  struct client_name name = client_name(self, "out");
  struct outbox_options options = {.url = self->options.url,
                                   .keys = &self->keys,
                                   .name = name.text,
                                   .events_maxlen = self->options.events_maxlen,
                                   .key_ttl_seconds = self->options.key_ttl_seconds,
                                   .hold_bytes = self->options.hold_bytes};
  self->outbox = outbox_new(self->base, self->log, &options, &handler, self);
}

static void make_prefetch(struct redis_door *self) {
  static const struct prefetch_handler handler = {.interrupted = on_interrupted,
                                                  .arrived = on_arrived,
                                                  .missing = on_missing,
                                                  .drained = on_drained,
                                                  .changed = on_changed,
                                                  .failed = on_error};
  struct client_name name = client_name(self, "in");
  struct prefetch_options options = {.base = self->base,
                                     .log = self->log,
                                     .url = self->options.url,
                                     .keys = &self->keys,
                                     .name = name.text,
                                     .outbox = self->outbox};
  self->prefetch = prefetch_new(&options, &handler, self);
  self->reconcile = (struct reconcile){.log = self->log,
                                       .outbox = self->outbox,
                                       .prefetch = self->prefetch,
                                       .recent_steps = &self->recent_steps,
                                       .lost = on_lost,
                                       .owner = self};
}

static void make_heartbeat(struct redis_door *self) {
  static const struct heartbeat_handler handler = {.committed = on_committed,
                                                   .fallback = on_fallback,
                                                   .silent = on_silent,
                                                   .ended = on_heartbeat_ended,
                                                   .failed = on_heartbeat_failed};
  struct client_name name = client_name(self, "heartbeat");
  self->heartbeat = heartbeat_new(self->base, self->log, self->options.url, &self->keys, name.text,
                                  &handler, self);
}

struct door *redis_door_new(struct event_base *base, const struct log *log,
                            const struct redis_door_options *options) {
  struct redis_door *self = memory_allocate(sizeof *self);
  *self = (struct redis_door){
      .door = {.type = &redis_door_type}, .base = base, .log = log, .options = *options};
  keys_init(&self->keys, options->job_id);
  self->read_limit = loop_timer_new(base, on_read_limit, self);
  self->removal_limit = loop_timer_new(base, on_removal_limit, self);
  make_outbox(self);
  make_prefetch(self);
  make_heartbeat(self);
  prefetch_begin(self->prefetch);
  outbox_start(self->outbox);
  char server[256];
  redis_url_name(options->url, server, sizeof server);
  log_line(log, LOG_INFO, NULL, "started: pid %d, redis %s, steps from %s", (int)getpid(), server,
           self->keys.in);
  return &self->door;
}

void redis_door_free(struct door *door) {
  struct redis_door *self = self_of(door);
  withdraw_question(self);
  prefetch_free(self->prefetch);
  heartbeat_free(self->heartbeat);
  outbox_free(self->outbox);
  event_free(self->read_limit);
  event_free(self->removal_limit);
  keys_release(&self->keys);
  free(self);
}
