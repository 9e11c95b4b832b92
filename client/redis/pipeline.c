#include "client/redis/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"

/* How long an answer may take to begin, and to go on: longer than a read waits for events. */
#define ANSWER_MS 10000

struct pending_command {
  struct pending_command *next;
  char *text; /* encoded */
  size_t length;
  reply_handler *take; /* NULL: nobody waits for the answer; it is asked until there is one */
  void *owner;
};

struct pipeline {
  struct event_base *base;
  struct log log; /* to nowhere: what is wrong is told by pipeline_connection_error */
  struct redis_connection *connection;
  struct pending_command *first, **end; /* those that are not answered; where the next one is put */
  struct pending_command **unsent;      /* the first that was not sent whole, or the end */
  size_t sent;                          /* bytes of that one */
  const int *signal;                    /* not 0: calls end; NULL: there is none */
  int64_t away_ms;                      /* monotonic: since when; 0: it is connected */
  bool has_failed;
  struct error failure; /* that does not pass */
};

static void send_more(struct pipeline *self) {
  while (*self->unsent != NULL && redis_connection_is_ready(self->connection)) {
    struct pending_command *command = *self->unsent;
    struct iovec piece = {command->text + self->sent, command->length - self->sent};
    self->sent += redis_connection_write(self->connection, &piece, 1);
    if (self->sent < command->length)
      break;
    self->unsent = &command->next;
    self->sent = 0;
  }
  redis_connection_set_reply_timeout(self->connection, self->first != NULL ? ANSWER_MS : 0);
}

static void free_command(struct pending_command *command) {
  free(command->text);
  free(command);
}

static void enqueue(struct pipeline *self, struct pending_command *command) {
  command->next = NULL;
  *self->end = command;
  self->end = &command->next;
}

/* Empties the queue; returns what was in it. */
static struct pending_command *take_all(struct pipeline *self) {
  struct pending_command *first = self->first;
  self->first = NULL;
  self->end = self->unsent = &self->first;
  self->sent = 0;
  return first;
}

static void answer(struct pipeline *self, const redisReply *reply) {
  struct pending_command *command = self->first;
  self->first = command->next;
  if (self->unsent == &command->next)
    self->unsent = &self->first;
  if (self->end == &command->next)
    self->end = &self->first;
  if (self->first == NULL)
    redis_connection_set_reply_timeout(self->connection, 0);
  if (command->take != NULL)
    command->take(command->owner, reply);
  free_command(command);
}

static void discard_all(struct pipeline *self) {
  struct pending_command *next;
  for (struct pending_command *command = take_all(self); command != NULL; command = next) {
    next = command->next;
    free_command(command);
  }
}

static void on_ready(void *owner, const redisReply *value) {
  (void)value;
  send_more(owner);
}

/* A Redis that stands still is connected to, too. */
static void on_greeted(void *owner) {
  struct pipeline *self = owner;
  self->away_ms = 0;
}

/* What is asked of another node, or later, is asked anew: see on_disconnected. */
static void on_reply(void *owner, const redisReply *reply) {
  struct pipeline *self = owner;
  redis_connection_mark_healthy(self->connection);
  if (reply->type == REDIS_REPLY_ERROR && redis_connection_recover(self->connection, reply->str))
    return;
  if (self->unsent != &self->first)
    answer(self, reply);
  else
    redis_connection_reconnect(self->connection, "a reply to no request");
}

static void on_writable(void *owner) {
  send_more(owner);
}

/* What was sent is lost with the connection, but for what is asked until there is an answer. */
static void on_disconnected(void *owner) {
  struct pipeline *self = owner;
  if (self->away_ms == 0)
    self->away_ms = clock_monotonic_ms();
  bool was_sent = self->unsent != &self->first || self->sent > 0;
  const struct pending_command *unsent = self->sent > 0 ? (*self->unsent)->next : *self->unsent;
  struct pending_command *lost = NULL, **end = &lost, *next;
  for (struct pending_command *command = take_all(self); command != NULL; command = next) {
    next = command->next;
    was_sent = was_sent && command != unsent;
    if (was_sent && command->take != NULL) {
      command->next = NULL;
      *end = command;
      end = &command->next;
    } else {
      enqueue(self, command);
    }
  }
  for (; lost != NULL; lost = next) {
    next = lost->next;
    lost->take(lost->owner, NULL);
    free_command(lost);
  }
}

static void on_failed(void *owner, const struct error *error) {
  struct pipeline *self = owner;
  self->has_failed = true;
  self->failure = *error;
  struct pending_command *next;
  for (struct pending_command *lost = take_all(self); lost != NULL; lost = next) {
    next = lost->next;
    if (lost->take != NULL)
      lost->take(lost->owner, NULL);
    free_command(lost);
  }
}

static size_t largest_string(void) {
  return PIPELINE_STRING_MAX;
}

struct pipeline *pipeline_new(struct event_base *base, const struct redis_url *url,
                              const char *name) {
  static const struct redis_connection_handler handler = {.ready = on_ready,
                                                          .greeted = on_greeted,
                                                          .reply = on_reply,
                                                          .writable = on_writable,
                                                          .disconnected = on_disconnected,
                                                          .failed = on_failed};
  struct pipeline *self = memory_allocate(sizeof *self);
  *self = (struct pipeline){
      .base = base, .log = {.least = LOG_ERROR, .fd = -1}, .away_ms = clock_monotonic_ms()};
  (void)take_all(self);
  const struct redis_connection_options options = {.url = url,
                                                   .role = "client",
                                                   .name = name,
                                                   .early = true,
                                                   .keep_memory = true,
                                                   .largest_string = largest_string};
  self->connection = redis_connection_new(base, &self->log, &options, &handler, self);
  (void)redis_connection_start(self->connection);
  return self;
}

void pipeline_send(struct pipeline *self, const char *const *words, reply_handler *take,
                   void *owner) {
  struct pending_command *command = memory_allocate(sizeof *command);
  size_t count = 0;
  while (words[count] != NULL)
    count++;
  *command =
      (struct pending_command){.text = command_new(words, count), .take = take, .owner = owner};
  command->length = strlen(command->text);
  enqueue(self, command);
  send_more(self);
}

bool pipeline_is_truncated(const struct pipeline *self) {
  return redis_connection_reply_is_truncated(self->connection);
}

int64_t pipeline_away_ms(const struct pipeline *self) {
  return self->away_ms == 0 ? 0 : clock_monotonic_ms() - self->away_ms + 1;
}

bool pipeline_is_unreachable(const struct pipeline *self) {
  return redis_connection_is_unreachable(self->connection);
}

bool pipeline_has_failed(const struct pipeline *self) {
  return self->has_failed;
}

void pipeline_connection_error(const struct pipeline *self, struct error *error) {
  if (self->has_failed)
    *error = self->failure;
  else
    redis_connection_error(self->connection, error);
}

/* --- with the loop ---------------------------------------------------------------------------- */

struct pending_call {
  struct pipeline *redis;
  reply_handler *take;
  void *owner;
  struct error *error;
  enum { CALL_ASKED, CALL_LOST, CALL_REFUSED, CALL_DONE } state;
};

static void take_call(void *context, const redisReply *reply) {
  struct pending_call *self = context;
  if (reply == NULL) {
    self->state = CALL_LOST;
  } else if (reply->type == REDIS_REPLY_ERROR) {
    (void)error_set(self->error, "%s",
                    redis_connection_explain(self->redis->connection, reply->str).text);
    self->state = CALL_REFUSED;
  } else {
    self->take(self->owner, reply);
    self->state = CALL_DONE;
  }
}

#define TURN_MS 200

/* An answer that comes at all comes within this, mostly. */
#define HEED_MS 400

LOOP_CALLBACK(on_turn, struct pipeline *self) {
  (void)self; /* the loop returns */
}

void pipeline_turn(struct pipeline *self) {
  struct event *turn = loop_timer_new(self->base, on_turn, self);
  loop_timer_start(turn, TURN_MS);
  (void)event_base_loop(self->base, EVLOOP_ONCE);
  event_free(turn);
}

/* The answers may come yet: the connection is made anew. */
void pipeline_discard(struct pipeline *self) {
  bool was_sent = self->unsent != &self->first || self->sent > 0;
  discard_all(self);
  if (was_sent)
    redis_connection_reconnect(self->connection, "given up");
}

static bool has_orders(const struct pipeline *self) {
  const struct pending_command *command = self->first;
  while (command != NULL && command->take != NULL)
    command = command->next;
  return command != NULL;
}

void pipeline_flush(struct pipeline *self) {
  const int64_t begin_ms = clock_monotonic_ms();
  while (has_orders(self) && !self->has_failed && !pipeline_is_stopped(self, begin_ms) &&
         clock_monotonic_ms() - begin_ms <= PIPELINE_TIMEOUT_MS)
    pipeline_turn(self);
  if (has_orders(self))
    pipeline_discard(self);
}

void pipeline_free(struct pipeline *self) {
  if (self == NULL)
    return;
  pipeline_flush(self);
  redis_connection_free(self->connection);
  discard_all(self);
  free(self);
}

void pipeline_stop_on(struct pipeline *self, const int *signal) {
  self->signal = signal;
}

bool pipeline_is_stopped(const struct pipeline *self, int64_t begin_ms) {
  return self->signal != NULL && *self->signal != 0 && clock_monotonic_ms() - begin_ms > HEED_MS;
}

int pipeline_call(struct pipeline *self, const char *const *words, reply_handler *take, void *owner,
                  struct error *error) {
  struct pending_call call = {.redis = self, .take = take, .owner = owner, .error = error};
  bool is_away = self->has_failed;
  const int64_t begin_ms = clock_monotonic_ms();
  int64_t lost_ms = 0; /* for the first time: Redis may come back each time, and refuse again */
  if (!is_away)
    pipeline_send(self, words, take_call, &call);
  while (!is_away && (call.state == CALL_ASKED || call.state == CALL_LOST)) {
    pipeline_turn(self);
    if (call.state == CALL_LOST && lost_ms == 0)
      lost_ms = clock_monotonic_ms();
    is_away = self->has_failed || pipeline_away_ms(self) > PIPELINE_TIMEOUT_MS ||
              pipeline_is_stopped(self, begin_ms) ||
              (lost_ms > 0 && clock_monotonic_ms() - lost_ms > PIPELINE_TIMEOUT_MS);
    if (call.state == CALL_LOST && !is_away) {
      call.state = CALL_ASKED;
      pipeline_send(self, words, take_call, &call);
    }
  }
  if (call.state == CALL_DONE)
    return 0;
  if (call.state != CALL_REFUSED) {
    pipeline_discard(self);
    pipeline_connection_error(self, error);
  }
  return -1;
}

int pipeline_next_page(struct pipeline_pages *self, const char *const *words, reply_handler *take,
                       void *owner, struct error *error) {
  const int *signal = self->redis->signal;
  if (self->asked > 0 && signal != NULL && *signal != 0)
    return error_set(error, "interrupted");
  if (self->asked == self->most)
    return error_set(error, "redis does not come to the end of %s: gave up after %zu replies",
                     words[0], self->asked);
  self->asked++;
  return pipeline_call(self->redis, words, take, owner, error);
}

/* --- what is taken ---------------------------------------------------------------------------- */

void reply_to_number(void *number, const redisReply *reply) {
  *(int64_t *)number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
}

static bool is_text(const redisReply *reply) {
  return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

const char *reply_text(const redisReply *reply) {
  return is_text(reply) ? reply->str : "";
}

static char *copy_text(const redisReply *reply) {
  return is_text(reply) ? memory_copy(reply->str, reply->len) : NULL;
}

void reply_to_text(void *text, const redisReply *reply) {
  *(char **)text = copy_text(reply);
}

void reply_to_nothing(void *nothing, const redisReply *reply) {
  (void)nothing;
  (void)reply;
}

void reply_to_texts(void *texts, const redisReply *reply) {
  struct texts *self = texts;
  *self = (struct texts){0};
  if (reply->type != REDIS_REPLY_ARRAY)
    return;
  self->texts = memory_zeros((reply->elements + 1) * sizeof *self->texts);
  for (size_t i = 0; i < reply->elements; i++) {
    char *text = copy_text(reply->element[i]);
    if (text != NULL) {
      self->texts[self->count++] = text;
      self->bytes += reply->element[i]->len;
    }
  }
}

void texts_append(struct texts *self, struct texts *more) {
  self->texts = memory_resize(self->texts, (self->count + more->count + 1) * sizeof *self->texts);
  if (more->count > 0)
    memcpy(self->texts + self->count, more->texts, more->count * sizeof *more->texts);
  self->count += more->count;
  self->bytes += more->bytes;
  more->count = 0;
  texts_release(more);
}

void texts_release(struct texts *self) {
  for (size_t i = 0; i < self->count; i++)
    free(self->texts[i]);
  free(self->texts);
  *self = (struct texts){0};
}
