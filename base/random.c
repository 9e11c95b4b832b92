#include "base/random.h"

#include <event2/util.h>
#include <sys/random.h>
#include <sys/types.h>

/* One system call; libevent's own generator, which opens and reads several files to begin with, is
   for where there is none (an old kernel, a strict filter). */
uint64_t random_u64(void) {
  uint64_t number;
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
    evutil_secure_rng_get_bytes(&number, sizeof number);
  return number;
}
