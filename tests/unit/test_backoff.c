#include "agent/doors/redis/link/backoff.h"
#include "tests/test.h"

TEST(before_the_first_success_pauses_are_long_and_without_chance) {
  struct backoff backoff = {0};
  for (unsigned attempt = 1; attempt <= 3; attempt++) {
    backoff.attempts++;
    assert_int_equal(backoff.attempts, attempt);
    assert_int_equal(backoff_pause(&backoff, 7), BACKOFF_BOOT_PAUSE_MS << (attempt - 1));
  }
  for (int times = 0; times < 100; times++)
    (void)backoff_pause(&backoff, 7);
  assert_int_equal(backoff_pause(&backoff, 7), BACKOFF_PAUSE_MAX_MS);
  backoff_succeeded(&backoff);
  assert_int_equal(backoff.attempts, 0);
}

TEST(half_of_a_pause_is_random) {
  struct backoff backoff = {0};
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

TEST(a_reset_starts_from_the_shortest_pause) {
  struct backoff backoff = {0};
  backoff_succeeded(&backoff);
  (void)backoff_pause(&backoff, 0);
  backoff_succeeded(&backoff);
  assert_int_equal(backoff_pause(&backoff, 0), BACKOFF_PAUSE_MIN_MS);
  backoff.pause_ms = 0;
  assert_int_equal(backoff_pause(&backoff, 0), BACKOFF_PAUSE_MIN_MS / 2);
}

TEST(the_same_reason_is_news_once_an_outage) {
  struct outage outage = {0};
  assert_true(outage_is_news(&outage, "closed", false, 1000));
  assert_false(outage_is_news(&outage, "closed", false, 2000));
  assert_true(outage_is_news(&outage, "no answer", false, 3000));
  assert_int_equal(outage.since_ms, 1000);
  assert_true(outage.was_news);
  outage.ongoing = false;
  assert_true(outage_is_news(&outage, "no answer", false, 3001));
  assert_int_equal(outage.since_ms, 3001);
}

TEST(an_error_that_comes_and_goes_is_news_once_a_minute) {
  struct outage outage = {0};
  assert_true(outage_is_news(&outage, "OOM one", true, 1));
  outage.ongoing = false;
  assert_false(outage_is_news(&outage, "OOM other words", true, OUTAGE_NEWS_MS));
  assert_false(outage.was_news); /* nor is its end */
  outage.ongoing = false;
  assert_true(outage_is_news(&outage, "OOM one", true, OUTAGE_NEWS_MS + 1));
  assert_true(outage.was_news);
}

TEST(an_error_that_lasts_is_news_once) {
  struct outage outage = {0};
  assert_true(outage_is_news(&outage, "OOM one", true, 1));
  assert_false(outage_is_news(&outage, "OOM one", true, 10 * OUTAGE_NEWS_MS));
  assert_true(outage_is_news(&outage, "OOMPH", true, 10 * OUTAGE_NEWS_MS));
  assert_true(outage_is_news(&outage, "READONLY", true, 10 * OUTAGE_NEWS_MS));
  assert_int_equal(outage.since_ms, 1);
}
