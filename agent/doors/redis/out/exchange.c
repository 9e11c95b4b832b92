#include "agent/doors/redis/out/exchange.h"

#include <stdint.h>
#include <stdio.h>

#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/net/error_reply.h"

void exchange_init(struct exchange *self) {
  *self = (struct exchange){0};
}

void exchange_add(struct exchange *self, const char *text, size_t length, size_t commands) {
  self->pieces[self->count++] =
      (struct iovec){.iov_base = (char *)(uintptr_t)text, .iov_len = length};
  self->commands += commands;
}

void exchange_add_exec(struct exchange *self, const char *text, size_t length, size_t commands) {
  self->exec = self->commands;
  exchange_add(self, text, length, commands);
}

/* What is not sent yet; returns the number of pieces. */
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
  struct iovec rest[EXCHANGE_PIECES];
  return rest_of(self, rest) == 0;
}

static void note_refusal(struct exchange *self, const redisReply *reply, size_t number) {
  if (reply == NULL || reply->type != REDIS_REPLY_ERROR || self->refusal[0] != '\0')
    return;
  (void)snprintf(self->refusal, sizeof self->refusal, "%s", reply->str);
  self->refused = number;
}

bool exchange_take(struct exchange *self, const redisReply *reply) {
  size_t number = self->answered++;
  note_refusal(self, reply, number);
  /* The answers to all that was queued; an error among them does not undo the others. When somebody
     else wrote a watched key it is nil: then nothing was done. */
  if (self->exec > 0 && number == self->exec && reply->type == REDIS_REPLY_ARRAY) {
    self->executed = true;
    for (size_t i = 0; i < reply->elements; i++)
      note_refusal(self, reply->element[i], i + 1);
  }
  return self->answered == self->commands;
}

void exchange_explain_refusal(const struct exchange *self, struct error *error) {
  struct command_word words[2] = {{.text = ""}};
  size_t number = 0;
  for (int i = 0; i < self->count; i++) {
    const char *at = self->pieces[i].iov_base;
    const char *end = at + self->pieces[i].iov_len;
    while (number <= self->refused && command_read(&at, end, words, 2))
      number++;
  }
  size_t key = words[1].length < 120 ? words[1].length : 120;
  (void)error_set(error, "redis refuses %.*s%s%.*s: %.100s", (int)words[0].length, words[0].text,
                  key > 0 ? " " : "", (int)key, words[1].text, error_reply_explain(self->refusal));
}
