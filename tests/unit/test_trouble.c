#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/redis/trouble.h"

static void the_same_is_told_once_until_it_is_over(void **state) {
  (void)state;
  struct trouble trouble = {0};
  assert_true(trouble_is_news(&trouble, "closed", false, 1000));
  assert_false(trouble_is_news(&trouble, "closed", false, 2000));
  assert_true(trouble_is_news(&trouble, "no answer", false, 3000));
  assert_int_equal(trouble.since_ms, 1000);
  assert_true(trouble.told);
  trouble.there = false;
  assert_true(trouble_is_news(&trouble, "no answer", false, 3001));
  assert_int_equal(trouble.since_ms, 3001);
}

static void a_refusal_that_comes_and_goes_is_told_once_in_its_time(void **state) {
  (void)state;
  struct trouble trouble = {0};
  assert_true(trouble_is_news(&trouble, "OOM one", true, 1));
  trouble.there = false;
  assert_false(trouble_is_news(&trouble, "OOM other words", true, TROUBLE_TOLD_MS));
  assert_false(trouble.told); /* nor is its end */
  trouble.there = false;
  assert_true(trouble_is_news(&trouble, "OOM one", true, TROUBLE_TOLD_MS + 1));
  assert_true(trouble.told);
}

static void one_that_lasts_is_told_once(void **state) {
  (void)state;
  struct trouble trouble = {0};
  assert_true(trouble_is_news(&trouble, "OOM one", true, 1));
  assert_false(trouble_is_news(&trouble, "OOM one", true, 10 * TROUBLE_TOLD_MS));
  assert_true(trouble_is_news(&trouble, "OOMPH", true, 10 * TROUBLE_TOLD_MS));
  assert_true(trouble_is_news(&trouble, "READONLY", true, 10 * TROUBLE_TOLD_MS));
  assert_int_equal(trouble.since_ms, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_is_told_once_until_it_is_over),
      cmocka_unit_test(a_refusal_that_comes_and_goes_is_told_once_in_its_time),
      cmocka_unit_test(one_that_lasts_is_told_once),
  };
  return cmocka_run_group_tests_name("trouble", tests, NULL, NULL);
}
