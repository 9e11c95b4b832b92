#include "agent/doors/redis/client/handshake.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/net/error_reply.h"
#include "base/memory.h"

static const char set_name[] = "CLIENT SETNAME";
static const char role[] = "ROLE";

void handshake_add_probe(struct handshake *self, const struct handshake_probe *probe) {
  self->probe = *probe;
}

void handshake_unsent(const struct handshake *self, struct iovec rest[HANDSHAKE_PIECES]) {
  size_t own = self->sent < self->length ? self->sent : self->length;
  size_t probe = self->sent - own;
  rest[0] = (struct iovec){.iov_base = self->text + own, .iov_len = self->length - own};
  rest[1] = (struct iovec){.iov_base = (char *)(uintptr_t)self->probe.text + probe,
                           .iov_len = self->probe.length - probe};
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
  *self = (struct handshake){.url = url};
  if (url->password != NULL && url->user != NULL)
    add(self, list, "AUTH", "AUTH", url->user, url->password);
  else if (url->password != NULL)
    add(self, list, "AUTH", "AUTH", url->password, NULL);
  add(self, list, set_name, "CLIENT", "SETNAME", name);
  if (url->database != 0)
    add(self, list, "SELECT", "SELECT", database, NULL);
  if (url->hosts != NULL)
    add(self, list, role, role, NULL, NULL);
  self->text =
      command_list_new((const char *const(*)[COMMAND_LIST_WORDS])list, (size_t)self->count);
  self->length = strlen(self->text);
}

void handshake_release(struct handshake *self) {
  if (self->text != NULL)
    explicit_bzero(self->text, self->length);
  free(self->text);
  *self = (struct handshake){0};
}

/* Sentinels name the former master until all of them have learned of the new one. */
static bool is_replica(const redisReply *reply) {
  return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
         reply->element[0]->type == REDIS_REPLY_STRING &&
         strcmp(reply->element[0]->str, "master") != 0;
}

/* Some errors repeat the command's arguments, and one of them may be the password. */
static void copy_server_text(const struct handshake *self, char *out, size_t size,
                             const char *text) {
  const char *secrets[] = {self->url->password, self->url->user};
  const char *arguments = strstr(text, ", with args");
  int length = arguments != NULL ? (int)(arguments - text) : (int)strlen(text);
  char *shown = memory_copy(text, (size_t)length);
  for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
    for (char *at = shown;
         secrets[i] != NULL && secrets[i][0] != '\0' && (at = strstr(at, secrets[i])) != NULL;)
      memset(at, '*', strlen(secrets[i]));
  (void)snprintf(out, size, "%s", shown);
  free(shown);
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
  if (reply->type != REDIS_REPLY_ERROR)
    return goes_on;
  if (refusal->command == NULL)
    name_probed(self, number - self->count, refusal);
  copy_server_text(self, refusal->text, sizeof refusal->text, reply->str);
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
