#include "agent/frontends/redis/intake/intake.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/frontends/redis/connection/command.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "wire/json.h"
#include "wire/step_report.h"

/* GET, XREVRANGE and two LLEN; the messages of INTAKE_QUERY_STARTUP follow. */
#define STARTUP_COMMANDS 4
#define COMMANDS_MAX (STARTUP_COMMANDS + INTAKE_PAGE_MAX)

static void notify(struct intake *self) {
  self->core.handler->changed(self->core.owner);
}

static struct intake_context read_context(const struct intake *self) {
  const struct outbox *outbox = self->outbox;
  return (struct intake_context){.now_ms = clock_monotonic_ms(),
                                 .delivered = outbox->send_queue.delivered,
                                 .reconnections = delivery_reconnections(outbox->delivery),
                                 .capacity = outbox_capacity(outbox),
                                 .is_empty = outbox_is_empty(outbox),
                                 .has_lost_data = delivery_has_lost_data(outbox->delivery)};
}

/* --- queries, on the connection of the outbox between two batches ----------------------------- */

/* Finds the event in the newest entry of the stream: [[id, [field, value]]]. */
static void read_events(struct intake_interrupted *self, const struct reply *reply) {
  const struct reply *at = reply;
  for (size_t deep = 0; deep < 3 && at != NULL; deep++)
    at = at->type == REPLY_ARRAY && at->elements > 0 ? at->element[at->elements - 1] : NULL;
  self->events = -1;
  self->version = 1;
  if (self->id == NULL)
    self->events = 0;
  else if (at != NULL && at->type == REPLY_STRING)
    self->events = step_event_read_seq(at->str, at->len, self->id, &self->version);
}

static size_t length_of(const struct reply *reply) {
  return reply->type == REPLY_INTEGER && reply->integer > 0 ? (size_t)reply->integer : 0;
}

static void on_startup(struct intake *self, size_t number, const struct reply *reply) {
  struct intake_startup *startup = &self->startup;
  bool is_string = reply->type == REPLY_STRING;
  if (number == 0) {
    *startup = (struct intake_startup){.interrupted.id =
                                           is_string ? memory_copy(reply->str, reply->len) : NULL};
  } else if (number == 1) {
    read_events(&startup->interrupted, reply);
  } else if (number == 2) {
    startup->inflight = length_of(reply);
  } else if (number == 3) {
    startup->in = length_of(reply);
  } else if (is_string) {
    struct payload message = payload_of(reply);
    intake_core_message(&self->core, &message);
  }
  if (number + 1 < self->commands)
    return;
  startup->had_owner = delivery_had_owner(self->outbox->delivery);
  startup->has_more_messages = is_string && !control_messages_is_full(&self->core.control);
  intake_core_startup(&self->core, startup);
  startup->interrupted.id = NULL;
}

static void on_page(struct intake *self, size_t number, const struct reply *reply) {
  struct payload step = payload_of(reply);
  bool is_string = reply->type == REPLY_STRING;
  if (is_string)
    intake_core_scan_step(&self->core, &step);
  if (number + 1 == self->commands)
    intake_core_end_scan_page(&self->core, !is_string);
}

static void on_answer(void *owner, const struct reply *reply) {
  struct intake *self = owner;
  size_t number = self->answered++;
  if (self->query == INTAKE_QUERY_STARTUP)
    on_startup(self, number, reply);
  else if (self->query == INTAKE_QUERY_SCAN)
    on_page(self, number, reply);
  else if (number == 0)
    self->inflight = length_of(reply);
  else
    intake_core_lengths(&self->core, self->inflight, length_of(reply));
  if (self->answered == self->commands)
    notify(self);
}

static void query_redis(void *owner, enum intake_query query, size_t position, size_t count) {
  struct intake *self = owner;
  const struct keys *keys = self->keys;
  const char *commands[COMMANDS_MAX][COMMAND_LIST_WORDS] = {
      {"GET", keys->started},
      {"XREVRANGE", keys->events, "+", "-", "COUNT", "1"},
      {"LLEN", keys->inflight},
      {"LLEN", keys->in}};
  char positions[INTAKE_PAGE_MAX][24];
  bool is_startup = query == INTAKE_QUERY_STARTUP;
  size_t first = is_startup ? 0 : 2, end = query == INTAKE_QUERY_SCAN ? first : STARTUP_COMMANDS;
  for (size_t i = 0; i < count; i++, end++) {
    (void)snprintf(positions[i], sizeof positions[i], "-%zu",
                   is_startup ? position + i : position - i);
    commands[end][0] = "LINDEX";
    commands[end][1] = is_startup ? keys->control : keys->inflight;
    commands[end][2] = positions[i];
  }
  self->query = query;
  self->commands = end - first;
  self->answered = 0;
  delivery_query(self->outbox->delivery, command_list_new(commands + first, end - first), on_answer,
                 self);
}

/* --- the consumer's connection ---------------------------------------------------------------- */

static void on_step(void *owner, const struct payload *payload) {
  struct intake *self = owner;
  intake_core_step_taken(&self->core, payload);
  /* Parsing a large payload takes time: timers must start from the current time. */
  (void)event_base_update_cache_time(self->base);
  notify(self);
}

static void on_nothing(void *owner) {
  struct intake *self = owner;
  intake_core_take_timed_out(&self->core);
  notify(self);
}

/* LRANGE returns the newest step of the page first. */
static void on_search_page(void *owner, size_t length, const struct reply *steps) {
  struct intake *self = owner;
  size_t count = steps != NULL ? steps->elements : 0;
  intake_core_begin_search_page(&self->core, length);
  for (size_t i = count; i-- > 0;) {
    struct payload step = payload_of(steps->element[i]);
    intake_core_search_step(&self->core, &step);
  }
  enum intake_page page = steps == NULL                     ? INTAKE_PAGE_TOO_LARGE
                          : count < self->core.search.count ? INTAKE_PAGE_LAST
                                                            : INTAKE_PAGE_WHOLE;
  intake_core_end_search_page(&self->core, page);
  notify(self);
}

static void on_denied(void *owner) {
  struct intake *self = owner;
  intake_core_search_denied(&self->core);
  notify(self);
}

static void on_reconnected(void *owner) {
  struct intake *self = owner;
  intake_core_reconnected(&self->core);
  notify(self);
}

static void on_failed(void *owner, const struct error *error) {
  struct intake *self = owner;
  self->core.handler->failed(self->core.owner, error);
}

/* --- struct intake_io ------------------------------------------------------------------------- */

static void take(void *owner) {
  consumer_take(((struct intake *)owner)->consumer);
}

static void search(void *owner, size_t skip, size_t count) {
  consumer_search(((struct intake *)owner)->consumer, skip, count);
}

static uint64_t write_record(void *owner, const struct outbox_record *record) {
  return outbox_write(((struct intake *)owner)->outbox, record);
}

LOOP_CALLBACK(on_wakeup, struct intake *self) {
  notify(self);
}

/* --- creation, and calls of the frontend ------------------------------------------------------ */

struct intake *intake_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const struct keys *keys,
                          struct outbox *outbox, const struct intake_handler *handler,
                          void *owner) {
  static const struct consumer_handler consumer_handler = {.step = on_step,
                                                           .nothing = on_nothing,
                                                           .page = on_search_page,
                                                           .denied = on_denied,
                                                           .reconnected = on_reconnected,
                                                           .failed = on_failed};
  static const struct intake_io io = {
      .take = take, .search = search, .query = query_redis, .write = write_record};
  struct intake *self = memory_allocate(sizeof *self);
  *self = (struct intake){.base = base, .outbox = outbox, .keys = keys};
  intake_core_init(&self->core, log, &io, self, handler, owner);
  self->consumer = consumer_new(base, log, url, keys, &consumer_handler, self);
  self->wakeup = loop_timer_new(base, on_wakeup, self);
  return self;
}

void intake_free(struct intake *self) {
  intake_core_release(&self->core);
  free(self->startup.interrupted.id);
  consumer_free(self->consumer);
  event_free(self->wakeup);
  free(self);
}

void intake_advance(struct intake *self) {
  struct intake_context context = read_context(self);
  intake_core_advance(&self->core, &context);
  const int64_t wakeup_ms = intake_core_wakeup_ms(&self->core);
  if (wakeup_ms != 0)
    loop_timer_start(self->wakeup, wakeup_ms - context.now_ms);
}

static void mark_result(void *owner, const char *json, size_t length) {
  struct intake *self = owner;
  struct json_member id;
  struct error error;
  if (!json_member_find(json, length, "stepId", &id))
    return;
  cJSON *text = json_tree_parse(id.text, id.length, &error);
  if (cJSON_IsString(text))
    intake_core_mark_pending(&self->core, text->valuestring);
  cJSON_Delete(text);
}

bool intake_lose_data(struct intake *self) {
  struct intake_context context = read_context(self);
  recent_steps_roll_back(&self->core.recent);
  outbox_for_each_result(self->outbox, mark_result, self);
  return intake_core_lose_data(&self->core, &context);
}

void intake_stop(struct intake *self) {
  intake_core_stop(&self->core);
  consumer_stop(self->consumer);
}

void intake_dump(const struct intake *self) {
  static const char *const states[] = {"comparing inflight",
                                       "waiting for the processes of an earlier agent",
                                       "scanning inflight",
                                       "writing",
                                       "ready",
                                       "stopped"};
  static const char *const activities[] = {"idle", "waiting for a step", "receiving a step",
                                           "searching for cancelled steps"};
  const struct intake_core *core = &self->core;
  log_line(core->log, LOG_WARN, NULL, "state: intake: %s, %s, %s, %zu control messages",
           states[core->state], activities[core->activity],
           core->fetched != NULL ? "one step fetched ahead" : "no step fetched ahead",
           core->control.count);
}
