#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/claim.h"

#define NONCE 0xabcdef0123456789U
#define OURS "0000000000000007"

/* Takes the job over from who left this value. */
static struct claim heir_of(const char *value, size_t length, uint64_t nonce) {
  struct claim claim;
  claim_init(&claim, nonce);
  struct claim_news news = claim_see(&claim, false, value, length);
  assert_false(news.arrived || news.forgotten || news.taken);
  assert_false(claim_is_made(&claim));
  return claim;
}

/* An agent of generation 3, with the nonce 7. */
static struct claim owner_at(uint64_t delivered) {
  struct claim claim = heir_of("2:0000000000000001:9", 20, 7);
  claim.delivered = delivered;
  return claim;
}

static enum claim_verdict judge(uint64_t delivered, const char *value) {
  struct claim claim = owner_at(delivered);
  return claim_judge(&claim, value, value != NULL ? strlen(value) : 0);
}

static void each_agent_raises_the_generation(void **state) {
  (void)state;
  struct claim claim = heir_of(NULL, 0, NONCE);
  assert_int_equal(claim.generation, 1);
  assert_int_equal(claim.delivered, 0);
  for (uint64_t generation = 1; generation < 5; generation++) {
    char value[CLAIM_TEXT_SIZE];
    size_t length = claim_text(&claim, 1000, value);
    claim = heir_of(value, length, NONCE + generation);
    assert_int_equal(claim.generation, generation + 1);
    assert_int_equal(claim.delivered, 0);
    assert_true(claim.nonce == NONCE + generation);
  }
}

static void its_text_names_all_three(void **state) {
  (void)state;
  struct claim claim = owner_at(4);
  char text[CLAIM_TEXT_SIZE];
  assert_int_equal(claim_text(&claim, 5, text), 20);
  assert_string_equal(text, "3:" OURS ":5");
  claim = (struct claim){.generation = UINT64_MAX, .nonce = UINT64_MAX};
  assert_true(claim_text(&claim, UINT64_MAX, text) == strlen(text)); /* the longest fits */
  assert_string_equal(text, "18446744073709551615:ffffffffffffffff:18446744073709551615");
}

static void its_own_number_tells_what_arrived(void **state) {
  (void)state;
  assert_int_equal(judge(4, "3:" OURS ":5"), CLAIM_DELIVERED);
  assert_int_equal(judge(4, "3:" OURS ":4"), CLAIM_PENDING);
  assert_int_equal(judge(4, "3:" OURS ":3"), CLAIM_FORGOTTEN);
  assert_int_equal(judge(4, "3:" OURS ":6"), CLAIM_FORGOTTEN); /* nobody wrote that */
  assert_int_equal(judge(0, "3:" OURS ":1"), CLAIM_DELIVERED);
  assert_int_equal(judge(9, "3:" OURS ":10"), CLAIM_DELIVERED); /* numbers, not texts */
}

static void before_the_first_window_an_earlier_owner_is_as_it_should_be(void **state) {
  (void)state;
  assert_int_equal(judge(0, NULL), CLAIM_PENDING);
  assert_int_equal(judge(0, "2:0000000000000001:9"), CLAIM_PENDING);
  assert_int_equal(judge(0, "1:" OURS ":1"), CLAIM_PENDING);
}

static void an_earlier_owner_later_on_means_that_redis_went_back(void **state) {
  (void)state;
  assert_int_equal(judge(1, NULL), CLAIM_FORGOTTEN);
  assert_int_equal(judge(1, "2:0000000000000001:9"), CLAIM_FORGOTTEN);
  assert_int_equal(judge(1, "2:" OURS ":2"), CLAIM_FORGOTTEN);
}

static void a_later_owner_has_taken_over(void **state) {
  (void)state;
  for (uint64_t delivered = 0; delivered < 2; delivered++) {
    assert_int_equal(judge(delivered, "4:0000000000000001:1"), CLAIM_TAKEN);
    assert_int_equal(judge(delivered, "10:" OURS ":1"), CLAIM_TAKEN);
    /* Two that took over from the same one: who writes second has lost. */
    assert_int_equal(judge(delivered, "3:0000000000000001:1"), CLAIM_TAKEN);
  }
}

static void what_no_agent_wrote_is_nobodys_claim(void **state) {
  (void)state;
  static const char *const values[] = {
      "",
      "9",
      "9:",
      "9::",
      "hello",
      "9:0000000000000001",
      "9:0000000000000001:",
      "9:0000000000000001:x",
      "9:0000000000000001:1 ",
      "9:0000000000000001:1x",
      "9:0000000000000001:1:1",
      " 9:0000000000000001:1",
      "+9:0000000000000001:1",
      "-9:0000000000000001:1",
      "09:0000000000000001:1",
      "9:0000000000000001:-1",
      "9:0000000000000001:01",
      "9:1:1",
      "9:0x00000000000001:1",
      "9:000000000000000A:1",
      "9:00000000000000001:1",
      "9223372036854775807:0000000000000001:1", /* from where one could not be raised for ever */
      "18446744073709551615:0000000000000001:1",
      "18446744073709551625:0000000000000001:1",
      "9:0000000000000001:18446744073709551616",
      "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
  };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    struct claim claim = heir_of(values[i], strlen(values[i]), NONCE);
    if (claim.generation != 1 || judge(0, values[i]) != CLAIM_PENDING ||
        judge(1, values[i]) != CLAIM_FORGOTTEN)
      fail_msg("%s", values[i]);
  }
  struct claim claim = heir_of("9:0000000000000001:1\0", 21, NONCE);
  assert_int_equal(claim.generation, 1);
}

static void expect_seen(struct claim *claim, bool executed, const char *value,
                        const struct claim_news *expected, uint64_t delivered) {
  struct claim_news news = claim_see(claim, executed, value, value != NULL ? strlen(value) : 0);
  assert_int_equal(news.arrived, expected->arrived);
  assert_int_equal(news.forgotten, expected->forgotten);
  assert_int_equal(news.taken, expected->taken);
  assert_int_equal(claim->delivered, delivered);
  assert_int_equal(claim_is_made(claim), delivered > 0);
}

static void what_is_seen_counts_what_arrived(void **state) {
  (void)state;
  static const struct claim_news nothing = {0}, arrived = {.arrived = true};
  struct claim claim = owner_at(0);
  expect_seen(&claim, false, "2:0000000000000001:9", &nothing, 0);
  expect_seen(&claim, true, "3:" OURS ":1", &arrived, 1);
  expect_seen(&claim, false, "3:" OURS ":1", &nothing, 1);
  expect_seen(&claim, false, "3:" OURS ":2", &arrived, 2); /* though its answer was lost */
}

static void what_was_executed_has_arrived_whatever_came_since(void **state) {
  (void)state;
  static const struct claim_news lost = {.arrived = true, .forgotten = true},
                                 taken = {.arrived = true, .taken = true};
  struct claim claim = owner_at(4);
  expect_seen(&claim, true, NULL, &lost, 5);
  expect_seen(&claim, true, "4:0000000000000001:1", &taken, 6);
}

static void what_was_not_executed_may_be_lost_or_taken(void **state) {
  (void)state;
  static const struct claim_news lost = {.forgotten = true}, taken = {.taken = true};
  struct claim claim = owner_at(4);
  expect_seen(&claim, false, "3:" OURS ":3", &lost, 4);
  expect_seen(&claim, false, "4:0000000000000001:1", &taken, 4);
}

static void what_is_unchanged_need_not_be_judged(void **state) {
  (void)state;
  struct claim claim = owner_at(0);
  assert_true(claim_is_unchanged(&claim, "3:" OURS ":0", 20));
  assert_false(claim_is_unchanged(&claim, "3:" OURS ":1", 20));
  for (claim.delivered = 1; claim.delivered < 1000; claim.delivered += 99) {
    char value[CLAIM_TEXT_SIZE];
    size_t length = claim_text(&claim, claim.delivered, value);
    for (int i = 0; i < 2; i++) {
      assert_true(claim_is_unchanged(&claim, value, length));
      assert_false(claim_is_unchanged(&claim, value, length - 1));
      assert_false(claim_is_unchanged(&claim, "4:" OURS ":1", 20));
      assert_false(claim_is_unchanged(&claim, NULL, 0));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_agent_raises_the_generation),
      cmocka_unit_test(its_text_names_all_three),
      cmocka_unit_test(its_own_number_tells_what_arrived),
      cmocka_unit_test(before_the_first_window_an_earlier_owner_is_as_it_should_be),
      cmocka_unit_test(an_earlier_owner_later_on_means_that_redis_went_back),
      cmocka_unit_test(a_later_owner_has_taken_over),
      cmocka_unit_test(what_no_agent_wrote_is_nobodys_claim),
      cmocka_unit_test(what_is_seen_counts_what_arrived),
      cmocka_unit_test(what_was_executed_has_arrived_whatever_came_since),
      cmocka_unit_test(what_was_not_executed_may_be_lost_or_taken),
      cmocka_unit_test(what_is_unchanged_need_not_be_judged),
  };
  return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
