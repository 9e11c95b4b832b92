#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/redis/retry.h"

static void at_boot_it_gives_up(void **state) {
  (void)state;
  struct retry retry;
  retry_init(&retry, false);
  for (unsigned attempt = 1; attempt < RETRY_BOOT_ATTEMPTS; attempt++) {
    retry_failed(&retry);
    assert_int_equal(retry.attempts, attempt);
    assert_true(retry_is_booting(&retry));
    assert_false(retry_is_over(&retry));
    assert_int_equal(retry_pause(&retry, 7), RETRY_BOOT_PAUSE_MS << (attempt - 1));
  }
  retry_failed(&retry);
  assert_true(retry_is_over(&retry));
}

static void unless_it_is_patient(void **state) {
  (void)state;
  struct retry retry;
  retry_init(&retry, true);
  for (unsigned attempt = 1; attempt <= 100; attempt++) {
    retry_failed(&retry);
    assert_false(retry_is_over(&retry));
    assert_int_equal(retry_is_booting(&retry), attempt <= RETRY_BOOT_ATTEMPTS);
    assert_in_range(retry_pause(&retry, 0), RETRY_BOOT_PAUSE_MS, RETRY_PAUSE_MAX_MS);
  }
  assert_int_equal(retry_pause(&retry, 0), RETRY_PAUSE_MAX_MS);
}

static void later_it_does_not(void **state) {
  (void)state;
  struct retry retry;
  retry_init(&retry, false);
  retry_succeeded(&retry);
  for (unsigned attempt = 1; attempt <= 2 * RETRY_BOOT_ATTEMPTS; attempt++)
    retry_failed(&retry);
  assert_false(retry_is_over(&retry));
  assert_false(retry_is_booting(&retry));
  retry_succeeded(&retry);
  assert_int_equal(retry.attempts, 0);
}

static void half_of_a_pause_is_random(void **state) {
  (void)state;
  struct retry retry;
  retry_init(&retry, false);
  retry_succeeded(&retry);
  assert_int_equal(retry_pause(&retry, 0), RETRY_PAUSE_MIN_MS / 2);
  assert_int_equal(retry_pause(&retry, RETRY_PAUSE_MIN_MS), 2 * RETRY_PAUSE_MIN_MS);
  assert_int_equal(retry_pause(&retry, 2 * RETRY_PAUSE_MIN_MS + 1), 2 * RETRY_PAUSE_MIN_MS);
  for (int times = 0; times < 10; times++)
    (void)retry_pause(&retry, 0);
  assert_int_equal(retry_pause(&retry, 0), RETRY_PAUSE_MAX_MS / 2);
  assert_in_range(retry_pause(&retry, UINT64_MAX), RETRY_PAUSE_MAX_MS / 2, RETRY_PAUSE_MAX_MS);
}

/* To be connected is not enough: the next one may be lost for the same reason. */
static void pauses_begin_anew_with_what_works(void **state) {
  (void)state;
  struct retry retry;
  retry_init(&retry, false);
  retry_succeeded(&retry);
  (void)retry_pause(&retry, 0);
  retry_succeeded(&retry);
  assert_int_equal(retry_pause(&retry, 0), RETRY_PAUSE_MIN_MS);
  retry_works(&retry);
  assert_int_equal(retry_pause(&retry, 0), RETRY_PAUSE_MIN_MS / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(at_boot_it_gives_up),
      cmocka_unit_test(unless_it_is_patient),
      cmocka_unit_test(later_it_does_not),
      cmocka_unit_test(half_of_a_pause_is_random),
      cmocka_unit_test(pauses_begin_anew_with_what_works),
  };
  return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
