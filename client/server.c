#include "client/server.h"

#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/link/client.h"
#include "agent/doors/redis/link/command.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"

struct server {
  struct event_base *base;
  struct log log; /* to nowhere: what is wrong is told by server_trouble */
  struct client *client;
  char *command; /* encoded; NULL: nothing is asked */
  size_t length, sent;
  server_take *take;
  void *owner;
  int64_t away_ms; /* monotonic: since when; 0: it is connected */
  bool has_failed;
  struct error failure; /* that does not pass */
};

static void send_more(struct server *self) {
  if (self->command == NULL || !client_is_ready(self->client))
    return;
  struct iovec piece = {self->command + self->sent, self->length - self->sent};
  if (piece.iov_len > 0)
    self->sent += client_write(self->client, &piece, 1);
}

static void answer(struct server *self, const redisReply *reply) {
  if (self->command == NULL)
    return;
  free(self->command);
  self->command = NULL;
  self->take(self->owner, reply);
}

static void on_ready(void *owner, const redisReply *value) {
  struct server *self = owner;
  (void)value;
  self->away_ms = 0;
  send_more(self);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct server *self = owner;
  client_mark_healthy(self->client);
  if (reply->type == REDIS_REPLY_ERROR && client_recover(self->client, reply->str)) {
    self->sent = 0; /* it is sent anew to where the key is, or when the server takes it */
    return;
  }
  answer(self, reply);
}

static void on_writable(void *owner) {
  send_more(owner);
}

/* What was not sent yet is not lost with the connection. */
static void on_disconnected(void *owner) {
  struct server *self = owner;
  self->away_ms = clock_monotonic_ms();
  bool was_sent = self->sent > 0;
  self->sent = 0;
  if (was_sent)
    answer(self, NULL);
}

static void on_failed(void *owner, const struct error *error) {
  struct server *self = owner;
  self->has_failed = true;
  self->failure = *error;
  answer(self, NULL);
}

struct server *server_new(struct event_base *base, const struct redis_url *url, const char *name) {
  static const struct client_handler handler = {.ready = on_ready,
                                                .reply = on_reply,
                                                .writable = on_writable,
                                                .disconnected = on_disconnected,
                                                .failed = on_failed};
  struct server *self = memory_allocate(sizeof *self);
  *self = (struct server){
      .base = base, .log = {.least = LOG_ERROR, .fd = -1}, .away_ms = clock_monotonic_ms()};
  const struct client_options options = {
      .url = url, .role = "client", .name = name, .largest_string = SERVER_STRING_MAX};
  self->client = client_new(base, &self->log, &options, &handler, self);
  (void)client_start(self->client);
  return self;
}

void server_free(struct server *self) {
  if (self == NULL)
    return;
  client_free(self->client);
  free(self->command);
  free(self);
}

void server_ask(struct server *self, const char *const *words, server_take *take, void *owner) {
  size_t count = 0;
  CHECK(self->command == NULL);
  while (words[count] != NULL)
    count++;
  self->command = command_new(words, count);
  self->length = strlen(self->command);
  self->sent = 0;
  self->take = take;
  self->owner = owner;
  send_more(self);
}

bool server_is_cut(const struct server *self) {
  return client_reply_is_truncated(self->client);
}

int64_t server_away_ms(const struct server *self) {
  return self->away_ms == 0 ? 0 : clock_monotonic_ms() - self->away_ms + 1;
}

bool server_has_failed(const struct server *self) {
  return self->has_failed;
}

void server_trouble(const struct server *self, struct error *error) {
  if (self->has_failed)
    *error = self->failure;
  else
    client_trouble(self->client, error);
}

/* --- with the loop ---------------------------------------------------------------------------- */

struct call {
  struct server *server;
  server_take *take;
  void *owner;
  struct error *error;
  enum { CALL_ASKED, CALL_LOST, CALL_REFUSED, CALL_DONE } state;
};

static void take_call(void *context, const redisReply *reply) {
  struct call *self = context;
  if (reply == NULL) {
    self->state = CALL_LOST;
  } else if (reply->type == REDIS_REPLY_ERROR) {
    (void)error_set(self->error, "%s", client_explain(self->server->client, reply->str).text);
    self->state = CALL_REFUSED;
  } else {
    self->take(self->owner, reply);
    self->state = CALL_DONE;
  }
}

#define TURN_MS 200

LOOP_CALLBACK(on_turn, struct server *self) {
  (void)self; /* the loop returns */
}

void server_turn(struct server *self) {
  struct event *turn = loop_timer_new(self->base, on_turn, self);
  loop_timer_start(turn, TURN_MS);
  (void)event_base_loop(self->base, EVLOOP_ONCE);
  event_free(turn);
}

/* The answer may come yet: the connection is made anew. */
void server_forget(struct server *self) {
  free(self->command);
  self->command = NULL;
  if (self->sent > 0)
    client_reconnect(self->client, "given up");
  self->sent = 0;
}

int server_call(struct server *self, const char *const *words, server_take *take, void *owner,
                struct error *error) {
  struct call call = {.server = self, .take = take, .owner = owner, .error = error};
  bool is_away = self->has_failed;
  int64_t lost_ms = 0; /* for the first time: Redis may come back each time, and refuse again */
  if (!is_away)
    server_ask(self, words, take_call, &call);
  while (!is_away && (call.state == CALL_ASKED || call.state == CALL_LOST)) {
    server_turn(self);
    if (call.state == CALL_LOST && lost_ms == 0)
      lost_ms = clock_monotonic_ms();
    is_away = self->has_failed || server_away_ms(self) > SERVER_PATIENCE_MS ||
              (lost_ms > 0 && clock_monotonic_ms() - lost_ms > SERVER_PATIENCE_MS);
    if (call.state == CALL_LOST && !is_away) {
      call.state = CALL_ASKED;
      server_ask(self, words, take_call, &call);
    }
  }
  if (call.state == CALL_DONE)
    return 0;
  if (call.state != CALL_REFUSED) {
    server_forget(self);
    server_trouble(self, error);
  }
  return -1;
}

/* --- what is taken ---------------------------------------------------------------------------- */

void server_take_number(void *number, const redisReply *reply) {
  *(int64_t *)number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
}

static char *copy_text(const redisReply *reply) {
  bool is_text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
  return is_text ? memory_copy(reply->str, reply->len) : NULL;
}

void server_take_text(void *text, const redisReply *reply) {
  *(char **)text = copy_text(reply);
}

void server_take_nothing(void *nothing, const redisReply *reply) {
  (void)nothing;
  (void)reply;
}

void server_take_texts(void *texts, const redisReply *reply) {
  struct server_texts *self = texts;
  *self = (struct server_texts){0};
  if (reply->type != REDIS_REPLY_ARRAY)
    return;
  self->texts = memory_zeros((reply->elements + 1) * sizeof *self->texts);
  for (size_t i = 0; i < reply->elements; i++) {
    char *text = copy_text(reply->element[i]);
    if (text != NULL)
      self->texts[self->count++] = text;
  }
}

void server_texts_release(struct server_texts *self) {
  for (size_t i = 0; i < self->count; i++)
    free(self->texts[i]);
  free(self->texts);
  *self = (struct server_texts){0};
}
