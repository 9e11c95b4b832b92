#include "agent/doors/redis/net/error_reply.h"

#include <stddef.h>
#include <string.h>

static bool begins_with(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Without what stands in front when EXEC itself is refused. */
static const char *without_abort(const char *text) {
  static const char aborted[] = "EXECABORT Transaction discarded because of: ";
  return begins_with(text, aborted) ? text + sizeof aborted - 1 : text;
}

/*
 * ASK is not followed but waited out, until it becomes MOVED: what is sent here is about several
 * keys at once, and while a slot is on its way no node has all of them. The one that it leaves
 * answers ASK for the keys that are gone or never were, the one that it comes to TRYAGAIN as long
 * as one of them is missing; and one by one they must not be read there, where nothing may only
 * mean not yet.
 */
bool error_reply_passes(const char *text) {
  static const char *const passing[] = {"OOM ",
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
  text = without_abort(text);
  for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
    if (begins_with(text, passing[i]))
      return true;
  return false;
}

/* MOVED <slot> <host>:<port> */
const char *error_reply_moved_to(const char *text) {
  const char *space = begins_with(text, "MOVED ") ? strchr(text + strlen("MOVED "), ' ') : NULL;
  return space != NULL ? space + 1 : NULL;
}

const char *error_reply_explain(const char *text) {
  if (begins_with(text, "CROSSSLOT"))
    return "CROSSSLOT: in a cluster, put the job id in braces, like {pipe-42}";
  return without_abort(text);
}
