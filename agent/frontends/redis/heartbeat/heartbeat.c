/*
 * Each time two commands are sent, SET heartbeat and GET committed (a probe). The second shows that
 * another agent has taken the job over, or that Redis lost data, so that the outbox need not probe
 * while it has nothing to send.
 */
#include "agent/frontends/redis/heartbeat/heartbeat.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

#define BEAT_COMMANDS 2

#define SECONDS_TEXT "10" /* HEARTBEAT_SECONDS */

/* Waits so long after the job was taken over: what the start still has to do comes first. */
#define CONNECT_MS 100

enum state { STOPPED, STARTED, BEATING, ENDING };

struct heartbeat {
  const struct heartbeat_handler *handler;
  void *owner;
  const struct log *log;
  const struct keys *keys;
  struct redis_connection *connection;
  struct event *tick;
  char *final_commands; /* GET committed */
  /* An idle agent does little but this, of thousands: the room of the last beat stays, and so do
     the answers to one while nothing happens. */
  struct buffer value, command;
  bool step_in_flight;
  enum state state;
  unsigned unanswered; /* commands */
  bool full;           /* Redis had no room for what was sent last */
  bool no_capacity;    /* it had none for the last SET */
  int64_t visible_ms;  /* monotonic: when the key was there last */
  bool reported;       /* the log says that it is not there */
};

/* Redis has answered that the key is there. */
static void confirm_visible(struct heartbeat *self) {
  int64_t now_ms = clock_monotonic_ms();
  if (self->reported)
    log_line(self->log, LOG_INFO, NULL, "redis heartbeat: visible again after %.1f s",
             (double)(now_ms - self->visible_ms) / 1000);
  self->reported = false;
  self->visible_ms = now_ms;
}

static void check_visible(struct heartbeat *self) {
  if (self->reported || clock_monotonic_ms() - self->visible_ms < HEARTBEAT_SECONDS * 1000)
    return;
  self->reported = true;
  log_line(self->log, LOG_WARN, NULL, "redis heartbeat: not visible for %d s%s", HEARTBEAT_SECONDS,
           self->no_capacity ? ": redis has no room for the key" : "");
}

static const char *make_value(struct heartbeat *self) {
  struct buffer *value = &self->value;
  value->length = 0;
  buffer_add_string(value, "{\"Ts\":");
  buffer_add_number(value, (unsigned long long)clock_unix_ms());
  buffer_add_string(value, ",\"Pid\":");
  buffer_add_number(value, (unsigned long long)getpid());
  buffer_add_string(value,
                    self->step_in_flight ? ",\"StepInFlight\":true" : ",\"StepInFlight\":false");
  self->handler->describe(self->owner, value);
  buffer_add(value, "}", sizeof "}");
  return value->bytes;
}

static void add_command(struct buffer *out, const struct command_word *words, size_t count) {
  const size_t length = command_length(words, count);
  (void)command_write(buffer_space(out, length), words, count);
  out->length += length;
}

static void add_set(struct heartbeat *self, struct buffer *out) {
  const char *value = make_value(self);
  const struct command_word words[] = {command_word("SET"),
                                       command_word(self->keys->heartbeat),
                                       {.text = value, .length = self->value.length - 1},
                                       command_word("EX"),
                                       command_word(SECONDS_TEXT)};
  add_command(out, words, sizeof words / sizeof *words);
}

/* A Redis without room refuses a SET, but an EXPIRE keeps the key that is there. */
static void add_expire(const struct heartbeat *self, struct buffer *out) {
  const struct command_word words[] = {command_word("EXPIRE"), command_word(self->keys->heartbeat),
                                       command_word(SECONDS_TEXT)};
  add_command(out, words, sizeof words / sizeof *words);
}

char *heartbeat_command(struct heartbeat *self) {
  struct buffer command = {0};
  add_set(self, &command);
  buffer_add(&command, "", 1);
  return command.bytes;
}

void heartbeat_set_in_flight(struct heartbeat *self, bool step_in_flight) {
  self->step_in_flight = step_in_flight;
}

static void beat(struct heartbeat *self) {
  self->command.length = 0;
  if (self->full)
    add_expire(self, &self->command);
  else
    add_set(self, &self->command);
  buffer_add_string(&self->command, self->final_commands);
  buffer_add(&self->command, "", 1);
  self->unanswered += BEAT_COMMANDS;
  redis_connection_send(self->connection, self->command.bytes);
}

static void end(struct heartbeat *self) {
  heartbeat_stop(self);
  self->handler->ended(self->owner);
}

/* Redis may be there and only this connection impossible: no name server, no room for one client
   more. */
static void take_fallback(struct heartbeat *self) {
  if (self->handler->fallback(self->owner, make_value(self), SECONDS_TEXT))
    confirm_visible(self);
}

static void beat_again(struct heartbeat *self) {
  if (self->unanswered > 0)
    self->handler->silent(self->owner);
  if (self->unanswered > BEAT_COMMANDS)
    redis_connection_reconnect(self->connection, "no answer in time");
  else
    beat(self);
}

LOOP_CALLBACK(on_tick, struct heartbeat *self) {
  if (self->state == ENDING) {
    end(self);
    return;
  }
  loop_timer_start(self->tick, HEARTBEAT_MS);
  if (self->state == STARTED) {
    self->state = BEATING;
    (void)redis_connection_start(self->connection);
    return;
  }
  if (redis_connection_is_ready(self->connection))
    beat_again(self);
  else
    take_fallback(self);
  check_visible(self);
}

static void take_committed(struct heartbeat *self, const redisReply *reply) {
  if (!self->handler->committed(self->owner, reply->str, reply->len))
    heartbeat_stop(self);
}

/* After an outage `committed` is read before the key is set: another agent may own the job now. */
static void on_ready(void *owner, const redisReply *committed) {
  struct heartbeat *self = owner;
  take_committed(self, committed);
  if (self->state != BEATING)
    return;
  loop_timer_start(self->tick, HEARTBEAT_MS);
  beat(self);
}

static void on_failed(void *owner, const struct error *error) {
  struct heartbeat *self = owner;
  heartbeat_stop(self);
  self->handler->failed(self->owner, error);
}

static void take_refusal(struct heartbeat *self, const char *text) {
  if (redis_connection_recover(self->connection, text))
    return;
  struct error error;
  (void)error_set(&error, "redis refuses the heartbeat %.80s: %.120s", self->keys->heartbeat,
                  redis_connection_explain(self->connection, text).text);
  on_failed(self, &error);
}

/* Without a key EXPIRE does nothing. */
static void take_beat(struct heartbeat *self, const redisReply *reply) {
  bool set = reply->type != REDIS_REPLY_INTEGER;
  redis_connection_mark_healthy(self->connection);
  self->no_capacity &= !set;
  if (set || reply->integer == 1)
    confirm_visible(self);
}

static void take(struct heartbeat *self, const redisReply *reply, bool of_probe) {
  bool refused = reply->type == REDIS_REPLY_ERROR;
  if (!of_probe)
    self->full = refused && strncmp(reply->str, "OOM ", 4) == 0;
  if (self->full && !of_probe)
    self->no_capacity = true;
  else if (refused)
    take_refusal(self, reply->str);
  else if (of_probe)
    take_committed(self, reply);
  else
    take_beat(self, reply);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct heartbeat *self = owner;
  if (self->unanswered == 0) {
    redis_connection_reconnect(self->connection, "an answer nobody asked for");
    return;
  }
  self->unanswered--;
  if (self->state == BEATING)
    take(self, reply, self->unanswered % BEAT_COMMANDS == 0);
  else if (self->state == ENDING && self->unanswered == 0)
    end(self);
}

static void on_down(void *owner) {
  struct heartbeat *self = owner;
  self->unanswered = 0;
  self->no_capacity = false;
  if (self->state == ENDING)
    end(self);
}

struct heartbeat *heartbeat_new(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const struct keys *keys,
                                const char *name, const struct heartbeat_handler *handler,
                                void *owner) {
  static const struct redis_connection_handler redis_connection_handler = {
      .ready = on_ready, .reply = on_reply, .disconnected = on_down, .failed = on_failed};
  struct heartbeat *self = memory_allocate(sizeof *self);
  *self = (struct heartbeat){.handler = handler, .owner = owner, .log = log, .keys = keys};
  self->final_commands = command_new((const char *[]){"GET", keys->committed}, 2);
  struct redis_connection_options options = {
      .url = url,
      .role = "heartbeat",
      .name = name,
      .final_commands = {.text = self->final_commands,
                         .length = strlen(self->final_commands),
                         .count = 1},
      .discard_values = true};
  self->connection = redis_connection_new(base, log, &options, &redis_connection_handler, self);
  self->tick = loop_timer_new(base, on_tick, self);
  return self;
}

void heartbeat_free(struct heartbeat *self) {
  redis_connection_free(self->connection);
  event_free(self->tick);
  free(self->final_commands);
  buffer_release(&self->value);
  buffer_release(&self->command);
  free(self);
}

uint64_t heartbeat_reconnections(const struct heartbeat *self) {
  return redis_connection_reconnections(self->connection);
}

void heartbeat_start(struct heartbeat *self) {
  self->state = STARTED;
  self->visible_ms = clock_monotonic_ms();
  loop_timer_start(self->tick, CONNECT_MS);
}

/* What is on its way must not arrive after the owner's DEL, which takes another connection. */
bool heartbeat_end(struct heartbeat *self) {
  if (self->state == ENDING)
    return false;
  if (self->state == BEATING && redis_connection_is_ready(self->connection) &&
      self->unanswered > 0) {
    self->state = ENDING;
    loop_timer_start(self->tick, HEARTBEAT_END_MS);
    return false;
  }
  heartbeat_stop(self);
  return true;
}

void heartbeat_stop(struct heartbeat *self) {
  self->state = STOPPED;
  (void)evtimer_del(self->tick);
  redis_connection_stop(self->connection);
}
