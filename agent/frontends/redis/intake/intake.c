#include "agent/frontends/redis/intake/intake.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/intake/consumer.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "wire/json.h"
#include "wire/step_report.h"

/* Before the page of INTAKE_ASKS_BOOT: GET, XREVRANGE, and the two lengths. */
#define BOOT_COMMANDS 4
#define COMMANDS_MAX (BOOT_COMMANDS + INTAKE_PAGE_MAX)

struct intake {
  struct event_base *base;
  struct outbox *outbox;
  const struct keys *keys;
  const struct intake_handler *handler;
  void *owner;
  struct consumer *consumer;
  struct event *wakeup; /* at intake_core_wakeup_ms */
  struct intake_core core;
  enum intake_question question; /* that is under way, */
  size_t commands, answered;     /* and its commands */
  size_t inflight;               /* the first length */
  struct intake_boot boot;
};

static struct intake_world world_of(const struct intake *self) {
  const struct outbox *outbox = self->outbox;
  return (struct intake_world){.now_ms = clock_monotonic_ms(),
                               .delivered = outbox->send_queue.gone,
                               .capacity = outbox_capacity(outbox),
                               .is_empty = outbox_is_empty(outbox),
                               .has_lost_data = delivery_has_lost_data(outbox->delivery)};
}

/* --- questions, on the connection of the outbox, between two batches -------------------------- */

/* The newest entry of the stream: [[id, [field, value]]]. */
static void read_events(struct intake_interrupted *self, const redisReply *reply) {
  const redisReply *at = reply;
  for (size_t deep = 0; deep < 3 && at != NULL; deep++)
    at = at->type == REDIS_REPLY_ARRAY && at->elements > 0 ? at->element[at->elements - 1] : NULL;
  self->events = -1;
  self->version = 1;
  if (self->id == NULL)
    self->events = 0;
  else if (at != NULL && at->type == REDIS_REPLY_STRING)
    self->events = step_event_read_seq(at->str, at->len, self->id, &self->version);
}

static size_t length_of(const redisReply *reply) {
  return reply->type == REDIS_REPLY_INTEGER && reply->integer > 0 ? (size_t)reply->integer : 0;
}

static struct payload payload_of(const redisReply *reply, bool whole) {
  return (struct payload){.bytes = reply->str, .length = reply->len, .is_truncated = !whole};
}

static void on_boot(struct intake *self, size_t number, const redisReply *reply, bool whole) {
  struct intake_boot *boot = &self->boot;
  bool is_there = reply->type == REDIS_REPLY_STRING;
  if (number == 0) {
    *boot = (struct intake_boot){.interrupted.id =
                                     is_there ? memory_copy(reply->str, reply->len) : NULL};
  } else if (number == 1) {
    read_events(&boot->interrupted, reply);
  } else if (number == 2) {
    boot->inflight = length_of(reply);
  } else if (number == 3) {
    boot->in = length_of(reply);
  } else if (is_there) {
    struct payload message = payload_of(reply, whole);
    intake_core_message(&self->core, &message);
  }
  if (number + 1 < self->commands)
    return;
  boot->had_owner = delivery_had_owner(self->outbox->delivery);
  boot->has_more_messages = is_there && !control_messages_is_full(&self->core.control);
  intake_core_boot(&self->core, boot);
  boot->interrupted.id = NULL;
}

static void on_page(struct intake *self, size_t number, const redisReply *reply, bool whole) {
  struct payload step = payload_of(reply, whole);
  bool is_there = reply->type == REDIS_REPLY_STRING;
  if (is_there)
    intake_core_page_step(&self->core, &step);
  if (number + 1 == self->commands)
    intake_core_page_end(&self->core, !is_there);
}

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  struct intake *self = owner;
  size_t number = self->answered++;
  if (self->question == INTAKE_ASKS_BOOT)
    on_boot(self, number, reply, whole);
  else if (self->question == INTAKE_ASKS_PAGE)
    on_page(self, number, reply, whole);
  else if (number == 0)
    self->inflight = length_of(reply);
  else
    intake_core_lengths(&self->core, self->inflight, length_of(reply));
  if (self->answered == self->commands)
    self->handler->changed(self->owner);
}

static void ask(void *owner, enum intake_question question, size_t position, size_t count) {
  struct intake *self = owner;
  const struct keys *keys = self->keys;
  const char *commands[COMMANDS_MAX][COMMAND_LIST_WORDS] = {
      {"GET", keys->started},
      {"XREVRANGE", keys->events, "+", "-", "COUNT", "1"},
      {"LLEN", keys->inflight},
      {"LLEN", keys->in}};
  char positions[INTAKE_PAGE_MAX][24];
  size_t first = question == INTAKE_ASKS_BOOT ? 0 : 2;
  size_t end = question == INTAKE_ASKS_PAGE ? first : BOOT_COMMANDS;
  const char *list = keys->inflight;
  if (question == INTAKE_ASKS_LENGTHS)
    count = 0;
  if (question == INTAKE_ASKS_BOOT) { /* twice as many messages as are known */
    list = keys->control;
    count =
        self->core.control.count < INTAKE_PAGE_MAX ? self->core.control.count + 1 : INTAKE_PAGE_MAX;
    position = self->core.control.count + count;
  }
  if (question == INTAKE_ASKS_PAGE && count > position)
    count = position;
  for (size_t i = 0; i < count; i++) {
    size_t at = question == INTAKE_ASKS_BOOT ? self->core.control.count + 1 + i : position - i;
    (void)snprintf(positions[i], sizeof positions[i], "-%zu", at);
    commands[end][0] = "LINDEX";
    commands[end][1] = list;
    commands[end][2] = positions[i];
    for (size_t j = 3; j < COMMAND_LIST_WORDS; j++)
      commands[end][j] = NULL;
    end++;
  }
  self->question = question;
  self->commands = end - first;
  self->answered = 0;
  delivery_query(self->outbox->delivery, command_list_new(commands + first, end - first), on_answer,
                 self);
}

/* --- the consumer's connection ---------------------------------------------------------------- */

static void on_step(void *owner, const struct payload *payload) {
  struct intake *self = owner;
  intake_core_take_step(&self->core, payload);
  /* A large payload takes a while; timers that start from here on start now. */
  (void)event_base_update_cache_time(self->base);
  self->handler->changed(self->owner);
}

static void on_nothing(void *owner) {
  struct intake *self = owner;
  intake_core_nothing(&self->core);
  self->handler->changed(self->owner);
}

/* The page begins with its newest step. */
static void on_search_page(void *owner, size_t length, const redisReply *steps) {
  struct intake *self = owner;
  size_t count = steps != NULL ? steps->elements : 0;
  intake_core_see_page(&self->core, length);
  for (size_t i = count; i-- > 0;) {
    struct payload step = payload_of(steps->element[i], true);
    intake_core_see_step(&self->core, &step);
  }
  enum intake_page page = steps == NULL                     ? INTAKE_PAGE_CUT
                          : count < self->core.search.count ? INTAKE_PAGE_LAST
                                                            : INTAKE_PAGE_WHOLE;
  intake_core_see_end(&self->core, page);
  self->handler->changed(self->owner);
}

static void on_denied(void *owner) {
  struct intake *self = owner;
  intake_core_search_denied(&self->core);
  self->handler->changed(self->owner);
}

static void on_reconnected(void *owner) {
  struct intake *self = owner;
  intake_core_reconnected(&self->core);
  self->handler->changed(self->owner);
}

static void on_failed(void *owner, const struct error *error) {
  struct intake *self = owner;
  self->handler->failed(self->owner, error);
}

/* --- actions ---------------------------------------------------------------------------------- */

static void take(void *owner) {
  consumer_take(((struct intake *)owner)->consumer);
}

static void search(void *owner, size_t skip, size_t count) {
  consumer_search(((struct intake *)owner)->consumer, skip, count);
}

static uint64_t write_record(void *owner, const struct outbox_record *record) {
  return outbox_write(((struct intake *)owner)->outbox, record);
}

static void arrived(void *owner) {
  struct intake *self = owner;
  self->handler->arrived(self->owner);
}

static void cancel(void *owner, const char *step_id) {
  struct intake *self = owner;
  self->handler->cancel(self->owner, step_id);
}

static bool interrupted(void *owner) {
  struct intake *self = owner;
  return self->handler->interrupted(self->owner);
}

static void answered(void *owner, const struct step_result *result) {
  struct intake *self = owner;
  self->handler->answered(self->owner, result);
}

LOOP_CALLBACK(on_wakeup, struct intake *self) {
  self->handler->changed(self->owner);
}

/* --- the intake itself ------------------------------------------------------------------------ */

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
  static const struct intake_actions actions = {.take = take,
                                                .search = search,
                                                .ask = ask,
                                                .write = write_record,
                                                .arrived = arrived,
                                                .cancel = cancel,
                                                .interrupted = interrupted,
                                                .answered = answered};
  struct intake *self = memory_allocate(sizeof *self);
  *self = (struct intake){
      .base = base, .outbox = outbox, .keys = keys, .handler = handler, .owner = owner};
  intake_core_init(&self->core, log, &actions, self);
  self->consumer = consumer_new(base, log, url, keys, &consumer_handler, self);
  self->wakeup = loop_timer_new(base, on_wakeup, self);
  return self;
}

void intake_free(struct intake *self) {
  intake_core_release(&self->core);
  free(self->boot.interrupted.id);
  consumer_free(self->consumer);
  event_free(self->wakeup);
  free(self);
}

struct intake_core *intake_core_of(struct intake *self) {
  return &self->core;
}

void intake_prepare(struct intake *self) {
  consumer_prepare(self->consumer);
}

void intake_advance(struct intake *self) {
  struct intake_world world = world_of(self);
  intake_core_advance(&self->core, &world);
  int64_t wakeup_ms = intake_core_wakeup_ms(&self->core);
  if (wakeup_ms != 0)
    loop_timer_start(self->wakeup, wakeup_ms - world.now_ms);
}

static void hold_result(void *owner, const char *json, size_t length) {
  struct intake *self = owner;
  struct json_member id;
  struct error error;
  if (!json_member_find(json, length, "stepId", &id))
    return;
  cJSON *text = json_tree_parse(id.text, id.length, &error);
  if (cJSON_IsString(text))
    intake_core_hold(&self->core, text->valuestring);
  cJSON_Delete(text);
}

static void hold_results(void *owner) {
  struct intake *self = owner;
  outbox_each_result(self->outbox, hold_result, self);
}

bool intake_lose_data(struct intake *self) {
  struct intake_world world = world_of(self);
  return intake_core_lose_data(&self->core, &world, hold_results);
}

void intake_stop(struct intake *self) {
  intake_core_stop(&self->core);
  consumer_stop(self->consumer);
}

bool intake_is_stopped(const struct intake *self) {
  return self->core.state == INTAKE_STOPPED;
}

static void log_result(void *owner, const char *json, size_t length) {
  log_line(owner, LOG_ERROR, NULL, "undelivered result: %.*s", (int)length, json);
}

void intake_log_undelivered(const struct intake *self, const struct log *log) {
  outbox_each_result(self->outbox, log_result, (struct log *)(uintptr_t)log);
}

uint64_t intake_reconnections(const struct intake *self) {
  return consumer_reconnections(self->consumer);
}

void intake_dump(const struct intake *self) {
  static const char *const states[] = {"compares inflight",
                                       "waits for an earlier agent's processes",
                                       "reads inflight",
                                       "writes",
                                       "ready",
                                       "stopped"};
  static const char *const activities[] = {"idle", "waits for a step", "waits for a step",
                                           "looks for cancelled steps"};
  const struct intake_core *core = &self->core;
  log_line(core->log, LOG_WARN, NULL, "state: intake: %s, %s, %s, %zu control messages",
           states[core->state], activities[core->activity],
           core->fetched != NULL ? "one step fetched ahead" : "no step fetched ahead",
           core->control.count);
}
