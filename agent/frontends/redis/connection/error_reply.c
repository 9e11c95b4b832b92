#include "agent/frontends/redis/connection/error_reply.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

static bool begins_with(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Returns the reason of an EXECABORT; other texts unchanged. */
static const char *skip_execabort(const char *text) {
  static const char aborted[] = "EXECABORT Transaction discarded because of: ";
  return begins_with(text, aborted) ? text + sizeof aborted - 1 : text;
}

/*
 * ASK is not followed: the agent waits until it becomes MOVED. Commands name several keys, and no
 * node has all of them while a slot migrates: the source replies ASK for keys that have moved or do
 * not exist, and the target TRYAGAIN while one is missing. Single keys cannot be read at the target
 * either, because a missing key may not have arrived yet.
 */
bool error_reply_is_transient(const char *text) {
  static const char *const transient[] = {"OOM ",
                                          "LOADING ",
                                          "READONLY ",
                                          "MISCONF ",
                                          "CLUSTERDOWN ",
                                          "BUSY ",
                                          "TRYAGAIN ",
                                          "MOVED ",
                                          "ASK ",
                                          "MASTERDOWN ",
                                          "NOREPLICAS ",
                                          "UNBLOCKED ",
                                          "ERR max number of clients"};
  text = skip_execabort(text);
  for (size_t i = 0; i < sizeof transient / sizeof *transient; i++)
    if (begins_with(text, transient[i]))
      return true;
  return false;
}

bool error_reply_is_last(const char *text) {
  return begins_with(text, "ERR Protocol error");
}

int error_reply_code(const char *text) {
  static const struct connection_error codes[] = {
      {"WRONGPASS", CONNECTION_ERROR_WRONG_PASSWORD},
      {"ERR invalid password",
       CONNECTION_ERROR_WRONG_PASSWORD}, /* this, and the next "ERR", are of Redis 5 */
      {"NOAUTH", CONNECTION_ERROR_NO_PASSWORD},
      {"ERR Client sent AUTH, but no password", CONNECTION_ERROR_NEEDLESS_PASSWORD},
      {"ERR AUTH <password> called without any password", CONNECTION_ERROR_NEEDLESS_PASSWORD},
      {"NOPERM", CONNECTION_ERROR_NO_RIGHT},
      {"LOADING ", CONNECTION_ERROR_LOADING}};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (begins_with(text, codes[i].text))
      return codes[i].code;
  return 0;
}

/* The form is "MOVED <slot> <host>:<port>". */
const char *error_reply_redirect(const char *text) {
  const char *space = begins_with(text, "MOVED ") ? strchr(text + strlen("MOVED "), ' ') : NULL;
  return space != NULL ? space + 1 : NULL;
}

static const char *advise(const char *text) {
  if (begins_with(text, "CROSSSLOT"))
    return "CROSSSLOT: in a cluster, put the job id in braces, like {pipe-42}";
  if (strcmp(text, "ERR Protocol error: invalid bulk length") == 0)
    return "ERR Protocol error: invalid bulk length (longer than its proto-max-bulk-len)";
  return skip_execabort(text);
}

/* Searches the text and overwrites the copy, so that a secret of asterisks is found, too. */
static void mask(char *copy, const char *text, size_t length, const char *secret) {
  size_t size = secret != NULL ? strlen(secret) : 0;
  const char *end = text + length;
  for (const char *at = text;
       size > 0 && (at = memmem(at, (size_t)(end - at), secret, size)) != NULL; at += size)
    memset(copy + (at - text), '*', size);
}

struct error_reply_text error_reply_explain(const char *text, const struct redis_url *url) {
  struct error_reply_text explained;
  const char *advice = advise(text), *arguments = strstr(advice, ", with args");
  size_t length = arguments != NULL ? (size_t)(arguments - advice) : strlen(advice);
  char *shown = memory_copy(advice, length);
  mask(shown, advice, length, url->password);
  mask(shown, advice, length, url->user);
  (void)snprintf(explained.text, sizeof explained.text, "%s", shown);
  free(shown);
  return explained;
}

/* Names the missing ACL rule. The server does not name the key. The command that it names is
   repeated only if it was sent, because it could be the password. */
struct error_reply_text error_reply_explain_command(const char *text, const char *command,
                                                    const struct redis_url *url) {
  static const char before_command[] = "permissions to run the '";
  struct error_reply_text why = error_reply_explain(text, url);
  const char *named = strstr(text, before_command), *key = strchr(command, ' ');
  size_t length = strcspn(command, " ");
  if (!begins_with(text, "NOPERM"))
    return why;
  if (named != NULL) {
    named += sizeof before_command - 1;
    if (strncasecmp(named, command, length) == 0 && named[length] == '\'')
      (void)snprintf(why.text, sizeof why.text, "NOPERM: the user needs +%.*s", (int)length, named);
  } else if (key != NULL && strstr(text, " key") != NULL) {
    (void)snprintf(why.text, sizeof why.text, "NOPERM: the user needs ~%s", key + 1);
  }
  return why;
}
