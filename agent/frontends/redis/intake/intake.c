#include "agent/frontends/redis/intake/intake.h"
#include "agent/frontends/redis/intake/intake_answers.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "wire/json.h"

/* A stale BLMOVE is one that Redis still executes for a superseded agent, or for a connection that
   this agent has lost. It moves a step to `inflight`, and nobody reads the reply. Redis lets a
   BLMOVE wait for CONSUMER_BLOCK_SECONDS, and a superseded agent may send another one before it
   reads the new fencing token. After this time there is none. */
#define STALE_MS 15000

/* More steps than stale BLMOVEs can move in STALE_MS. They stay in `inflight`: a stale BLMOVE would
   take a step that went back to `in`, and then older steps would come after it. */
#define BACKLOG_MAX 4

/* The most control messages, and the most steps, in one query. */
#define PAGE_MAX 128

#define CHECK_COMMANDS 4 /* GET, XREVRANGE and two LLEN; control messages and steps follow */
#define COMMANDS_MAX (CHECK_COMMANDS + 2 * PAGE_MAX)

/* If a check finds the same as this many checks before it, there is a pause before the next one:
   Redis does not keep what is written, or replies with nonsense. */
#define CHECKS_REPEATED 2
#define CHECK_PAUSE_MS 1000

/* How long a shutdown waits for the search for redelivered steps. The search does not end if the
   consumer's connection is lost. */
#define SHUTDOWN_SEARCH_MS 5000

#define SEEN_RUNNING 1U
#define SEEN_FETCHED 2U

const char intake_lost_message[] = "lost: the step has run, and redis has lost its result";

static void notify(struct intake *self) {
  self->handler->changed(self->owner);
}

static void expect_stale_moves(struct intake *self) {
  self->stale_until_ms = clock_monotonic_ms() + STALE_MS;
}

static bool is_listed(const struct queued_step *step) {
  return step != NULL && step->place != QUEUED_STEP_LOST;
}

/* Returns the number of steps that `inflight` has, as far as is known. */
static size_t known_steps(const struct intake *self) {
  return self->backlog + is_listed(self->running) + is_listed(self->fetched);
}

static void fetch(struct intake *self, struct queued_step *step) {
  queued_step_free(self->fetched);
  self->fetched = step;
}

/* Checks again, because `inflight` may have changed in another way than by a check: what is being
   read is out of date. */
static void check_again(struct intake *self) {
  queued_step_free(self->scan.older);
  self->scan = (struct intake_scan){0};
  if (self->query.phase == INTAKE_QUERY_SENT)
    self->query.phase = INTAKE_QUERY_ABANDONED;
  if (self->state != INTAKE_AWAITING && self->state != INTAKE_STOPPED)
    self->state = INTAKE_CHECKING;
}

/* Returns whether Redis, after a reconnect, may be back at an earlier state in which `in` still has
   the running step, although it has every batch that it had acknowledged. If the start of the step
   was acknowledged, it has the BLMOVE, too. */
static bool may_be_missing(const struct intake *self) {
  const struct queued_step *step = self->running;
  return step != NULL &&
         (!step->is_announced || step->start_end > self->outbox->send_queue.delivered);
}

/* Redis may be back at an earlier state. `inflight` may then have as many steps as the agent knows,
   but other ones. */
static void doubt_inflight(struct intake *self) {
  if (may_be_missing(self))
    self->running->is_doubtful = true;
  check_again(self);
}

/* --- a loss of data --------------------------------------------------------------------------- */

static void mark_pending(struct intake *self, const char *step_id) {
  recent_steps_mark_pending(&self->recent, step_id, true);
}

static void mark_result(void *owner, const char *json, size_t length) {
  struct json_member id;
  struct error error;
  if (!json_member_find(json, length, "stepId", &id))
    return;
  cJSON *text = json_tree_parse(id.text, id.length, &error);
  if (cJSON_IsString(text))
    mark_pending(owner, text->valuestring);
  cJSON_Delete(text);
}

/* Restores the running and the fetched step as the oldest steps of `inflight`. The fetched one is
   pushed first, so that their order stays. A step that is still in the list is moved. A truncated
   step cannot be restored, because only its beginning is known. */
static void restore_steps(struct intake *self) {
  struct queued_step *const steps[] = {self->fetched, self->running};
  for (size_t i = 0; i < 2; i++) {
    struct queued_step *step = steps[i];
    if (step == NULL)
      continue;
    recent_steps_mark_pending(&self->recent, step->step_id, step == self->running);
    if (step->payload.is_truncated)
      step->place = QUEUED_STEP_LOST;
    else
      intake_move(self, step, OUTBOX_REMOVE_OLDEST, OUTBOX_PUSH_OLDEST, OUTBOX_INFLIGHT);
  }
  self->timeouts = 0;
}

bool intake_lose_data(struct intake *self) {
  struct queued_step *running = self->running;
  bool again = running != NULL && recent_steps_count_starts(&self->recent, running->step_id) > 1;
  log_line(self->log, LOG_WARN, NULL,
           "redis has lost acknowledged data: it is empty, or back at an earlier state");
  recent_steps_roll_back(&self->recent);
  outbox_for_each(self->outbox, "LPUSH", self->keys->results, mark_result, self);
  self->is_unverified = true;
  self->backlog = 0;
  intake_end_search(self);
  control_messages_release(&self->control);
  if (running != NULL)
    mark_pending(self, running->step_id); /* the fetched step may be its copy */
  if (self->fetched != NULL && intake_filter_step(self, self->fetched))
    fetch(self, NULL);
  if (self->fetched != NULL)
    self->fetched->search_until_ms = 0;
  restore_steps(self);
  intake_answer_removed(self); /* but not the steps in flight, which are pending now */
  if (running != NULL && running->is_announced)
    intake_write(self, &(struct outbox_record){.started = running->step_id});
  self->state = INTAKE_CHECKING;
  check_again(self);
  return again;
}

void intake_interrupted_ended(struct intake *self) {
  self->earlier_agents = EARLIER_AGENTS_ENDED;
  if (self->state == INTAKE_AWAITING)
    self->state = INTAKE_CHECKING;
}

/* --- scanning `inflight` from the oldest step to the newest ----------------------------------- */

/* Returns true if this is the known step, which is in the list once, even if it is too large to be
   restored. */
static bool recognize_step(struct intake_scan *self, struct queued_step *step, unsigned flag,
                           const struct payload *payload) {
  if (step == NULL || (self->seen & flag) != 0 || !queued_step_matches(step, payload))
    return false;
  self->seen |= flag;
  self->skip++;
  step->place = QUEUED_STEP_LISTED;
  step->is_doubtful = false;
  return true;
}

/* The scan begins again if the list has no end, or to let the removals leave the outbox. */
static void scan_step(struct intake *self, const struct payload *payload) {
  struct intake_scan *scan = &self->scan;
  scan->page.bytes += payload->length;
  if (recognize_step(scan, self->running, SEEN_RUNNING, payload) ||
      recognize_step(scan, self->fetched, SEEN_FETCHED, payload))
    return;
  scan->skip++;
  if (self->activity == INTAKE_TAKING) /* BLMOVE may have moved the step */
    return;
  struct queued_step *step = queued_step_new(payload);
  bool is_interrupted = intake_is_interrupted(self, step);
  if (is_interrupted)
    intake_answer_interrupted(self, step);
  if (is_interrupted || intake_filter_step(self, step)) {
    scan->skip--;
    scan->removed += payload->length;
  } else if (scan->older == NULL && (scan->seen & SEEN_FETCHED) == 0) {
    scan->older = step;
    step = NULL;
  }
  queued_step_free(step);
  if (scan->skip > self->query.inflight + BACKLOG_MAX || scan->removed > 2 * INTAKE_PAGE_BYTES)
    check_again(self);
}

static void become_ready(struct intake *self) {
  self->state = self->phase == INTAKE_STOPPING ? INTAKE_STOPPED : INTAKE_READY;
  if (self->phase == INTAKE_STARTING) {
    self->phase = INTAKE_OPEN;
    self->control.activity = CONTROL_IDLE;
  }
  self->is_unverified = false;
  self->restores = self->checked.repeated = 0;
  self->check_ms = 0;
  if (self->query.in == 0)
    intake_finish_unmatched(self);
}

/* A known step that is not in the list is restored. */
static void restore_lost(struct intake *self) {
  log_line(self->log, self->restores++ > 0 ? LOG_DEBUG : LOG_WARN, NULL,
           "redis has lost steps that were taken; they are restored");
  restore_steps(self);
}

/* An older step takes the place of a fetched one, which stays in the list. While BLMOVE waits, the
   list may have a step that has not arrived yet, or may have lost it already. */
static void finish_scan(struct intake *self) {
  struct intake_scan *scan = &self->scan;
  bool has_running = (scan->seen & SEEN_RUNNING) != 0,
       has_fetched = (scan->seen & SEEN_FETCHED) != 0;
  bool is_lost =
      (is_listed(self->running) && !has_running) || (is_listed(self->fetched) && !has_fetched);
  if (self->activity == INTAKE_TAKING && (is_lost || scan->skip > has_running ||
                                          self->is_unverified || self->interrupted.id != NULL)) {
    self->activity = INTAKE_ARRIVING;
    check_again(self);
    return;
  }
  if (self->interrupted.id != NULL)
    intake_answer_interrupted(self, NULL);
  if (scan->older != NULL && (self->fetched == NULL || has_fetched)) {
    fetch(self, scan->older);
    scan->older = NULL;
    has_fetched = true;
  }
  if (self->backlog > 0)
    self->looked_number = 0; /* because a step that was in `inflight` may be in `in` now */
  self->backlog = scan->skip - has_running - has_fetched;
  if (is_lost)
    restore_lost(self);
  check_again(self);
  if (self->outbox->send_queue.delivered >= self->written)
    become_ready(self);
}

/* --- checking --------------------------------------------------------------------------------- */

static size_t length_of(const struct reply *reply) {
  return reply->type == REPLY_INTEGER && reply->integer > 0 ? (size_t)reply->integer : 0;
}

/* Decides whether the steps of `inflight`, which follow in the same query, are scanned. `value` is
   the last control message that was asked for. */
static void begin_scan(struct intake *self, const struct payload *value) {
  const char *started = self->interrupted.id;
  if (self->phase == INTAKE_STARTING && self->stale_until_ms == 0 &&
      delivery_had_owner(self->outbox->delivery))
    expect_stale_moves(self);
  if (started != NULL && self->fetched != NULL && strcmp(started, self->fetched->step_id) == 0)
    fetch(self, NULL); /* the scan finds it */
  if (value != NULL && !control_messages_is_full(&self->control) &&
      self->control.next_number < CONTROL_MESSAGES_MAX) {
    check_again(self); /* to read more messages */
  } else if (started != NULL && self->earlier_agents == EARLIER_AGENTS_MAY_RUN &&
             !self->handler->interrupted(self->owner)) {
    check_again(self);
    self->state = INTAKE_AWAITING;
  } else if (self->query.inflight > known_steps(self) && self->query.inflight > self->backlog_max &&
             self->activity != INTAKE_TAKING) {
    check_again(self);
    self->state = INTAKE_RETURNING;
  }
}

static void pace_checks(struct intake *self) {
  struct intake_checked *last = &self->checked;
  bool is_same =
      self->query.inflight == last->inflight && self->control.next_number == last->next_number;
  *last = (struct intake_checked){.inflight = self->query.inflight,
                                  .next_number = self->control.next_number,
                                  .repeated = is_same ? last->repeated + 1 : 0};
  if (last->repeated >= CHECKS_REPEATED)
    self->check_ms = clock_monotonic_ms() + CHECK_PAUSE_MS;
}

static void on_checked(struct intake *self, size_t number, const struct reply *reply,
                       const struct payload *value) {
  const size_t steps = CHECK_COMMANDS + self->query.messages;
  if (number == 0 && value != NULL) {
    intake_read_started(self, value);
  } else if (number == 1) {
    intake_read_events(self, reply);
  } else if (number == 2) {
    self->query.inflight = length_of(reply);
  } else if (number == 3) {
    self->query.in = length_of(reply);
  } else if (value != NULL && number < steps) {
    intake_message(self, value);
  } else if (value != NULL) {
    scan_step(self, value);
  }
  if (number + 1 == steps) {
    pace_checks(self);
    begin_scan(self, value);
  } else if (number + 1 == self->query.end && value == NULL) {
    finish_scan(self);
  }
}

/* --- returning steps of `inflight` to `in`, from the newest to older ones --------------------- */

/* If a step cannot go back, because it is truncated, all older ones stay, too, so that their order
   stays. The same applies to the step that an earlier agent had started. */
static void return_step(struct intake *self, const struct payload *payload) {
  struct queued_step *step = queued_step_new(payload);
  self->returned.bytes += payload->length;
  if (payload->is_truncated || intake_is_interrupted(self, step))
    self->backlog_max = SIZE_MAX;
  if (self->backlog_max != SIZE_MAX && !intake_filter_step(self, step)) {
    log_line(self->log, LOG_DEBUG, step->step_id,
             "was taken but not started: moved back to the queue");
    if (self->fetched != NULL && queued_step_matches(self->fetched, payload))
      fetch(self, NULL);
    intake_move(self, step, OUTBOX_REMOVE_NEWEST, OUTBOX_PUSH_OLDEST, OUTBOX_IN);
  }
  queued_step_free(step);
}

/* --- queries, on the connection of the outbox between two batches ----------------------------- */

static void on_answer(void *owner, const struct reply *reply) {
  struct intake *self = owner;
  struct intake_query *query = &self->query;
  const struct payload text = payload_of(reply);
  const struct payload *value = reply->type == REPLY_STRING ? &text : NULL;
  size_t number = query->next++;
  bool is_last = query->next == query->end, counts = query->phase == INTAKE_QUERY_SENT;
  if (counts && self->state == INTAKE_CHECKING)
    on_checked(self, number, reply, value);
  else if (counts && self->state == INTAKE_RETURNING && value != NULL &&
           self->returned.bytes <= 2 * INTAKE_PAGE_BYTES)
    return_step(self, value);
  if (!is_last)
    return;
  if (self->state == INTAKE_RETURNING && counts) {
    intake_set_next_page(&self->returned, PAGE_MAX);
    check_again(self);
  } else if (self->scan.skip > 0) {
    intake_set_next_page(&self->scan.page, PAGE_MAX);
  }
  query->phase = INTAKE_QUERY_NONE;
  notify(self);
}

/* Asks for values of lists. The oldest value has the position -1. With the first page of a scan, it
   also asks for the rest of a check; at startup for twice as many control messages as before. */
static void send_query(struct intake *self) {
  const struct keys *keys = self->keys;
  const char *commands[COMMANDS_MAX][COMMAND_LIST_WORDS] = {
      {"GET", keys->started},
      {"XREVRANGE", keys->events, "+", "-", "COUNT", "1"},
      {"LLEN", keys->inflight},
      {"LLEN", keys->in}};
  char positions[2 * PAGE_MAX][24];
  bool returns = self->state == INTAKE_RETURNING;
  bool begins = !returns && self->scan.skip == 0;
  size_t newest = self->query.inflight, message = self->control.count + 1;
  size_t messages = begins && self->phase == INTAKE_STARTING ? 2 * self->query.messages + 1 : 0;
  size_t first = begins ? 0 : CHECK_COMMANDS, end = CHECK_COMMANDS;
  if (messages > PAGE_MAX)
    messages = PAGE_MAX;
  if (begins)
    self->scan.page.count = known_steps(self) < PAGE_MAX ? known_steps(self) + 1 : PAGE_MAX;
  size_t steps = returns ? self->returned.count : self->scan.page.count;
  if (returns && steps > newest - BACKLOG_MAX)
    steps = newest - BACKLOG_MAX;
  for (size_t i = 0; i < messages + steps; i++, end++) {
    size_t position = i < messages ? message + i
                      : returns    ? newest - i
                                   : self->scan.skip + 1 + i - messages;
    (void)snprintf(positions[i], sizeof positions[i], "-%zu", position);
    commands[end][0] = "LINDEX";
    commands[end][1] = i < messages ? keys->control : keys->inflight;
    commands[end][2] = positions[i];
  }
  intake_end_search(self);
  if (begins)
    self->look_number = self->control.next_number;
  self->query.phase = INTAKE_QUERY_SENT;
  self->query.messages = messages;
  self->query.next = first;
  self->query.end = end;
  delivery_query(self->outbox->delivery, command_list_new(commands + first, end - first), on_answer,
                 self);
}

static void send_query_if_due(struct intake *self) {
  bool checks = self->state == INTAKE_CHECKING && self->activity != INTAKE_ARRIVING &&
                (self->scan.skip > 0 || clock_monotonic_ms() >= self->check_ms);
  if (self->query.phase == INTAKE_QUERY_NONE &&
      self->outbox->send_queue.delivered >= self->written &&
      (checks || self->state == INTAKE_RETURNING) && outbox_capacity(self->outbox) > 0)
    send_query(self);
}

/* --- the consumer's connection ---------------------------------------------------------------- */

/* While a BLMOVE may be stale, `inflight` may have an older step than this one. */
static void on_step(void *owner, const struct payload *payload) {
  struct intake *self = owner;
  struct queued_step *step = queued_step_new(payload);
  /* Parsing a large payload takes time: timers must start from the current time. */
  (void)event_base_update_cache_time(self->base);
  self->activity = INTAKE_IDLE;
  if (self->state != INTAKE_READY || self->stale_until_ms != 0)
    check_again(self);
  CHECK(self->fetched == NULL);
  if (intake_filter_step(self, step))
    queued_step_free(step);
  else
    self->fetched = step;
  notify(self);
}

/* Returns whether Redis can redeliver nothing anymore: intake is READY, and `in` was empty for the
   time of a whole BLMOVE since the loss of data. The first BLMOVE that times out may have been sent
   before the loss. Something was delivered since, so another loss would be noticed. */
static bool is_redelivery_over(const struct intake *self) {
  return self->timeouts >= 2 && self->state == INTAKE_READY && outbox_is_empty(self->outbox) &&
         !delivery_has_lost_data(self->outbox->delivery);
}

/* `inflight` is checked if the agent is idle: a stale BLMOVE may have moved a step. */
static void on_nothing(void *owner) {
  struct intake *self = owner;
  self->activity = INTAKE_IDLE;
  self->timeouts++;
  if (is_redelivery_over(self))
    recent_steps_end_redelivery(&self->recent);
  if (self->state != INTAKE_READY || self->running == NULL)
    check_again(self);
  notify(self);
}

static void end_activity(struct intake *self) {
  if (self->activity == INTAKE_SEARCHING)
    self->control.activity = CONTROL_IDLE;
  self->activity = INTAKE_IDLE;
  intake_end_search(self);
}

/* A waiting step is then cancelled when its turn comes. */
static void on_denied(void *owner) {
  struct intake *self = owner;
  log_line(self->log, LOG_WARN, NULL,
           "a waiting step is cancelled only when its turn comes: redis refuses LRANGE; the user "
           "needs +lrange");
  end_activity(self);
  self->search.phase = INTAKE_SEARCH_DENIED;
  notify(self);
}

static void on_reconnected(void *owner) {
  struct intake *self = owner;
  end_activity(self);
  expect_stale_moves(self);
  doubt_inflight(self);
  notify(self);
}

static void on_failed(void *owner, const struct error *error) {
  struct intake *self = owner;
  self->handler->failed(self->owner, error);
}

/* Lets the consumer's connection search `in` or take the next step. It waits until the steps that a
   search has found have left `in`. */
static void use_consumer(struct intake *self) {
  if (self->state != INTAKE_READY || self->activity != INTAKE_IDLE ||
      self->outbox->send_queue.delivered < self->search_end)
    return;
  if (intake_may_search(self)) {
    intake_search(self);
  } else if (self->fetched == NULL && outbox_capacity(self->outbox) > 0) {
    self->activity = INTAKE_TAKING;
    consumer_take(self->consumer);
  }
}

/* --- decisions -------------------------------------------------------------------------------- */

LOOP_CALLBACK(on_wakeup, struct intake *self) {
  notify(self);
}

/* Leaves READY if the next step, or perhaps a cancelled one, is already in `inflight`, or if `in`
   may be empty, which means that a cancel has no step. */
static void look_again(struct intake *self) {
  bool may_be_elsewhere = self->backlog > 0 || self->activity == INTAKE_TAKING ||
                          self->search.phase == INTAKE_SEARCH_DENIED;
  if (self->state == INTAKE_READY &&
      ((self->backlog > 0 && self->fetched == NULL) ||
       (may_be_elsewhere && intake_has_new_cancels(self, self->look_number))))
    self->state = INTAKE_CHECKING;
}

static void wake_later(struct intake *self, int64_t now_ms) {
  const int64_t times[] = {self->stale_until_ms, self->check_ms,
                           self->fetched != NULL ? self->fetched->search_until_ms : 0};
  int64_t first_ms = INT64_MAX;
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    if (times[i] > now_ms && times[i] < first_ms)
      first_ms = times[i];
  if (first_ms < INT64_MAX)
    loop_timer_start(self->wakeup, first_ms - now_ms);
}

void intake_advance(struct intake *self) {
  const int64_t now_ms = clock_monotonic_ms();
  const uint64_t reconnections = delivery_reconnections(self->outbox->delivery);
  if (self->reconnections != reconnections)
    doubt_inflight(self);
  self->reconnections = reconnections;
  if (self->stale_until_ms != 0 && now_ms >= self->stale_until_ms) {
    self->stale_until_ms = 0;
    self->looked_number = 0;
    check_again(self);
  }
  intake_apply_messages(self);
  look_again(self);
  if (self->state == INTAKE_READY && self->running == NULL &&
      intake_has_unsearched_shutdown(self) && self->fetched->search_until_ms == 0)
    self->fetched->search_until_ms = now_ms + SHUTDOWN_SEARCH_MS;
  send_query_if_due(self);
  use_consumer(self);
  wake_later(self, now_ms);
}

/* A step with the id of an earlier one waits until the answer to that one is delivered, because
   only then it is certain that it is another step. */
struct queued_step *intake_next_step(const struct intake *self) {
  struct queued_step *step = self->fetched;
  if (self->state != INTAKE_READY || step == NULL || self->running != NULL)
    return NULL;
  bool is_again = !step->is_rejected && recent_steps_count_starts(&self->recent, step->step_id) > 0;
  if (is_again ? !outbox_is_empty(self->outbox) : outbox_capacity(self->outbox) == 0)
    return NULL;
  if (queued_step_is_work(step) && control_messages_find(&self->control, step->step_id) != NULL)
    return NULL;
  bool must_search = intake_has_unsearched_shutdown(self) &&
                     (step->search_until_ms == 0 || clock_monotonic_ms() < step->search_until_ms);
  return must_search ? NULL : step;
}

void intake_start_step(struct intake *self, bool announced) {
  CHECK(self->running == NULL && self->fetched != NULL);
  self->running = self->fetched;
  self->fetched = NULL;
  recent_steps_add(&self->recent, self->running->step_id);
  if (announced)
    intake_announce_start(self);
}

void intake_announce_start(struct intake *self) {
  self->running->is_announced = true;
  intake_write(self, &(struct outbox_record){.started = self->running->step_id});
  self->running->start_end = self->written;
}

void intake_finish_step(struct intake *self, const struct step_event *completed,
                        const struct step_result *result) {
  struct queued_step **step = self->running != NULL ? &self->running : &self->fetched;
  struct outbox_record record = {.completed = completed, .result = result};
  record.reply_to = (*step)->reply_to;
  record.ends_started = (*step)->is_announced;
  intake_add_removal(&record, *step);
  intake_write(self, &record);
  if (self->running != NULL && self->running->is_doubtful)
    mark_pending(self, self->running->step_id);
  queued_step_free(*step);
  *step = NULL;
  if (self->state != INTAKE_READY)
    check_again(self);
}

void intake_stop(struct intake *self) {
  self->phase = INTAKE_STOPPING;
  end_activity(self);
  if (!self->is_unverified)
    self->state = INTAKE_STOPPED;
  consumer_stop(self->consumer);
}

struct intake *intake_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const struct keys *keys,
                          struct outbox *outbox, const struct intake_handler *handler,
                          void *owner) {
  static const struct consumer_handler consumer_handler = {.step = on_step,
                                                           .nothing = on_nothing,
                                                           .page = intake_search_page,
                                                           .denied = on_denied,
                                                           .reconnected = on_reconnected,
                                                           .failed = on_failed};
  struct intake *self = memory_allocate(sizeof *self);
  *self = (struct intake){.log = log,
                          .handler = handler,
                          .owner = owner,
                          .base = base,
                          .outbox = outbox,
                          .keys = keys,
                          .control.activity = CONTROL_SEARCHING, /* while STARTING */
                          .backlog_max = BACKLOG_MAX,
                          .checked.inflight = SIZE_MAX,
                          .returned.count = 1};
  self->consumer = consumer_new(base, log, url, keys, &consumer_handler, self);
  self->wakeup = loop_timer_new(base, on_wakeup, self);
  return self;
}

void intake_free(struct intake *self) {
  queued_step_free(self->scan.older);
  queued_step_free(self->running);
  queued_step_free(self->fetched);
  free(self->interrupted.id);
  control_messages_release(&self->control);
  consumer_free(self->consumer);
  event_free(self->wakeup);
  free(self);
}

void intake_dump(const struct intake *self) {
  static const char *const states[] = {"checking inflight",
                                       "waiting for the processes of an earlier agent",
                                       "returning steps", "ready", "stopped"};
  static const char *const activities[] = {"idle", "waiting for a step", "receiving a step",
                                           "searching for cancelled steps"};
  log_line(self->log, LOG_WARN, NULL, "state: intake: %s, %s, %s, %zu control messages",
           states[self->state], activities[self->activity],
           self->fetched != NULL ? "one step fetched ahead" : "no step fetched ahead",
           self->control.count);
}
