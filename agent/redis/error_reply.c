#include "agent/redis/error_reply.h"

#include <stddef.h>
#include <string.h>

bool error_reply_passes(const char *text) {
  static const char *const passing[] = {"OOM ",
                                        "LOADING ",
                                        "READONLY ",
                                        "MISCONF ",
                                        "CLUSTERDOWN ",
                                        "BUSY ",
                                        "TRYAGAIN ",
                                        "MASTERDOWN ",
                                        "NOREPLICAS ",
                                        "UNBLOCKED ",
                                        "ERR max number of clients"};
  for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
    if (strncmp(text, passing[i], strlen(passing[i])) == 0)
      return true;
  return false;
}
