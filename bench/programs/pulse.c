/*
 * pulse LINES PERIOD_US PHASE_US: prints a line in each period, which is the time at which it is
 * written, in nanoseconds of CLOCK_MONOTONIC. With different phases, many of these take turns. The
 * first line comes after a whole period of silence.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_US 1000LL
#define NS_PER_SECOND 1000000000LL

static long long now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

static void sleep_until(long long ns) {
  struct timespec then = {.tv_sec = ns / NS_PER_SECOND, .tv_nsec = ns % NS_PER_SECOND};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) != 0)
    continue;
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 64;
  long lines = strtol(argv[1], NULL, 10);
  long long period_ns = strtol(argv[2], NULL, 10) * NS_PER_US;
  long long phase_ns = strtol(argv[3], NULL, 10) * NS_PER_US;
  if (period_ns <= 0)
    return 64;
  long long next_ns = (now_ns() / period_ns + 2) * period_ns + phase_ns;
  for (; lines > 0; lines--, next_ns += period_ns) {
    char line[32];
    sleep_until(next_ns);
    int length = snprintf(line, sizeof line, "%lld\n", now_ns());
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
      return 1;
  }
  return 0;
}
