#include "agent/doors/redis/client/backoff.h"
#include "tests/test.h"

TEST(at_boot_it_gives_up) {
  struct backoff backoff;
  backoff_init(&backoff, false);
  for (unsigned attempt = 1; attempt < BACKOFF_BOOT_ATTEMPTS; attempt++) {
    backoff_failed(&backoff);
    assert_int_equal(backoff.attempts, attempt);
    assert_true(backoff_is_booting(&backoff));
    assert_false(backoff_is_over(&backoff));
    assert_int_equal(backoff_pause(&backoff, 7), BACKOFF_BOOT_PAUSE_MS << (attempt - 1));
  }
  backoff_failed(&backoff);
  assert_true(backoff_is_over(&backoff));
}

TEST(unless_it_is_patient) {
  struct backoff backoff;
  backoff_init(&backoff, true);
  for (unsigned attempt = 1; attempt <= 100; attempt++) {
    backoff_failed(&backoff);
    assert_false(backoff_is_over(&backoff));
    assert_int_equal(backoff_is_booting(&backoff), attempt <= BACKOFF_BOOT_ATTEMPTS);
    assert_in_range(backoff_pause(&backoff, 0), BACKOFF_BOOT_PAUSE_MS, BACKOFF_PAUSE_MAX_MS);
  }
  assert_int_equal(backoff_pause(&backoff, 0), BACKOFF_PAUSE_MAX_MS);
}

TEST(later_it_does_not) {
  struct backoff backoff;
  backoff_init(&backoff, false);
  backoff_succeeded(&backoff);
  for (unsigned attempt = 1; attempt <= 2 * BACKOFF_BOOT_ATTEMPTS; attempt++)
    backoff_failed(&backoff);
  assert_false(backoff_is_over(&backoff));
  assert_false(backoff_is_booting(&backoff));
  backoff_succeeded(&backoff);
  assert_int_equal(backoff.attempts, 0);
}

TEST(half_of_a_pause_is_random) {
  struct backoff backoff;
  backoff_init(&backoff, false);
  backoff_succeeded(&backoff);
  assert_int_equal(backoff_pause(&backoff, 0), BACKOFF_PAUSE_MIN_MS / 2);
  assert_int_equal(backoff_pause(&backoff, BACKOFF_PAUSE_MIN_MS), 2 * BACKOFF_PAUSE_MIN_MS);
  assert_int_equal(backoff_pause(&backoff, 2 * BACKOFF_PAUSE_MIN_MS + 1), 2 * BACKOFF_PAUSE_MIN_MS);
  for (int times = 0; times < 10; times++)
    (void)backoff_pause(&backoff, 0);
  assert_int_equal(backoff_pause(&backoff, 0), BACKOFF_PAUSE_MAX_MS / 2);
  assert_in_range(backoff_pause(&backoff, UINT64_MAX), BACKOFF_PAUSE_MAX_MS / 2,
                  BACKOFF_PAUSE_MAX_MS);
}

/* To be connected is not enough: the next one may be lost for the same reason. */
TEST(pauses_begin_anew_with_what_works) {
  struct backoff backoff;
  backoff_init(&backoff, false);
  backoff_succeeded(&backoff);
  (void)backoff_pause(&backoff, 0);
  backoff_succeeded(&backoff);
  assert_int_equal(backoff_pause(&backoff, 0), BACKOFF_PAUSE_MIN_MS);
  backoff_works(&backoff);
  assert_int_equal(backoff_pause(&backoff, 0), BACKOFF_PAUSE_MIN_MS / 2);
}
