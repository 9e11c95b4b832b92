#include "agent/doors/redis/delivery/exchange.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/net/error_reply.h"
#include "base/check.h"

static const char exec[] = "*1\r\n$4\r\nEXEC\r\n";

void exchange_init(struct exchange *self) {
  *self = (struct exchange){0};
}

void exchange_add(struct exchange *self, const char *text, size_t length, size_t commands) {
  CHECK(self->count < EXCHANGE_PIECES);
  self->counts[self->count] = commands;
  self->pieces[self->count++] =
      (struct iovec){.iov_base = (char *)(uintptr_t)text, .iov_len = length};
  self->length += length;
  self->commands += commands;
}

void exchange_add_exec(struct exchange *self) {
  CHECK(self->exec == 0 && self->commands > 0);
  self->exec = self->commands;
  exchange_add(self, exec, sizeof exec - 1, 1);
}

/* Fills in what is not sent yet; returns the number of pieces. */
static int rest_of(const struct exchange *self, struct iovec rest[EXCHANGE_PIECES]) {
  int count = 0;
  size_t skip = self->sent;
  for (int i = 0; i < self->count; i++) {
    size_t length = self->pieces[i].iov_len;
    if (skip < length)
      rest[count++] = (struct iovec){.iov_base = (char *)self->pieces[i].iov_base + skip,
                                     .iov_len = length - skip};
    skip -= skip < length ? skip : length;
  }
  return count;
}

void exchange_send(struct exchange *self, struct client *client) {
  struct iovec rest[EXCHANGE_PIECES];
  int count;
  while ((count = rest_of(self, rest)) > 0) {
    size_t written = client_write(client, rest, count);
    self->sent += written;
    if (written == 0)
      return;
  }
}

bool exchange_is_sent(const struct exchange *self) {
  return self->sent == self->length;
}

static void keep_refusal(struct exchange *self, const redisReply *reply, size_t index) {
  if (reply == NULL || reply->type != REDIS_REPLY_ERROR || self->refusal[0] != '\0')
    return;
  (void)snprintf(self->refusal, sizeof self->refusal, "%s", reply->str);
  self->refused = index;
}

/* Whatever answers "+OK" to everything is no Redis: its EXEC executes nothing, and would be sent again
   at once. After an error nothing is as it should be. What a query is answered with is its owner's; the
   last command opens the next transaction. */
static bool is_odd(const struct exchange *self, const redisReply *reply, size_t index) {
  if (reply->type == REDIS_REPLY_ERROR || self->refusal[0] != '\0')
    return false;
  if (self->exec > 0 && index == self->exec)
    return reply->type != REDIS_REPLY_ARRAY && reply->type != REDIS_REPLY_NIL;
  if (index + 1 == self->probe_end)
    return reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_NIL;
  bool of_query = index >= self->probe_end && index + 1 < self->commands;
  return self->probe_end > 0 && !of_query && reply->type != REDIS_REPLY_STATUS;
}

bool exchange_take(struct exchange *self, const redisReply *reply) {
  size_t index = self->replied++;
  self->is_odd |= is_odd(self, reply, index);
  keep_refusal(self, reply, index);
  /* EXEC's reply is an array with the replies of all queued commands; an error among them does not
     undo the others. It is nil, and nothing was executed, when another client wrote the watched
     key. */
  if (self->exec > 0 && index == self->exec && reply->type == REDIS_REPLY_ARRAY) {
    self->executed = true;
    for (size_t i = 0; i < reply->elements; i++)
      keep_refusal(self, reply->element[i], i);
  }
  return self->replied == self->commands || error_reply_is_last(self->refusal);
}

void exchange_explain_refusal(const struct exchange *self, const char *why, struct error *error) {
  struct command_word words[2] = {{.text = ""}};
  size_t read = 0;
  bool found = false;
  for (int i = 0; i < self->count; i++) {
    found = found || read + self->counts[i] > self->refused;
    if (!found) {
      read += self->counts[i];
      continue;
    }
    const char *at = self->pieces[i].iov_base;
    const char *end = at + self->pieces[i].iov_len;
    while (read <= self->refused && command_read(&at, end, words, 2))
      read++;
  }
  size_t key = words[1].length < 120 ? words[1].length : 120;
  (void)error_set(error, "redis refuses %.*s%s%.*s: %.100s", (int)words[0].length, words[0].text,
                  key > 0 ? " " : "", (int)key, words[1].text, why);
}

void query_put(struct query *self, char *(*ask)(void *owner),
               void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner) {
  query_release(self);
  *self = (struct query){.ask = ask, .answer = answer, .owner = owner};
}

void query_release(struct query *self) {
  free(self->commands);
  *self = (struct query){0};
}

void query_add(struct query *self, struct exchange *request) {
  CHECK(self->ask != NULL);
  if (self->commands == NULL)
    self->unanswered = self->commands = self->ask(self->owner);
  size_t length = strlen(self->unanswered), commands = 0;
  struct command_word word;
  for (const char *at = self->unanswered; command_read(&at, self->unanswered + length, &word, 1);)
    commands++;
  exchange_add(request, self->unanswered, length, commands);
}

void query_take(struct query *self, const redisReply *reply, bool whole) {
  CHECK(self->commands != NULL);
  struct command_word word;
  char *answered = NULL;
  (void)command_read(&self->unanswered, self->unanswered + strlen(self->unanswered), &word, 1);
  if (self->unanswered[0] == '\0') {
    answered = self->commands;
    self->commands = NULL;
    self->ask = NULL;
  }
  self->answer(self->owner, reply, whole);
  free(answered);
}
