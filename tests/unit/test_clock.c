#include <time.h>

#include "base/clock.h"
#include "tests/test.h"

static int64_t read_ns(clockid_t clock) {
  struct timespec now;
  assert_int_equal(clock_gettime(clock, &now), 0);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Many moments, so that one with few milliseconds in its second is among them. */
static void agrees(int64_t (*now_ms)(void), clockid_t clock) {
  int64_t end = read_ns(CLOCK_MONOTONIC) + 20000000;
  while (read_ns(CLOCK_MONOTONIC) < end) {
    int64_t before = read_ns(clock) / 1000000;
    int64_t now = now_ms();
    int64_t after = read_ns(clock) / 1000000;
    assert_true(before <= now && now <= after);
  }
}

TEST(monotonic_is_the_clock_that_never_jumps) {
  agrees(clock_monotonic_ms, CLOCK_MONOTONIC);
}

TEST(unix_is_the_time_of_day) {
  agrees(clock_unix_ms, CLOCK_REALTIME);
}
