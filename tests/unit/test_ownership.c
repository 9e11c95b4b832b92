#include "agent/frontends/redis/delivery/ownership.h"
#include "tests/test.h"

#define INSTANCE 0xabcdef0123456789U
#define OURS "0000000000000007"

/* Returns an agent that takes the job over from the owner with this value. */
static struct ownership successor_of(const char *value, size_t length, uint64_t instance) {
  struct ownership ownership = {.instance = instance};
  assert_int_equal(ownership_update(&ownership, false, value, length), OWNERSHIP_PENDING);
  assert_int_equal(ownership.delivered, 0);
  return ownership;
}

/* An agent of epoch 3 and instance 7. */
static struct ownership owner_at(uint64_t delivered) {
  struct ownership ownership = successor_of("2:0000000000000001:9", 20, 7);
  ownership.delivered = delivered;
  return ownership;
}

static enum ownership_state judge(uint64_t delivered, const char *value) {
  struct ownership ownership = owner_at(delivered);
  return ownership_compare(&ownership, value, value != NULL ? strlen(value) : 0);
}

TEST(each_agent_raises_the_epoch) {
  struct ownership ownership = successor_of(NULL, 0, INSTANCE);
  assert_int_equal(ownership.epoch, 1);
  assert_int_equal(ownership.delivered, 0);
  for (uint64_t epoch = 1; epoch < 5; epoch++) {
    char value[OWNERSHIP_TEXT_SIZE];
    size_t length = ownership_text(&ownership, 1000, value);
    ownership = successor_of(value, length, INSTANCE + epoch);
    assert_int_equal(ownership.epoch, epoch + 1);
    assert_int_equal(ownership.delivered, 0);
    assert_true(ownership.instance == INSTANCE + epoch);
  }
}

TEST(the_token_has_three_numbers) {
  struct ownership ownership = owner_at(4);
  char text[OWNERSHIP_TEXT_SIZE];
  assert_int_equal(ownership_text(&ownership, 5, text), 20);
  assert_string_equal(text, "3:" OURS ":5");
  ownership = (struct ownership){.epoch = UINT64_MAX, .instance = UINT64_MAX};
  assert_true(ownership_text(&ownership, UINT64_MAX, text) == strlen(text)); /* the longest fits */
  assert_string_equal(text, "18446744073709551615:ffffffffffffffff:18446744073709551615");
}

TEST(a_value_is_compared_with_the_delivered_batch) {
  static const struct {
    const char *name;
    uint64_t delivered;
    const char *value;
    enum ownership_state state;
  } rows[] = {
      {"the next sequence means delivered", 4, "3:" OURS ":5", OWNERSHIP_DELIVERED},
      {"also for the first transaction", 0, "3:" OURS ":1", OWNERSHIP_DELIVERED},
      {"numbers are compared, not texts", 9, "3:" OURS ":10", OWNERSHIP_DELIVERED},
      {"the same sequence means pending", 4, "3:" OURS ":4", OWNERSHIP_PENDING},
      {"an earlier sequence means lost data", 4, "3:" OURS ":3", OWNERSHIP_LOST_DATA},
      {"a sequence that was never sent means lost data", 4, "3:" OURS ":6", OWNERSHIP_LOST_DATA},
      {"before the first transaction there may be no owner", 0, NULL, OWNERSHIP_PENDING},
      {"before the first transaction there may be an earlier owner", 0, "2:0000000000000001:9",
       OWNERSHIP_PENDING},
      {"before the first transaction the instance may be the same", 0, "1:" OURS ":1",
       OWNERSHIP_PENDING},
      {"later, no owner means lost data", 1, NULL, OWNERSHIP_LOST_DATA},
      {"later, an earlier owner means lost data", 1, "2:0000000000000001:9", OWNERSHIP_LOST_DATA},
      {"later, an earlier owner of this instance means lost data", 1, "2:" OURS ":2",
       OWNERSHIP_LOST_DATA},
      {"another agent was faster", 0, "4:0000000000000001:1", OWNERSHIP_TAKEN},
      {"another agent has taken over", 1, "4:0000000000000001:1", OWNERSHIP_TAKEN},
      {"epochs are compared as numbers before the first transaction", 0, "10:" OURS ":1",
       OWNERSHIP_TAKEN},
      {"epochs are compared as numbers", 1, "10:" OURS ":1", OWNERSHIP_TAKEN},
      {"another agent of the same epoch was faster", 0, "3:0000000000000001:1", OWNERSHIP_TAKEN},
      {"another agent of the same epoch has written", 1, "3:0000000000000001:1", OWNERSHIP_TAKEN},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (judge(rows[i].delivered, rows[i].value) != rows[i].state)
      fail_msg("%s", rows[i].name);
}

TEST(a_value_of_another_form_is_no_owner) {
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
      "9223372036854775807:0000000000000001:1", /* epochs after this one could overflow */
      "18446744073709551615:0000000000000001:1",
      "18446744073709551625:0000000000000001:1",
      "9:0000000000000001:18446744073709551616",
      "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
  };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    struct ownership ownership = successor_of(values[i], strlen(values[i]), INSTANCE);
    if (ownership.epoch != 1 || judge(0, values[i]) != OWNERSHIP_PENDING ||
        judge(1, values[i]) != OWNERSHIP_LOST_DATA)
      fail_msg("%s", values[i]);
  }
  struct ownership ownership = successor_of("9:0000000000000001:1\0", 21, INSTANCE);
  assert_int_equal(ownership.epoch, 1);
}

static void expect_seen(struct ownership *ownership, bool executed, const char *value,
                        enum ownership_state state, uint64_t delivered) {
  size_t length = value != NULL ? strlen(value) : 0;
  assert_int_equal(ownership_update(ownership, executed, value, length), state);
  assert_int_equal(ownership->delivered, delivered);
}

TEST(an_update_counts_delivered_transactions) {
  struct ownership ownership = owner_at(0);
  expect_seen(&ownership, false, "2:0000000000000001:9", OWNERSHIP_PENDING, 0);
  expect_seen(&ownership, true, "3:" OURS ":1", OWNERSHIP_PENDING, 1);
  expect_seen(&ownership, false, "3:" OURS ":1", OWNERSHIP_PENDING, 1);
  /* The reply was lost. */
  expect_seen(&ownership, false, "3:" OURS ":2", OWNERSHIP_DELIVERED, 2);
}

TEST(an_executed_transaction_counts_whatever_the_value_is) {
  struct ownership ownership = owner_at(4);
  expect_seen(&ownership, true, NULL, OWNERSHIP_LOST_DATA, 5);
  expect_seen(&ownership, true, "4:0000000000000001:1", OWNERSHIP_TAKEN, 6);
}

TEST(without_an_executed_transaction_the_value_decides) {
  struct ownership ownership = owner_at(4);
  expect_seen(&ownership, false, "3:" OURS ":3", OWNERSHIP_LOST_DATA, 4);
  expect_seen(&ownership, false, "4:0000000000000001:1", OWNERSHIP_TAKEN, 4);
}
