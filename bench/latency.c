#include "bench/latency.h"

#include <math.h>
#include <time.h>

#include "tests/test.h"

static double clock_ms(clockid_t clock) {
  struct timespec time = {0};
  if (clock_gettime(clock, &time) != 0)
    fail_msg("clock %d cannot be read", (int)clock);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

double latency_now_ms(void) {
  return clock_ms(CLOCK_MONOTONIC);
}

double processor_ms(pid_t pid) {
  clockid_t clock;
  if (clock_getcpuclockid(pid, &clock) != 0)
    fail_msg("process %d has no clock", (int)pid);
  return clock_ms(clock);
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

double latency_quantile(double *ms, size_t count, double quantile) {
  assert_true(count > 0);
  qsort(ms, count, sizeof *ms, compare);
  size_t rank = (size_t)ceil(quantile * (double)count);
  return ms[rank > 0 ? rank - 1 : 0];
}
