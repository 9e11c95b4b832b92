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

/* Moves past so many commands; fills in the first words of the last. */
static const char *skip_commands(const struct handshake *self, int count,
                                 struct command_word words[2]) {
  const char *at = self->text;
  for (int i = 0; i < count; i++)
    (void)command_read(&at, self->text + self->length, words, 2);
  return at;
}

/* No copy of the password is left behind. */
static void write_text(struct handshake *self, const char *const (*list)[COMMAND_LIST_WORDS]) {
  char *own = command_list_new(list, (size_t)self->count);
  size_t length = strlen(own);
  self->length = length + self->probe.length;
  self->text = memory_allocate(self->length);
  memcpy(self->text, own, length);
  if (self->probe.length > 0)
    memcpy(self->text + length, self->probe.text, self->probe.length);
  explicit_bzero(own, length);
  free(own);
}

void handshake_init(struct handshake *self, const struct redis_url *url, const char *name,
                    const struct handshake_probe *probe) {
  static const char *const names[] = {"AUTH", set_name, "SELECT", role};
  char database[16];
  (void)snprintf(database, sizeof database, "%u", url->database);
  bool has_user = url->user != NULL;
  const char *const all[][COMMAND_LIST_WORDS] = {
      {"AUTH", has_user ? url->user : url->password, has_user ? url->password : NULL},
      {"CLIENT", "SETNAME", name},
      {"SELECT", database},
      {role}};
  const bool wanted[] = {url->password != NULL, true, url->database != 0,
                         url->master != NULL || url->host_count > 1};
  const char *list[HANDSHAKE_COMMANDS_MAX][COMMAND_LIST_WORDS];
  *self = (struct handshake){.url = url, .probe = *probe};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (wanted[i]) {
      memcpy(list[self->count], all[i], sizeof all[i]);
      self->names[self->count++] = names[i];
    }
  write_text(self, (const char *const(*)[COMMAND_LIST_WORDS])list);
  struct command_word words[2];
  self->first_length = self->length;
  if (probe->first > 0)
    self->first_length =
        (size_t)(skip_commands(self, self->count + probe->first, words) - self->text);
}

struct iovec handshake_unsent(const struct handshake *self) {
  bool is_first = self->answered < self->count + self->probe.first;
  return (struct iovec){.iov_base = self->text + self->sent,
                        .iov_len = (is_first ? self->first_length : self->length) - self->sent};
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

/* Names the command, and its key when it is one of the probe. */
static void name_command(const struct handshake *self, int number, const char *own,
                         struct handshake_refusal *refusal) {
  struct command_word words[2] = {{.text = ""}, {.text = ""}};
  if (own != NULL)
    words[0] = command_word(own);
  else
    (void)skip_commands(self, number + 1, words);
  (void)snprintf(refusal->command, sizeof refusal->command, "%.*s%s%.*s", (int)words[0].length,
                 words[0].text, words[1].length > 0 ? " " : "", (int)words[1].length,
                 words[1].length > 0 ? words[1].text : "");
}

enum handshake_result handshake_take_reply(struct handshake *self, const redisReply *reply,
                                           struct handshake_refusal *refusal) {
  int number = self->answered++, of_probe = number - self->count;
  const char *name = of_probe < 0 ? self->names[number] : NULL;
  enum handshake_result goes_on =
      self->answered == self->count + self->probe.count ? HANDSHAKE_DONE : HANDSHAKE_MORE;
  if (name != NULL || reply->type == REDIS_REPLY_ERROR)
    name_command(self, number, name, refusal);
  if (name == role && is_replica(reply)) {
    (void)snprintf(refusal->text, sizeof refusal->text, HANDSHAKE_REPLICA);
    return HANDSHAKE_RETRY;
  }
  if (name != NULL && name != role && reply->type != REDIS_REPLY_STATUS &&
      reply->type != REDIS_REPLY_ERROR) {
    (void)snprintf(refusal->text, sizeof refusal->text, "the answer to %s is none of redis", name);
    return HANDSHAKE_RETRY;
  }
  if (of_probe == self->probe.value)
    keep_value(self, reply);
  if (reply->type != REDIS_REPLY_ERROR)
    return goes_on;
  (void)snprintf(refusal->text, sizeof refusal->text, "%s",
                 error_reply_explain(reply->str, self->url).text);
  if (error_reply_is_transient(reply->str))
    return HANDSHAKE_RETRY;
  /* The name is optional: an old server, a narrow ACL or an unusual job id must not stop the agent.
     NOAUTH and DENIED (protected mode) are not about the name. Without the permission for ROLE, the
     first command that writes finds out. */
  bool denied = strncmp(reply->str, "NOPERM", 6) == 0;
  bool is_multi_key = of_probe >= 0 && of_probe < self->probe.multi_key;
  if ((name == set_name && (denied || strncmp(reply->str, "ERR ", 4) == 0)) ||
      ((name == role || is_multi_key) && denied))
    return goes_on;
  if (denied)
    explain_denial(refusal, reply->str);
  return HANDSHAKE_REFUSED;
}
