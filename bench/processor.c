#include "bench/processor.h"
#include "tests/test.h"

#include <time.h>

double processor_ms(pid_t pid) {
  clockid_t clock;
  struct timespec time = {0};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
    fail_msg("process %d has no clock", (int)pid);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}
