#include "base/random.h"

#include <event2/util.h>
#include <sys/random.h>
#include <sys/types.h>

/* libevent's generator, which first opens and reads several files, replaces the system call if that
   is missing (old kernels, strict seccomp filters). */
uint64_t random_u64(void) {
  uint64_t number;
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
    evutil_secure_rng_get_bytes(&number, sizeof number);
  return number;
}
