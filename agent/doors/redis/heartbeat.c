/*
 * A beat is two commands, SET heartbeat and GET committed. The second tells of a job that another
 * agent has taken over, and of a Redis that has gone back to a time before, so that the outbox need
 * not ask for it while it has nothing to say.
 */
#include "agent/doors/redis/heartbeat.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/doors/redis/client/client.h"
#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/visibility.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "wire/heartbeat_json.h"
#include "wire/step.h"

#define BEAT_COMMANDS 2

#define SECONDS_TEXT "10" /* HEARTBEAT_SECONDS */

/* For the answers to a beat as a claim is. */
#define KNOWN_SIZE 128

/* After the claim: what the start still has to do goes first. */
#define CONNECT_MS 100

enum state { STOPPED, CLAIMED, BEATING, ENDING };

struct heartbeat {
  const struct heartbeat_handler *handler;
  void *owner;
  const struct log *log;
  const struct keys *keys;
  struct client *client;
  struct event *tick;
  char *look;      /* GET committed */
  char *beat;      /* SET heartbeat and the look; NULL: to be encoded */
  char *value;     /* in there */
  char *full_beat; /* EXPIRE heartbeat and the look, when Redis has no room */
  bool in_flight;  /* what `beat` says */
  enum state state;
  char known[KNOWN_SIZE]; /* the answers to a beat while nothing happens; empty: none was taken */
  const char *committed;  /* in there */
  unsigned unanswered;    /* commands; of a beat, both or the second */
  bool full;              /* Redis had no room for what was sent last */
  bool no_room;           /* it had none for the last SET */
  struct visibility visibility;
};

static void make_value(const struct heartbeat *self, char out[HEARTBEAT_JSON_SIZE]) {
  (void)heartbeat_json(clock_unix_ms(), (int)getpid(), self->handler->step_in_flight(self->owner),
                       out);
}

static char *encode(const struct heartbeat *self, bool with_look) {
  char value[HEARTBEAT_JSON_SIZE];
  make_value(self, value);
  const char *const commands[BEAT_COMMANDS][COMMAND_LIST_WORDS] = {
      {"SET", self->keys->heartbeat, value, "EX", SECONDS_TEXT}, {"GET", self->keys->committed}};
  return command_list_new(commands, with_look ? BEAT_COMMANDS : 1);
}

char *heartbeat_command(const struct heartbeat *self) {
  return encode(self, false);
}

/* From beat to beat little but the time changes, which is written into the old one: thousands of
   idle agents do nothing else. */
static const char *next_beat(struct heartbeat *self) {
  bool in_flight = self->handler->step_in_flight(self->owner);
  if (self->beat != NULL && in_flight == self->in_flight &&
      heartbeat_json_set_time(self->value, clock_unix_ms()))
    return self->beat;
  free(self->beat);
  self->in_flight = in_flight;
  self->beat = encode(self, true);
  /* Behind the key: a job id may hold anything. */
  char *key = strstr(self->beat, self->keys->heartbeat);
  self->value = strchr(key + strlen(self->keys->heartbeat), '{');
  return self->beat;
}

/* A Redis without room refuses a SET, but lets what is there live on. */
static void beat(struct heartbeat *self) {
  const char *text = self->full ? self->full_beat : next_beat(self);
  struct iovec piece = {.iov_base = (char *)(uintptr_t)text, .iov_len = strlen(text)};
  self->unanswered += BEAT_COMMANDS;
  if (client_write(self->client, &piece, 1) < piece.iov_len)
    client_reconnect(self->client, "the socket takes no more");
}

static void learn(struct heartbeat *self, const redisReply *committed) {
  int before = snprintf(self->known, sizeof self->known, "+OK\r\n$%zu\r\n", committed->len);
  self->committed = self->known + before;
  size_t rest = sizeof self->known - (size_t)before;
  if (committed->str == NULL || committed->len + sizeof "\r\n" > rest)
    self->known[0] = '\0';
  else
    (void)snprintf(self->known + before, rest, "%s\r\n", committed->str);
}

/* Mostly it is the same as the last time, and need not be taken apart. */
static void collect(struct heartbeat *self) {
  size_t length = self->unanswered == BEAT_COMMANDS ? strlen(self->known) : 0;
  if (!client_take_replies(self->client, self->known, length))
    return;
  self->unanswered = 0;
  client_mark_healthy(self->client);
  self->no_room = false;
  visibility_confirm(&self->visibility);
  size_t end = strlen("\r\n");
  if (!self->handler->committed(self->owner, self->committed, strlen(self->committed) - end))
    heartbeat_stop(self);
}

static void end(struct heartbeat *self) {
  heartbeat_stop(self);
  self->handler->ended(self->owner);
}

/* Redis may be there, and only the way to it closed: no name server, no room for a client more. */
static void take_detour(struct heartbeat *self) {
  char value[HEARTBEAT_JSON_SIZE];
  make_value(self, value);
  if (self->handler->detour(self->owner, value, SECONDS_TEXT))
    visibility_confirm(&self->visibility);
}

static void beat_again(struct heartbeat *self) {
  if (self->unanswered > 0)
    self->handler->silent(self->owner);
  if (self->unanswered > BEAT_COMMANDS)
    client_reconnect(self->client, "no answer in time");
  else
    beat(self);
}

static void on_tick(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct heartbeat *self = context;
  if (self->state == ENDING) {
    end(self);
    return;
  }
  loop_timer_start(self->tick, HEARTBEAT_MS);
  if (self->state == CLAIMED) {
    self->state = BEATING;
    (void)client_start(self->client);
    return;
  }
  collect(self);
  if (self->state != BEATING)
    return;
  if (client_is_ready(self->client))
    beat_again(self);
  else
    take_detour(self);
  visibility_check(&self->visibility, self->no_room);
}

static void take_committed(struct heartbeat *self, const redisReply *reply) {
  learn(self, reply);
  if (!self->handler->committed(self->owner, reply->str, reply->len))
    heartbeat_stop(self);
}

/* Who was away asks before it says that it is there: the job may be another's by now. */
static void on_ready(void *owner, const redisReply *committed) {
  struct heartbeat *self = owner;
  take_committed(self, committed);
  if (self->state != BEATING)
    return;
  loop_timer_start(self->tick, HEARTBEAT_MS);
  beat(self);
}

static void take_refusal(struct heartbeat *self, const char *text) {
  if (client_recover(self->client, text))
    return;
  struct error error;
  (void)error_set(&error, "redis refuses the heartbeat %.80s: %.120s", self->keys->heartbeat, text);
  heartbeat_stop(self);
  self->handler->failed(self->owner, &error);
}

/* Without a key EXPIRE does nothing. */
static void take_beat(struct heartbeat *self, const redisReply *reply) {
  bool set = reply->type != REDIS_REPLY_INTEGER;
  client_mark_healthy(self->client);
  self->no_room &= !set;
  if (set || reply->integer == 1)
    visibility_confirm(&self->visibility);
}

static void take(struct heartbeat *self, const redisReply *reply, bool of_look) {
  bool refused = reply->type == REDIS_REPLY_ERROR;
  if (!of_look)
    self->full = refused && strncmp(reply->str, "OOM ", 4) == 0;
  if (self->full && !of_look)
    self->no_room = true;
  else if (refused)
    take_refusal(self, reply->str);
  else if (of_look)
    take_committed(self, reply);
  else
    take_beat(self, reply);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct heartbeat *self = owner;
  if (self->unanswered == 0) {
    client_reconnect(self->client, "an answer nobody asked for");
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
  self->no_room = false;
  if (self->state == ENDING)
    end(self);
}

static void on_failed(void *owner, const struct error *error) {
  struct heartbeat *self = owner;
  bool ending = self->state == ENDING;
  heartbeat_stop(self);
  if (ending)
    self->handler->ended(self->owner);
  else
    self->handler->failed(self->owner, error);
}

struct heartbeat *heartbeat_new(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const struct keys *keys,
                                const char *name, const struct heartbeat_handler *handler,
                                void *owner) {
  static const struct client_handler client_handler = {
      .ready = on_ready, .reply = on_reply, .disconnected = on_down, .failed = on_failed};
  struct heartbeat *self = memory_allocate(sizeof *self);
  *self = (struct heartbeat){.handler = handler, .owner = owner, .log = log, .keys = keys};
  const char *const full_beat[BEAT_COMMANDS][COMMAND_LIST_WORDS] = {
      {"EXPIRE", keys->heartbeat, SECONDS_TEXT}, {"GET", keys->committed}};
  self->full_beat = command_list_new(full_beat, BEAT_COMMANDS);
  self->look = command_new((const char *[]){"GET", keys->committed}, 2);
  struct client_options options = {
      .url = url,
      .role = "heartbeat",
      .name = name,
      .probe = {.text = self->look, .length = strlen(self->look), .count = 1},
      .discard_values = true,
      .poll_replies = true,
      .retry_forever = true,
      .largest_string = STEP_PAYLOAD_MAX};
  self->client = client_new(base, log, &options, &client_handler, self);
  self->tick = loop_timer_new(base, on_tick, self);
  return self;
}

void heartbeat_free(struct heartbeat *self) {
  client_free(self->client);
  event_free(self->tick);
  free(self->look);
  free(self->beat);
  free(self->full_beat);
  free(self);
}

void heartbeat_start(struct heartbeat *self) {
  self->state = CLAIMED;
  visibility_init(&self->visibility, self->log);
  loop_timer_start(self->tick, CONNECT_MS);
}

/* What is on its way must not arrive behind the owner's DEL, which takes another connection. */
bool heartbeat_end(struct heartbeat *self) {
  if (self->state == ENDING)
    return false;
  if (self->state == BEATING && client_is_ready(self->client) && self->unanswered > 0) {
    self->state = ENDING;
    client_stop_polling(self->client);
    loop_timer_start(self->tick, HEARTBEAT_END_MS);
    return false;
  }
  heartbeat_stop(self);
  return true;
}

void heartbeat_stop(struct heartbeat *self) {
  self->state = STOPPED;
  (void)evtimer_del(self->tick);
  client_stop(self->client);
}
