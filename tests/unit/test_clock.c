#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"

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

static void monotonic_is_the_clock_that_never_jumps(void **state) {
  (void)state;
  agrees(clock_monotonic_ms, CLOCK_MONOTONIC);
}

static void unix_is_the_time_of_day(void **state) {
  (void)state;
  agrees(clock_unix_ms, CLOCK_REALTIME);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(monotonic_is_the_clock_that_never_jumps),
      cmocka_unit_test(unix_is_the_time_of_day),
  };
  return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
