#include "agent/frontends/redis/rate_limit.h"
#include "tests/test.h"

/* Returns the number of allowed events if each millisecond uses the limit up. */
static int64_t take_all(struct rate_limit *pace, int64_t from_ms, int64_t to_ms) {
  int64_t taken = 0;
  for (int64_t now_ms = from_ms; now_ms <= to_ms; now_ms++) {
    rate_limit_refill(pace, now_ms);
    for (; rate_limit_allows(pace); taken++)
      rate_limit_take(pace);
  }
  return taken;
}

TEST(events_are_allowed_in_a_burst_and_then_at_the_rate) {
  static const uint64_t rates[] = {1, 7, 999, 20000, 3333333};
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
    struct rate_limit pace;
    rate_limit_init(&pace, rates[i], 10000, 5);
    assert_int_equal(take_all(&pace, 5, 5), 10000);
    int64_t taken = take_all(&pace, 6, 10005);
    assert_int_equal(taken, 10 * rates[i]);
  }
}

TEST(silence_allows_at_most_one_burst) {
  struct rate_limit pace;
  rate_limit_init(&pace, 100, 50, 0);
  assert_int_equal(take_all(&pace, 1000000, 1000000), 50);
  assert_int_equal(take_all(&pace, 2000000, 2000000), 50);
}

TEST(events_beyond_the_limit_lengthen_the_wait) {
  struct rate_limit pace;
  rate_limit_init(&pace, 1000, 10, 0);
  for (int i = 0; i < 110; i++)
    rate_limit_take(&pace);
  assert_int_equal(rate_limit_wait_ms(&pace), 101);
  rate_limit_refill(&pace, 100);
  assert_false(rate_limit_allows(&pace));
  assert_int_equal(rate_limit_wait_ms(&pace), RATE_LIMIT_TICK_MS);
  rate_limit_refill(&pace, 101);
  assert_true(rate_limit_allows(&pace));
  assert_int_equal(rate_limit_wait_ms(&pace), 0);
}

TEST(without_a_rate_or_a_burst_everything_is_allowed) {
  static const uint64_t rows[][2] = {{0, 10}, {10, 0}};
  for (size_t i = 0; i < 2; i++) {
    struct rate_limit pace;
    rate_limit_init(&pace, rows[i][0], rows[i][1], 0);
    for (int n = 0; n < 100; n++)
      rate_limit_take(&pace);
    assert_true(rate_limit_allows(&pace));
    assert_int_equal(rate_limit_wait_ms(&pace), 0);
  }
}
