#include "base/file_lock.h"

#include <errno.h>
#include <sys/file.h>
#include <time.h>

#include "base/clock.h"

/* A writer takes less than this for a file of usual size. */
#define PAUSE_MAX_MS 8

int file_lock(int fd, int how, int64_t wait_ms) {
  const int64_t end_ms = clock_monotonic_ms() + wait_ms;
  for (long pause_ms = 1; flock(fd, how | LOCK_NB) != 0;) {
    if (errno != EWOULDBLOCK || clock_monotonic_ms() >= end_ms)
      return -1;
    (void)nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
    pause_ms = pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS;
  }
  return 0;
}
