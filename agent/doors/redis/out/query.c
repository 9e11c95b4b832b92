#include "agent/doors/redis/out/query.h"

#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/command.h"

void query_put(struct query *self, char *commands,
               void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner) {
  free(self->commands);
  self->commands = commands;
  self->unanswered = commands;
  self->answer = answer;
  self->owner = owner;
}

void query_release(struct query *self) {
  free(self->commands);
  *self = (struct query){0};
}

void query_add(const struct query *self, struct exchange *request) {
  size_t length = strlen(self->unanswered), commands = 0;
  struct command_word word;
  for (const char *at = self->unanswered; command_read(&at, self->unanswered + length, &word, 1);)
    commands++;
  exchange_add(request, self->unanswered, length, commands);
}

void query_take(struct query *self, const redisReply *reply, bool whole) {
  struct command_word word;
  char *answered = NULL;
  (void)command_read(&self->unanswered, self->unanswered + strlen(self->unanswered), &word, 1);
  if (self->unanswered[0] == '\0') {
    answered = self->commands;
    self->commands = NULL;
  }
  self->answer(self->owner, reply, whole);
  free(answered);
}
