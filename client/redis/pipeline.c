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

struct question {
  struct question *next;
  char *command; /* encoded */
  size_t length;
  server_take *take; /* NULL: nobody waits for the answer; it is asked until there is one */
  void *owner;
};

struct server {
  struct event_base *base;
  struct log log; /* to nowhere: what is wrong is told by server_connection_error */
  struct redis_connection *client;
  struct question *first, **end; /* those that are not answered; where the next one is put */
  struct question **unsent;      /* the first that was not sent whole, or the end */
  size_t sent;                   /* bytes of that one */
  const int *signal;             /* not 0: calls end; NULL: there is none */
  int64_t away_ms;               /* monotonic: since when; 0: it is connected */
  bool has_failed;
  struct error failure; /* that does not pass */
};

static void send_more(struct server *self) {
  while (*self->unsent != NULL && redis_connection_is_ready(self->client)) {
    struct question *question = *self->unsent;
    struct iovec piece = {question->command + self->sent, question->length - self->sent};
    self->sent += redis_connection_write(self->client, &piece, 1);
    if (self->sent < question->length)
      break;
    self->unsent = &question->next;
    self->sent = 0;
  }
  redis_connection_set_reply_timeout(self->client, self->first != NULL ? ANSWER_MS : 0);
}

static void free_question(struct question *question) {
  free(question->command);
  free(question);
}

static void add_question(struct server *self, struct question *question) {
  question->next = NULL;
  *self->end = question;
  self->end = &question->next;
}

/* Empties the queue; returns what was in it. */
static struct question *take_questions(struct server *self) {
  struct question *first = self->first;
  self->first = NULL;
  self->end = self->unsent = &self->first;
  self->sent = 0;
  return first;
}

static void answer(struct server *self, const redisReply *reply) {
  struct question *question = self->first;
  self->first = question->next;
  if (self->unsent == &question->next)
    self->unsent = &self->first;
  if (self->end == &question->next)
    self->end = &self->first;
  if (self->first == NULL)
    redis_connection_set_reply_timeout(self->client, 0);
  if (question->take != NULL)
    question->take(question->owner, reply);
  free_question(question);
}

static void drop_questions(struct server *self) {
  struct question *next;
  for (struct question *question = take_questions(self); question != NULL; question = next) {
    next = question->next;
    free_question(question);
  }
}

static void on_ready(void *owner, const redisReply *value) {
  (void)value;
  send_more(owner);
}

/* A Redis that stands still is connected to, too. */
static void on_greeted(void *owner) {
  struct server *self = owner;
  self->away_ms = 0;
}

/* What is asked of another node, or later, is asked anew: see on_disconnected. */
static void on_reply(void *owner, const redisReply *reply) {
  struct server *self = owner;
  redis_connection_mark_healthy(self->client);
  if (reply->type == REDIS_REPLY_ERROR && redis_connection_recover(self->client, reply->str))
    return;
  if (self->unsent != &self->first)
    answer(self, reply);
  else
    redis_connection_reconnect(self->client, "a reply to no request");
}

static void on_writable(void *owner) {
  send_more(owner);
}

/* What was sent is lost with the connection, but for what is asked until there is an answer. */
static void on_disconnected(void *owner) {
  struct server *self = owner;
  if (self->away_ms == 0)
    self->away_ms = clock_monotonic_ms();
  bool was_sent = self->unsent != &self->first || self->sent > 0;
  const struct question *unsent = self->sent > 0 ? (*self->unsent)->next : *self->unsent;
  struct question *lost = NULL, **end = &lost, *next;
  for (struct question *question = take_questions(self); question != NULL; question = next) {
    next = question->next;
    was_sent = was_sent && question != unsent;
    if (was_sent && question->take != NULL) {
      question->next = NULL;
      *end = question;
      end = &question->next;
    } else {
      add_question(self, question);
    }
  }
  for (; lost != NULL; lost = next) {
    next = lost->next;
    lost->take(lost->owner, NULL);
    free_question(lost);
  }
}

static void on_failed(void *owner, const struct error *error) {
  struct server *self = owner;
  self->has_failed = true;
  self->failure = *error;
  struct question *next;
  for (struct question *lost = take_questions(self); lost != NULL; lost = next) {
    next = lost->next;
    if (lost->take != NULL)
      lost->take(lost->owner, NULL);
    free_question(lost);
  }
}

static size_t largest_string(void) {
  return SERVER_STRING_MAX;
}

struct server *server_new(struct event_base *base, const struct redis_url *url, const char *name) {
  static const struct redis_connection_handler handler = {.ready = on_ready,
                                                          .greeted = on_greeted,
                                                          .reply = on_reply,
                                                          .writable = on_writable,
                                                          .disconnected = on_disconnected,
                                                          .failed = on_failed};
  struct server *self = memory_allocate(sizeof *self);
  *self = (struct server){
      .base = base, .log = {.least = LOG_ERROR, .fd = -1}, .away_ms = clock_monotonic_ms()};
  (void)take_questions(self);
  const struct redis_connection_options options = {.url = url,
                                                   .role = "client",
                                                   .name = name,
                                                   .early = true,
                                                   .keep_memory = true,
                                                   .largest_string = largest_string};
  self->client = redis_connection_new(base, &self->log, &options, &handler, self);
  (void)redis_connection_start(self->client);
  return self;
}

void server_ask(struct server *self, const char *const *words, server_take *take, void *owner) {
  struct question *question = memory_allocate(sizeof *question);
  size_t count = 0;
  while (words[count] != NULL)
    count++;
  *question = (struct question){.command = command_new(words, count), .take = take, .owner = owner};
  question->length = strlen(question->command);
  add_question(self, question);
  send_more(self);
}

bool server_is_cut(const struct server *self) {
  return redis_connection_reply_is_truncated(self->client);
}

int64_t server_away_ms(const struct server *self) {
  return self->away_ms == 0 ? 0 : clock_monotonic_ms() - self->away_ms + 1;
}

bool server_is_unreachable(const struct server *self) {
  return redis_connection_is_unreachable(self->client);
}

bool server_has_failed(const struct server *self) {
  return self->has_failed;
}

void server_connection_error(const struct server *self, struct error *error) {
  if (self->has_failed)
    *error = self->failure;
  else
    redis_connection_error(self->client, error);
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
    (void)error_set(self->error, "%s",
                    redis_connection_explain(self->server->client, reply->str).text);
    self->state = CALL_REFUSED;
  } else {
    self->take(self->owner, reply);
    self->state = CALL_DONE;
  }
}

#define TURN_MS 200

/* An answer that comes at all comes within this, mostly. */
#define HEED_MS 400

LOOP_CALLBACK(on_turn, struct server *self) {
  (void)self; /* the loop returns */
}

void server_turn(struct server *self) {
  struct event *turn = loop_timer_new(self->base, on_turn, self);
  loop_timer_start(turn, TURN_MS);
  (void)event_base_loop(self->base, EVLOOP_ONCE);
  event_free(turn);
}

/* The answers may come yet: the connection is made anew. */
void server_forget(struct server *self) {
  bool was_sent = self->unsent != &self->first || self->sent > 0;
  drop_questions(self);
  if (was_sent)
    redis_connection_reconnect(self->client, "given up");
}

static bool has_orders(const struct server *self) {
  const struct question *question = self->first;
  while (question != NULL && question->take != NULL)
    question = question->next;
  return question != NULL;
}

void server_settle(struct server *self) {
  const int64_t begin_ms = clock_monotonic_ms();
  while (has_orders(self) && !self->has_failed && !server_is_stopped(self, begin_ms) &&
         clock_monotonic_ms() - begin_ms <= SERVER_PATIENCE_MS)
    server_turn(self);
  if (has_orders(self))
    server_forget(self);
}

void server_free(struct server *self) {
  if (self == NULL)
    return;
  server_settle(self);
  redis_connection_free(self->client);
  drop_questions(self);
  free(self);
}

void server_heed(struct server *self, const int *signal) {
  self->signal = signal;
}

bool server_is_stopped(const struct server *self, int64_t begin_ms) {
  return self->signal != NULL && *self->signal != 0 && clock_monotonic_ms() - begin_ms > HEED_MS;
}

int server_call(struct server *self, const char *const *words, server_take *take, void *owner,
                struct error *error) {
  struct call call = {.server = self, .take = take, .owner = owner, .error = error};
  bool is_away = self->has_failed;
  const int64_t begin_ms = clock_monotonic_ms();
  int64_t lost_ms = 0; /* for the first time: Redis may come back each time, and refuse again */
  if (!is_away)
    server_ask(self, words, take_call, &call);
  while (!is_away && (call.state == CALL_ASKED || call.state == CALL_LOST)) {
    server_turn(self);
    if (call.state == CALL_LOST && lost_ms == 0)
      lost_ms = clock_monotonic_ms();
    is_away = self->has_failed || server_away_ms(self) > SERVER_PATIENCE_MS ||
              server_is_stopped(self, begin_ms) ||
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
    server_connection_error(self, error);
  }
  return -1;
}

int server_next_page(struct server_pages *self, const char *const *words, server_take *take,
                     void *owner, struct error *error) {
  const int *signal = self->server->signal;
  if (self->asked > 0 && signal != NULL && *signal != 0)
    return error_set(error, "interrupted");
  if (self->asked == self->most)
    return error_set(error, "redis does not come to the end of %s: gave up after %zu replies",
                     words[0], self->asked);
  self->asked++;
  return server_call(self->server, words, take, owner, error);
}

/* --- what is taken ---------------------------------------------------------------------------- */

void server_take_number(void *number, const redisReply *reply) {
  *(int64_t *)number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
}

static bool is_text(const redisReply *reply) {
  return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

const char *server_text(const redisReply *reply) {
  return is_text(reply) ? reply->str : "";
}

static char *copy_text(const redisReply *reply) {
  return is_text(reply) ? memory_copy(reply->str, reply->len) : NULL;
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
    if (text != NULL) {
      self->texts[self->count++] = text;
      self->bytes += reply->element[i]->len;
    }
  }
}

void server_texts_append(struct server_texts *self, struct server_texts *more) {
  self->texts = memory_resize(self->texts, (self->count + more->count + 1) * sizeof *self->texts);
  if (more->count > 0)
    memcpy(self->texts + self->count, more->texts, more->count * sizeof *more->texts);
  self->count += more->count;
  self->bytes += more->bytes;
  more->count = 0;
  server_texts_release(more);
}

void server_texts_release(struct server_texts *self) {
  for (size_t i = 0; i < self->count; i++)
    free(self->texts[i]);
  free(self->texts);
  *self = (struct server_texts){0};
}
