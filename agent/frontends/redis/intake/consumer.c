#include "agent/frontends/redis/intake/consumer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/memory.h"

/* How long a reply may take: Redis replies within CONSUMER_BLOCK_SECONDS, and the network may need
   3 s. */
#define REPLY_MS (CONSUMER_BLOCK_SECONDS * 1000 + 3000)

/* BLMOVE has not waited if it returns without a step before EARLY_MS. After more than
   EARLY_REPLIES_MAX such replies in a row, the connection is closed; reconnecting makes a pause. */
#define EARLY_MS 1000
#define EARLY_REPLIES_MAX 3

/* The request without a complete reply. */
enum work { NOTHING, TAKE, SEARCH };

struct consumer {
  const struct consumer_handler *handler;
  void *owner;
  struct redis_connection *connection;
  const char *key;
  char *move;     /* BLMOVE, or BRPOPLPUSH on a Redis older than 6.2 */
  char *old_move; /* BRPOPLPUSH; NULL once it is in use */
  char *search;   /* LLEN and LRANGE */
  enum work work;
  size_t length;   /* of `in`, from LLEN */
  unsigned due;    /* how many replies are due on this connection */
  int64_t sent_ms; /* when the last request was sent; 0: none was sent yet */
  unsigned early;  /* successive replies without a step for which Redis did not wait */
  bool was_lost;   /* the connection was lost after a request and was not ready since */
};

static void send_request(struct consumer *self) {
  self->due = self->work == SEARCH ? 2 : 1;
  self->sent_ms = clock_monotonic_ms();
  redis_connection_send(self->connection, self->work == SEARCH ? self->search : self->move);
  redis_connection_set_reply_timeout(self->connection, REPLY_MS);
}

static void on_ready(void *owner, const struct reply *value) {
  (void)value;
  struct consumer *self = owner;
  bool was_lost = self->was_lost;
  self->was_lost = false;
  self->due = 0;
  if (was_lost) {
    self->work = NOTHING;
    self->handler->reconnected(self->owner);
  } else if (self->work != NOTHING) {
    send_request(self);
  }
}

static void on_disconnected(void *owner) {
  struct consumer *self = owner;
  self->was_lost = self->sent_ms > 0;
}

/* Redis has not executed the command. After an error that reconnecting may solve, such as a change
   of role, reconnected() follows, because Redis may have lost data, too. */
static void on_error(struct consumer *self, const char *text) {
  static const char unknown[] = "ERR unknown command", denied[] = "NOPERM";
  if (self->work == TAKE && self->old_move != NULL &&
      strncmp(text, unknown, sizeof unknown - 1) == 0) {
    free(self->move);
    self->move = self->old_move;
    self->old_move = NULL;
    send_request(self);
    return;
  }
  if (redis_connection_recover(self->connection, text))
    return;
  if (self->work == SEARCH && strncmp(text, denied, sizeof denied - 1) == 0) {
    self->work = NOTHING;
    self->handler->denied(self->owner);
    return;
  }
  struct error error;
  (void)error_set(&error, "redis refuses %s %.120s: %.100s",
                  self->work == SEARCH     ? "LRANGE"
                  : self->old_move != NULL ? "BLMOVE"
                                           : "BRPOPLPUSH",
                  self->key, redis_connection_explain(self->connection, text).text);
  redis_connection_stop(self->connection);
  self->handler->failed(self->owner, &error);
}

static const char *const unexpected_reply = "the reply does not fit the request";

/* Returns why a reply to BLMOVE, which is not an error, is wrong; NULL if it is right. */
static const char *find_fault(struct consumer *self, const struct reply *reply) {
  bool is_early = reply->type == REPLY_NIL && clock_monotonic_ms() - self->sent_ms < EARLY_MS;
  self->early = is_early ? self->early + 1 : 0;
  if (reply->type != REPLY_STRING && reply->type != REPLY_NIL)
    return unexpected_reply;
  return self->early > EARLY_REPLIES_MAX ? "it answers at once instead of waiting for a step"
                                         : NULL;
}

static bool is_list(const struct reply *reply) {
  if (reply->type != REPLY_ARRAY)
    return false;
  for (size_t i = 0; i < reply->elements; i++)
    if (reply->element[i]->type != REPLY_STRING)
      return false;
  return true;
}

static void finish(struct consumer *self) {
  self->work = NOTHING;
  redis_connection_mark_healthy(self->connection);
  redis_connection_set_reply_timeout(self->connection, 0);
}

static void on_taken(struct consumer *self, const struct reply *reply) {
  const char *fault = find_fault(self, reply);
  if (fault != NULL) {
    redis_connection_reconnect(self->connection, fault);
    return;
  }
  finish(self);
  struct payload payload = payload_of(reply);
  if (reply->type == REPLY_STRING)
    self->handler->step(self->owner, &payload);
  else
    self->handler->nothing(self->owner);
}

static void on_page(struct consumer *self, const struct reply *reply) {
  if (self->due == 1 && reply->type == REPLY_INTEGER && reply->integer >= 0) {
    self->length = (size_t)reply->integer;
  } else if (self->due == 0 && (reply->is_truncated || is_list(reply))) {
    finish(self);
    self->handler->page(self->owner, self->length, reply->is_truncated ? NULL : reply);
  } else {
    redis_connection_reconnect(self->connection, unexpected_reply);
  }
}

static void on_reply(void *owner, const struct reply *reply) {
  struct consumer *self = owner;
  if (self->due == 0) {
    redis_connection_reconnect(self->connection, "an unexpected reply");
    return;
  }
  self->due--;
  if (reply->type == REPLY_ERROR)
    on_error(self, reply->str);
  else if (self->work == SEARCH)
    on_page(self, reply);
  else
    on_taken(self, reply);
}

static void on_failed(void *owner, const struct error *error) {
  struct consumer *self = owner;
  self->handler->failed(self->owner, error);
}

struct consumer *consumer_new(struct event_base *base, const struct log *log,
                              const struct redis_url *url, const struct keys *keys,
                              const struct consumer_handler *handler, void *owner) {
  static const struct redis_connection_handler redis_connection_handler = {
      .ready = on_ready, .reply = on_reply, .disconnected = on_disconnected, .failed = on_failed};
  struct consumer *self = memory_allocate(sizeof *self);
  *self = (struct consumer){.handler = handler, .owner = owner, .key = keys->in};
  char seconds[8];
  (void)snprintf(seconds, sizeof seconds, "%d", CONSUMER_BLOCK_SECONDS);
  self->move = command_new(COMMAND("BLMOVE", keys->in, keys->inflight, "RIGHT", "LEFT", seconds));
  self->old_move = command_new(COMMAND("BRPOPLPUSH", keys->in, keys->inflight, seconds));
  struct client_name name = keys_client_name(keys, "in");
  struct redis_connection_options options = {
      .url = url, .role = "consumer", .name = name.text, .largest_string = payload_limit};
  self->connection = redis_connection_new(base, log, &options, &redis_connection_handler, self);
  return self;
}

void consumer_free(struct consumer *self) {
  redis_connection_free(self->connection);
  free(self->move);
  free(self->old_move);
  free(self->search);
  free(self);
}

void consumer_prepare(struct consumer *self) {
  (void)redis_connection_start(self->connection);
}

static void begin(struct consumer *self, enum work work) {
  self->work = work;
  if (redis_connection_start(self->connection))
    send_request(self);
}

void consumer_take(struct consumer *self) {
  begin(self, TAKE);
}

void consumer_search(struct consumer *self, size_t skip, size_t count) {
  char first[24], last[24];
  (void)snprintf(first, sizeof first, "-%zu", skip + count);
  (void)snprintf(last, sizeof last, "-%zu", skip + 1);
  const char *const commands[][COMMAND_LIST_WORDS] = {{"LLEN", self->key},
                                                      {"LRANGE", self->key, first, last}};
  free(self->search);
  self->search = command_list_new(commands, 2);
  begin(self, SEARCH);
}

void consumer_stop(struct consumer *self) {
  self->work = NOTHING;
  redis_connection_stop(self->connection);
}

uint64_t consumer_reconnections(const struct consumer *self) {
  return redis_connection_reconnections(self->connection);
}
