#include "client/redis/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "client/access.h"

#define TURN_MS 200

/* A loss is reported after this time if connecting has failed, or if there is no answer at all. */
#define FAILED_MS 500
#define SILENT_MS 2000

/* After a signal, a call still waits this long for its reply. */
#define STOP_MS 400

struct pending_command {
  struct pending_command *next;
  char *text; /* encoded */
  size_t length;
  reply_handler *handler; /* NULL: nobody waits for the reply anymore */
  void *owner;
};

struct pipeline {
  struct event_base *base;
  struct log log; /* writes nothing: pipeline_connection_error reports problems */
  struct redis_connection *connection;
  struct pending_command *first, **end; /* not answered yet, the oldest first */
  struct pending_command **unsent;      /* points to the first that was not sent completely */
  size_t sent;                          /* bytes of that one */
  const int *signal;                    /* calls stop if it is not 0; may be NULL */
  int64_t away_ms;                      /* monotonic time of the loss; 0 while connected */
  away_handler *on_away;                /* may be NULL */
  void *away_owner;
  bool is_away_reported;
  bool has_failed, fails_fast;
  struct error failure; /* why Redis refused the login */
};

/* --- the queue -------------------------------------------------------------------------------- */

static void send_pending(struct pipeline *self) {
  while (*self->unsent != NULL && redis_connection_is_ready(self->connection)) {
    struct pending_command *command = *self->unsent;
    struct iovec piece = {command->text + self->sent, command->length - self->sent};
    self->sent += redis_connection_write(self->connection, &piece, 1);
    if (self->sent < command->length)
      break;
    self->unsent = &command->next;
    self->sent = 0;
  }
  redis_connection_set_reply_timeout(self->connection,
                                     self->first != NULL ? PIPELINE_SILENT_MS : 0);
}

static struct pending_command *dequeue_all(struct pipeline *self) {
  struct pending_command *first = self->first;
  self->first = NULL;
  self->end = self->unsent = &self->first;
  self->sent = 0;
  return first;
}

static void complete(struct pending_command *command, const struct reply *reply) {
  if (command->handler != NULL)
    command->handler(command->owner, reply);
  free(command->text);
  free(command);
}

static void complete_first(struct pipeline *self, const struct reply *reply) {
  struct pending_command *command = self->first;
  self->first = command->next;
  if (self->unsent == &command->next)
    self->unsent = &self->first;
  if (self->end == &command->next)
    self->end = &self->first;
  if (self->first == NULL)
    redis_connection_set_reply_timeout(self->connection, 0);
  complete(command, reply);
}

static void complete_lost(struct pending_command *lost) {
  for (struct pending_command *next; lost != NULL; lost = next) {
    next = lost->next;
    complete(lost, NULL);
  }
}

static void drop_all(struct pipeline *self) {
  struct pending_command *commands = dequeue_all(self);
  for (struct pending_command *command = commands; command != NULL; command = command->next)
    command->handler = NULL;
  complete_lost(commands);
}

/* Reconnects if a command was sent already. */
static void discard_all(struct pipeline *self) {
  const bool must_reconnect = self->unsent != &self->first || self->sent > 0;
  drop_all(self);
  if (must_reconnect)
    redis_connection_reconnect(self->connection, "given up");
}

/* --- the connection --------------------------------------------------------------------------- */

static void on_ready(void *owner, const struct reply *value) {
  (void)value;
  send_pending(owner);
}

static void on_writable(void *owner) {
  send_pending(owner);
}

/* A connection alone does not count: the kernel connects to a frozen Redis, too. */
static void on_greeted(void *owner) {
  struct pipeline *self = owner;
  self->away_ms = 0;
  self->is_away_reported = false;
}

/* After redis_connection_recover the connection is lost, and on_disconnected follows. */
static void on_reply(void *owner, const struct reply *reply) {
  struct pipeline *self = owner;
  redis_connection_mark_healthy(self->connection);
  if (reply->type == REPLY_ERROR && redis_connection_recover(self->connection, reply->str))
    return;
  if (self->unsent != &self->first)
    complete_first(self, reply);
  else
    redis_connection_reconnect(self->connection, "an unexpected reply");
}

/* Keeps the commands that were not sent. */
static void on_disconnected(void *owner) {
  struct pipeline *self = owner;
  if (self->away_ms == 0)
    self->away_ms = clock_monotonic_ms();
  struct pending_command **unsent = self->sent > 0 ? &(*self->unsent)->next : self->unsent;
  struct pending_command *kept = *unsent, **end = self->end;
  *unsent = NULL;
  struct pending_command *lost = dequeue_all(self);
  if (kept != NULL) {
    self->first = kept;
    self->end = end;
  }
  complete_lost(lost);
}

static void on_failed(void *owner, const struct error *error) {
  struct pipeline *self = owner;
  self->has_failed = true;
  self->failure = *error;
  complete_lost(dequeue_all(self));
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
  (void)dequeue_all(self);
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

void pipeline_free(struct pipeline *self) {
  if (self == NULL)
    return;
  redis_connection_free(self->connection);
  drop_all(self);
  free(self);
}

int64_t pipeline_away_ms(const struct pipeline *self) {
  return self->away_ms == 0 ? 0 : clock_monotonic_ms() - self->away_ms + 1;
}

void pipeline_connection_error(const struct pipeline *self, struct error *error) {
  if (self->has_failed)
    *error = self->failure;
  else
    redis_connection_error(self->connection, error);
}

/* --- commands --------------------------------------------------------------------------------- */

void pipeline_send(struct pipeline *self, const char *const *words, reply_handler *handler,
                   void *owner) {
  struct pending_command *command = memory_allocate(sizeof *command);
  *command =
      (struct pending_command){.text = command_new(words), .handler = handler, .owner = owner};
  command->length = strlen(command->text);
  *self->end = command;
  self->end = &command->next;
  send_pending(self);
}

void pipeline_forget(struct pipeline *self, const void *owner) {
  for (struct pending_command *command = self->first; command != NULL; command = command->next)
    if (command->owner == owner)
      command->handler = NULL;
}

void pipeline_stop_on(struct pipeline *self, const int *signal) {
  self->signal = signal;
}

bool pipeline_is_stopped(const struct pipeline *self) {
  return self->signal != NULL && *self->signal != 0;
}

void pipeline_on_away(struct pipeline *self, away_handler *handler, void *owner) {
  self->on_away = handler;
  self->away_owner = owner;
}

void pipeline_report_away(struct pipeline *self) {
  struct error why;
  const bool has_attempted = redis_connection_is_unreachable(self->connection);
  if (self->on_away == NULL || self->is_away_reported || self->has_failed ||
      pipeline_away_ms(self) < (has_attempted ? FAILED_MS : SILENT_MS))
    return;
  self->is_away_reported = true;
  pipeline_connection_error(self, &why);
  self->on_away(self->away_owner, &why);
}

void pipeline_fail_fast(struct pipeline *self, bool fails_fast) {
  self->fails_fast = fails_fast;
}

/* Whether a signal stops a command that was sent at this time. */
static bool is_abandoned(const struct pipeline *self, int64_t begin_ms) {
  return pipeline_is_stopped(self) && clock_monotonic_ms() - begin_ms > STOP_MS;
}

struct pending_call {
  reply_handler *handler;
  void *owner;
  struct error *error;
  enum pipeline_answer answer; /* PIPELINE_NO_ANSWER: not yet */
};

static void on_call_reply(void *context, const struct reply *reply) {
  struct pending_call *self = context;
  if (reply == NULL) {
    self->answer = PIPELINE_LOST;
  } else if (reply->type == REPLY_ERROR) {
    (void)error_set(self->error, "%s", reply->str);
    self->answer = PIPELINE_REFUSED;
  } else {
    self->handler(self->owner, reply);
    self->answer = PIPELINE_ANSWERED;
  }
}

enum pipeline_answer pipeline_ask(struct pipeline *self, const char *const *words,
                                  reply_handler *handler, void *owner, int64_t timeout_ms,
                                  struct error *error) {
  struct pending_call call = {
      .handler = handler, .owner = owner, .error = error, .answer = PIPELINE_NO_ANSWER};
  const int64_t begin_ms = clock_monotonic_ms();
  int64_t left_ms = timeout_ms;
  if (!self->has_failed)
    pipeline_send(self, words, on_call_reply, &call);
  while (call.answer == PIPELINE_NO_ANSWER && !self->has_failed && !is_abandoned(self, begin_ms) &&
         !(self->fails_fast && redis_connection_is_unreachable(self->connection)) &&
         pipeline_away_ms(self) <= ACCESS_TIMEOUT_MS && left_ms > 0) {
    loop_turn(self->base, left_ms < TURN_MS ? left_ms : TURN_MS);
    pipeline_report_away(self);
    left_ms = timeout_ms - (clock_monotonic_ms() - begin_ms);
  }
  if (call.answer == PIPELINE_LOST || call.answer == PIPELINE_NO_ANSWER)
    pipeline_connection_error(self, error);
  if (call.answer == PIPELINE_NO_ANSWER)
    discard_all(self);
  return call.answer;
}

int pipeline_call(struct pipeline *self, const char *const *words, reply_handler *handler,
                  void *owner, struct error *error) {
  int64_t lost_ms = 0; /* the first loss: Redis may come back each time, and refuse each time */
  for (;;) {
    const enum pipeline_answer answer = pipeline_ask(self, words, handler, owner, INT64_MAX, error);
    const int64_t now_ms = clock_monotonic_ms();
    lost_ms = lost_ms != 0 ? lost_ms : now_ms;
    if (answer == PIPELINE_ANSWERED)
      return 0;
    if (answer == PIPELINE_REFUSED) {
      const struct error reply = *error;
      return error_set(error, "%s", redis_connection_explain(self->connection, reply.text).text);
    }
    if (answer == PIPELINE_NO_ANSWER || now_ms - lost_ms > ACCESS_TIMEOUT_MS ||
        is_abandoned(self, lost_ms))
      return -1;
  }
}

int pipeline_get(struct pipeline *self, const char *key, char **text, struct error *error) {
  *text = NULL;
  return pipeline_call(self, WORDS("GET", key), reply_to_text, text, error);
}

int pipeline_length(struct pipeline *self, const char *key, int64_t *length, struct error *error) {
  return pipeline_call(self, WORDS("LLEN", key), reply_to_number, length, error);
}

int pipeline_next_page(struct pipeline_pages *self, const char *const *words,
                       reply_handler *handler, void *owner, struct error *error) {
  if (self->count > 0 && pipeline_is_stopped(self->redis))
    return error_set(error, "interrupted");
  if (self->count == self->max)
    return error_set(error, "redis does not come to the end of %s: gave up after %zu replies",
                     words[0], self->count);
  self->count++;
  return pipeline_call(self->redis, words, handler, owner, error);
}

/* --- replies ---------------------------------------------------------------------------------- */

static bool is_text(const struct reply *reply) {
  return reply->type == REPLY_STRING || reply->type == REPLY_STATUS;
}

const char *reply_text(const struct reply *reply) {
  return is_text(reply) ? reply->str : "";
}

static char *copy_text(const struct reply *reply) {
  return is_text(reply) ? memory_copy(reply->str, reply->len) : NULL;
}

void reply_to_number(void *number, const struct reply *reply) {
  *(int64_t *)number = reply->type == REPLY_INTEGER ? reply->integer : -1;
}

void reply_to_text(void *text, const struct reply *reply) {
  *(char **)text = copy_text(reply);
}

void reply_to_nothing(void *nothing, const struct reply *reply) {
  (void)nothing;
  (void)reply;
}

void reply_to_texts(void *texts, const struct reply *reply) {
  *(struct texts *)texts = (struct texts){0};
  for (size_t i = 0; reply->type == REPLY_ARRAY && i < reply->elements; i++)
    if (is_text(reply->element[i]))
      texts_add(texts, copy_text(reply->element[i]));
}

void reply_to_time(void *unix_ms, const struct reply *reply) {
  const bool is_time = reply->type == REPLY_ARRAY && reply->elements == 2;
  *(int64_t *)unix_ms = is_time ? strtoll(reply_text(reply->element[0]), NULL, 10) * 1000 +
                                      strtoll(reply_text(reply->element[1]), NULL, 10) / 1000
                                : -1;
}

void texts_add(struct texts *self, char *text) {
  if (self->count == self->capacity) {
    self->capacity = self->capacity * 2 + 16;
    self->texts = memory_resize(self->texts, self->capacity * sizeof *self->texts);
  }
  self->texts[self->count++] = text;
  self->bytes += strlen(text);
}

void texts_release(struct texts *self) {
  for (size_t i = 0; i < self->count; i++)
    free(self->texts[i]);
  free(self->texts);
  *self = (struct texts){0};
}
