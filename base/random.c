#include "base/random.h"

#include <event2/util.h>
#include <sys/random.h>
#include <sys/types.h>

/* One system call. libevent's own generator, which begins by opening and reading several files,
   serves where it is missing (an old kernel, a strict seccomp filter). */
uint64_t random_u64(void) {
  uint64_t number;
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
    evutil_secure_rng_get_bytes(&number, sizeof number);
  return number;
}
