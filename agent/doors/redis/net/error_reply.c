#include "agent/doors/redis/net/error_reply.h"

#include <stddef.h>
#include <string.h>

static bool begins_with(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The reason why EXEC was refused; other texts as they are. */
static const char *skip_execabort(const char *text) {
  static const char aborted[] = "EXECABORT Transaction discarded because of: ";
  return begins_with(text, aborted) ? text + sizeof aborted - 1 : text;
}

/*
 * ASK is not followed: the agent waits until it becomes MOVED. Its commands name several keys at
 * once, and while a slot migrates no node has all of them. The source replies ASK for keys that
 * have moved or do not exist, the target replies TRYAGAIN while one of them is missing. Nor may
 * they be read one by one at the target, where a key that is missing may not have arrived yet.
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

/* MOVED <slot> <host>:<port> */
const char *error_reply_redirect(const char *text) {
  const char *space = begins_with(text, "MOVED ") ? strchr(text + strlen("MOVED "), ' ') : NULL;
  return space != NULL ? space + 1 : NULL;
}

const char *error_reply_explain(const char *text) {
  if (begins_with(text, "CROSSSLOT"))
    return "CROSSSLOT: in a cluster, put the job id in braces, like {pipe-42}";
  if (strcmp(text, "ERR Protocol error: invalid bulk length") == 0)
    return "ERR Protocol error: invalid bulk length (longer than its proto-max-bulk-len)";
  return skip_execabort(text);
}
