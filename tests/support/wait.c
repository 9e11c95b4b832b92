#include "tests/support/wait.h"

#include <time.h>

static double read_clock_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

double wait_exact_ms(void) {
  return read_clock_ms(CLOCK_MONOTONIC);
}

double wait_timer_ms(void) {
  return read_clock_ms(CLOCK_MONOTONIC_COARSE);
}

int64_t wait_now_ms(void) {
  return (int64_t)wait_exact_ms();
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
