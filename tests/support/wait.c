#include "tests/support/wait.h"

#include <time.h>

int64_t wait_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool wait_until(bool (*condition)(void *context), void *context, int64_t bound_ms) {
  const struct timespec pause = {.tv_nsec = 5000000};
  int64_t end = wait_now_ms() + bound_ms;
  for (;;) {
    if (condition(context))
      return true;
    if (wait_now_ms() >= end)
      return condition(context);
    nanosleep(&pause, NULL);
  }
}
