#include "agent/redis/login.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/error_reply.h"
#include "wire/memory.h"

static const char set_name[] = "CLIENT SETNAME";

/* A new text each time: growing it could leave a copy of the password behind. */
static void append(struct login *self, const char *text, size_t length) {
  char *longer = memory_allocate(self->length + length);
  if (self->text != NULL) {
    memcpy(longer, self->text, self->length);
    explicit_bzero(self->text, self->length);
    free(self->text);
  }
  memcpy(longer + self->length, text, length);
  self->text = longer;
  self->length += length;
}

static void add(struct login *self, const char *shown, int count, const char **words) {
  char *command;
  long long length = redisFormatCommandArgv(&command, count, words, NULL);
  if (length < 0)
    memory_exhausted("a command");
  append(self, command, (size_t)length);
  explicit_bzero(command, (size_t)length);
  redisFreeCommand(command);
  self->commands[self->count++] = shown;
}

void login_add_probe(struct login *self, const struct login_probe *probe) {
  if (probe->count > 0)
    append(self, probe->text, probe->length);
  for (int i = 0; i < probe->count; i++)
    self->commands[self->count++] = probe->names[i];
}

void login_init(struct login *self, const struct redis_url *url, const char *name) {
  *self = (struct login){0};
  if (url->password != NULL && url->user != NULL)
    add(self, "AUTH", 3, (const char *[]){"AUTH", url->user, url->password});
  else if (url->password != NULL)
    add(self, "AUTH", 2, (const char *[]){"AUTH", url->password});
  add(self, set_name, 3, (const char *[]){"CLIENT", "SETNAME", name});
  if (url->database != 0) {
    char database[16];
    (void)snprintf(database, sizeof database, "%u", url->database);
    add(self, "SELECT", 2, (const char *[]){"SELECT", database});
  }
}

void login_release(struct login *self) {
  if (self->text != NULL)
    explicit_bzero(self->text, self->length);
  free(self->text);
  *self = (struct login){0};
}

enum login_verdict login_take(struct login *self, const redisReply *reply, const char **command) {
  *command = self->commands[self->answered++];
  bool last = self->answered == self->count;
  if (reply->type != REDIS_REPLY_ERROR)
    return last ? LOGIN_DONE : LOGIN_GOES_ON;
  if (error_reply_passes(reply->str))
    return LOGIN_LATER;
  /* A name is a courtesy: old servers, narrow permissions and odd job ids are no reason to stop.
     NOAUTH and DENIED (protected mode) are not about the name. */
  bool about_name = strncmp(reply->str, "ERR ", 4) == 0 || strncmp(reply->str, "NOPERM", 6) == 0;
  if (*command == set_name && about_name)
    return last ? LOGIN_DONE : LOGIN_GOES_ON;
  return LOGIN_REFUSED;
}
