#include "agent/doors/redis/link/handshake.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/doors/redis/link/command.h"
#include "agent/doors/redis/link/error_reply.h"
#include "base/memory.h"

static const char set_name[] = "CLIENT SETNAME";
static const char role[] = "ROLE";

void handshake_add_probe(struct handshake *self, const struct handshake_probe *probe) {
  if (probe->count == 0)
    return;
  const char *at = probe->text;
  struct command_word word;
  for (int i = 0; i < probe->first; i++)
    (void)command_read(&at, probe->text + probe->length, &word, 1);
  self->probe = *probe;
  self->first_length = probe->first > 0 ? (size_t)(at - probe->text) : probe->length;
}

void handshake_unsent(const struct handshake *self, struct iovec rest[HANDSHAKE_PIECES]) {
  size_t own = self->sent < self->length ? self->sent : self->length;
  size_t probe = self->sent - own;
  bool is_first = self->answered < self->count + self->probe.first;
  size_t end = is_first ? self->first_length : self->probe.length;
  rest[0] = (struct iovec){.iov_base = self->text + own, .iov_len = self->length - own};
  rest[1] = (struct iovec){.iov_base = (char *)(uintptr_t)self->probe.text + probe,
                           .iov_len = end - probe};
}

bool handshake_is_sent(const struct handshake *self) {
  return self->sent == self->length + self->probe.length;
}

/* Writes "<command> <key>" of the probe's command of this number. */
static void name_probed(const struct handshake *self, int number,
                        struct handshake_refusal *refusal) {
  const char *at = self->probe.text, *end = at + self->probe.length;
  struct command_word words[2] = {{.text = ""}};
  for (int i = 0; i <= number; i++)
    (void)command_read(&at, end, words, 2);
  (void)snprintf(refusal->name, sizeof refusal->name, "%.*s%s%.*s", (int)words[0].length,
                 words[0].text, words[1].length > 0 ? " " : "", (int)words[1].length,
                 words[1].length > 0 ? words[1].text : "");
  refusal->command = refusal->name;
}

typedef const char *command_list[HANDSHAKE_COMMANDS_MAX][COMMAND_LIST_WORDS];

/* A command of up to three words; those that it does not have are NULL. */
static void add(struct handshake *self, command_list list, const char *name, const char *first,
                const char *second, const char *third) {
  const char **words = list[self->count];
  words[0] = first;
  words[1] = second;
  words[2] = third;
  self->commands[self->count++] = name;
}

/* The text is measured, allocated and written once: no copy of the password is left behind. */
void handshake_init(struct handshake *self, const struct redis_url *url, const char *name) {
  command_list list = {{NULL}};
  char database[16];
  (void)snprintf(database, sizeof database, "%u", url->database);
  *self = (struct handshake){.url = url, .probe = {.text = ""}};
  if (url->password != NULL && url->user != NULL)
    add(self, list, "AUTH", "AUTH", url->user, url->password);
  else if (url->password != NULL)
    add(self, list, "AUTH", "AUTH", url->password, NULL);
  add(self, list, set_name, "CLIENT", "SETNAME", name);
  if (url->database != 0)
    add(self, list, "SELECT", "SELECT", database, NULL);
  if (url->master != NULL || url->host_count > 1)
    add(self, list, role, role, NULL, NULL);
  self->text =
      command_list_new((const char *const(*)[COMMAND_LIST_WORDS])list, (size_t)self->count);
  self->length = strlen(self->text);
}

void handshake_release(struct handshake *self) {
  if (self->text != NULL)
    explicit_bzero(self->text, self->length);
  free(self->text);
  free(self->value.str);
  *self = (struct handshake){0};
}

static void keep_value(struct handshake *self, const redisReply *reply) {
  if (reply->type != REDIS_REPLY_STRING)
    return;
  free(self->value.str);
  self->value = (redisReply){
      .type = REDIS_REPLY_STRING, .str = memory_copy(reply->str, reply->len), .len = reply->len};
}

redisReply handshake_take_value(struct handshake *self) {
  redisReply value = self->value;
  if (value.str == NULL)
    value.type = REDIS_REPLY_NIL;
  self->value = (redisReply){0};
  return value;
}

/* Sentinels name the former master until all of them have learned of the new one. */
static bool is_replica(const redisReply *reply) {
  return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
         reply->element[0]->type == REDIS_REPLY_STRING &&
         strcmp(reply->element[0]->str, "master") != 0;
}

/* Names the ACL rule that is missing. The server does not name the key. What it names as the
   command is repeated only when it is the command that was sent: it could be the password. */
static void explain_denial(struct handshake_refusal *refusal, const char *text) {
  static const char before_command[] = "permissions to run the '";
  const char *command = strstr(text, before_command), *key = strchr(refusal->command, ' ');
  size_t length = strcspn(refusal->command, " ");
  if (command != NULL) {
    command += sizeof before_command - 1;
    if (strncasecmp(command, refusal->command, length) == 0 && command[length] == '\'')
      (void)snprintf(refusal->text, sizeof refusal->text, "NOPERM: the user needs +%.*s",
                     (int)length, command);
  } else if (key != NULL && strstr(text, " key") != NULL) {
    (void)snprintf(refusal->text, sizeof refusal->text, "NOPERM: the user needs ~%s", key + 1);
  }
}

enum handshake_result handshake_take_reply(struct handshake *self, const redisReply *reply,
                                           struct handshake_refusal *refusal) {
  int number = self->answered++;
  refusal->command = number < self->count ? self->commands[number] : NULL;
  enum handshake_result goes_on =
      self->answered == self->count + self->probe.count ? HANDSHAKE_DONE : HANDSHAKE_MORE;
  if (refusal->command == role && is_replica(reply)) {
    (void)snprintf(refusal->text, sizeof refusal->text, HANDSHAKE_REPLICA);
    return HANDSHAKE_RETRY;
  }
  bool is_odd = number < self->count && refusal->command != role &&
                reply->type != REDIS_REPLY_STATUS && reply->type != REDIS_REPLY_ERROR;
  if (is_odd) {
    (void)snprintf(refusal->text, sizeof refusal->text, "the answer to %s is none of redis",
                   refusal->command);
    return HANDSHAKE_RETRY;
  }
  if (number - self->count == self->probe.value)
    keep_value(self, reply);
  if (reply->type != REDIS_REPLY_ERROR)
    return goes_on;
  if (refusal->command == NULL)
    name_probed(self, number - self->count, refusal);
  (void)snprintf(refusal->text, sizeof refusal->text, "%s",
                 error_reply_explain(reply->str, self->url).text);
  if (error_reply_is_transient(reply->str))
    return HANDSHAKE_RETRY;
  /* The name is optional: an old server, a narrow ACL or an unusual job id must not stop the agent.
     NOAUTH and DENIED (protected mode) are not about the name. Without the permission for ROLE, the
     first command that writes finds out. */
  bool denied = strncmp(reply->str, "NOPERM", 6) == 0;
  bool is_multi_key = number >= self->count && number < self->count + self->probe.multi_key;
  if ((refusal->command == set_name && (denied || strncmp(reply->str, "ERR ", 4) == 0)) ||
      ((refusal->command == role || is_multi_key) && denied))
    return goes_on;
  if (denied)
    explain_denial(refusal, reply->str);
  return HANDSHAKE_REFUSED;
}
