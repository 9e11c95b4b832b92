#include "agent/redis/question.h"

#include <stdlib.h>
#include <string.h>

#include "agent/redis/command.h"

void question_put(struct question *self, char *commands,
                  void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner) {
  free(self->commands);
  self->commands = commands;
  self->unanswered = commands;
  self->answer = answer;
  self->owner = owner;
}

void question_release(struct question *self) {
  free(self->commands);
  *self = (struct question){0};
}

void question_add(const struct question *self, struct request *request) {
  size_t length = strlen(self->unanswered), commands = 0;
  struct command_word word;
  for (const char *at = self->unanswered; command_read(&at, self->unanswered + length, &word, 1);)
    commands++;
  request_add(request, self->unanswered, length, commands);
}

void question_take(struct question *self, const redisReply *reply, bool whole) {
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
