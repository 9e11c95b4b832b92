#include "agent/doors/redis/client/outage.h"
#include "tests/test.h"

TEST(the_same_is_told_once_until_it_is_over) {
  struct outage outage = {0};
  assert_true(outage_is_news(&outage, "closed", false, 1000));
  assert_false(outage_is_news(&outage, "closed", false, 2000));
  assert_true(outage_is_news(&outage, "no answer", false, 3000));
  assert_int_equal(outage.since_ms, 1000);
  assert_true(outage.told);
  outage.there = false;
  assert_true(outage_is_news(&outage, "no answer", false, 3001));
  assert_int_equal(outage.since_ms, 3001);
}

TEST(a_refusal_that_comes_and_goes_is_told_once_in_its_time) {
  struct outage outage = {0};
  assert_true(outage_is_news(&outage, "OOM one", true, 1));
  outage.there = false;
  assert_false(outage_is_news(&outage, "OOM other words", true, OUTAGE_TOLD_MS));
  assert_false(outage.told); /* nor is its end */
  outage.there = false;
  assert_true(outage_is_news(&outage, "OOM one", true, OUTAGE_TOLD_MS + 1));
  assert_true(outage.told);
}

TEST(one_that_lasts_is_told_once) {
  struct outage outage = {0};
  assert_true(outage_is_news(&outage, "OOM one", true, 1));
  assert_false(outage_is_news(&outage, "OOM one", true, 10 * OUTAGE_TOLD_MS));
  assert_true(outage_is_news(&outage, "OOMPH", true, 10 * OUTAGE_TOLD_MS));
  assert_true(outage_is_news(&outage, "READONLY", true, 10 * OUTAGE_TOLD_MS));
  assert_int_equal(outage.since_ms, 1);
}
