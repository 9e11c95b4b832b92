#include "agent/engine/batcher.h"
#include "tests/test.h"

TEST(nothing_is_due_without_lines) {
  struct batcher batcher;
  batcher_init(&batcher, 1000);
  assert_int_equal(batcher_due_in_ms(&batcher, 1000), -1);
  assert_int_equal(batcher_due_in_ms(&batcher, 999999), -1);
  batcher_add(&batcher, 1000);
  batcher_flushed(&batcher, 1000);
  assert_int_equal(batcher_due_in_ms(&batcher, 999999), -1);
}

/* Adds a line. Returns how long its batch may wait. */
static int64_t add(struct batcher *batcher, int64_t now_ms) {
  batcher_add(batcher, now_ms);
  return batcher_due_in_ms(batcher, now_ms);
}

/* Returns a batcher whose first line was sent at this time. */
static struct batcher after_a_line(int64_t now_ms) {
  struct batcher batcher;
  batcher_init(&batcher, now_ms);
  assert_int_equal(add(&batcher, now_ms), 0);
  batcher_flushed(&batcher, now_ms);
  return batcher;
}

/* Returns a batcher that has used up its quick batches, with a line every 5 ms and each batch sent
   when it is due. Sets *now_ms to the time of the last batch and the last line. */
static struct batcher after_a_burst(int64_t *now_ms) {
  struct batcher batcher = after_a_line(*now_ms);
  int batches = 0;
  for (; batcher.quick > 0; *now_ms += 5)
    if (add(&batcher, *now_ms) == 0) {
      batcher_flushed(&batcher, *now_ms);
      batches++;
    }
  *now_ms -= 5;
  assert_int_equal(batches, BATCHER_QUICK);
  return batcher;
}

TEST(a_short_burst_waits_only_for_the_gap) {
  struct batcher batcher = after_a_line(1000);
  assert_int_equal(add(&batcher, 1001), 9); /* since the last batch */
  assert_int_equal(add(&batcher, 1004), 6); /* a newer line changes nothing */
  assert_int_equal(batcher_due_in_ms(&batcher, 1009), 1);
  assert_int_equal(batcher_due_in_ms(&batcher, 1010), 0);
  assert_int_equal(batcher_due_in_ms(&batcher, 5000), 0); /* it stays due */
  batcher_flushed(&batcher, 1013);                        /* late, too */
  assert_int_equal(add(&batcher, 1014), 9);
  batcher_flushed(&batcher, 1023);
  assert_int_equal(add(&batcher, 1040), 0); /* the gap is over */
}

TEST(a_line_of_a_continuous_stream_waits_at_most_100_ms) {
  int64_t now_ms = 1000;
  struct batcher batcher = after_a_burst(&now_ms);
  assert_int_equal(now_ms, 1000 + BATCHER_QUICK * BATCHER_GAP_MS);
  for (int round = 0; round < 3; round++) {
    assert_int_equal(add(&batcher, now_ms + 1), BATCHER_AGE_MS);
    for (int i = 1; i < 10; i++)
      assert_int_equal(add(&batcher, now_ms + 1 + 10 * i), BATCHER_AGE_MS - 10 * i);
    assert_int_equal(add(&batcher, now_ms + 100), 1);
    now_ms += 101;
    assert_int_equal(batcher_due_in_ms(&batcher, now_ms), 0);
    batcher_flushed(&batcher, now_ms);
  }
}

/* Lines without a pause, for ten seconds. */
TEST(a_stream_costs_ten_batches_a_second) {
  struct batcher batcher;
  int batches = 0;
  batcher_init(&batcher, 0);
  for (int64_t now_ms = 0; now_ms < 10000; now_ms++) {
    if (now_ms % 10 == 0)
      batcher_add(&batcher, now_ms);
    if (batcher_due_in_ms(&batcher, now_ms) == 0) {
      batcher_flushed(&batcher, now_ms);
      batches++;
    }
  }
  assert_in_range(batches, 90, 100 + 1 + BATCHER_QUICK);
}

TEST(single_lines_are_sent_one_by_one) {
  int64_t now_ms = 1000;
  struct batcher batcher = after_a_burst(&now_ms);
  for (int i = 0; i < 100; i++) {
    now_ms += BATCHER_PAUSE_MS;
    assert_int_equal(add(&batcher, now_ms), 0);
    batcher_flushed(&batcher, now_ms);
  }
  assert_int_equal(add(&batcher, now_ms + BATCHER_PAUSE_MS - 1), BATCHER_AGE_MS);
}

/* A line that follows is sent with the line after a pause, and costs no quick batch. */
TEST(a_short_pause_does_not_count_as_silence) {
  int64_t now_ms = 1000;
  struct batcher batcher = after_a_burst(&now_ms);
  now_ms += BATCHER_PAUSE_MS;
  assert_int_equal(add(&batcher, now_ms), 0);
  assert_int_equal(add(&batcher, now_ms + 1), 0);
  batcher_flushed(&batcher, now_ms + 1);
  assert_int_equal(add(&batcher, now_ms + 2), BATCHER_AGE_MS); /* no quick batch is left */
}

TEST(silence_allows_quick_batches_again) {
  static const struct {
    int64_t silence_ms, next_due_in_ms;
  } rows[] = {{BATCHER_AGE_MS - 1, BATCHER_AGE_MS},
              {BATCHER_AGE_MS, BATCHER_GAP_MS - 1},
              {100000, BATCHER_GAP_MS - 1}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int64_t now_ms = 1000;
    struct batcher batcher = after_a_burst(&now_ms);
    now_ms += rows[i].silence_ms;
    assert_int_equal(add(&batcher, now_ms), 0);
    batcher_flushed(&batcher, now_ms);
    assert_int_equal(add(&batcher, now_ms + 1), rows[i].next_due_in_ms);
  }
}

/* A pause and a silence count from the last line, not from the last batch. */
TEST(silence_counts_from_the_last_line) {
  int64_t now_ms = 1000;
  struct batcher batcher = after_a_burst(&now_ms);
  assert_int_equal(add(&batcher, now_ms + 1), BATCHER_AGE_MS);
  batcher_flushed(&batcher, now_ms + 101);
  assert_int_equal(add(&batcher, now_ms + 102), 0); /* 101 ms after the line before it */
  assert_int_equal(batcher.quick, BATCHER_QUICK);
}

TEST(a_batch_of_fifty_lines_is_due_at_once) {
  int64_t now_ms = 1000;
  struct batcher batcher = after_a_burst(&now_ms);
  for (int round = 0; round < 3; round++) {
    for (int i = 1; i < BATCHER_LINES; i++)
      assert_int_equal(add(&batcher, now_ms), BATCHER_AGE_MS);
    assert_int_equal(add(&batcher, now_ms), 0);
    assert_int_equal(add(&batcher, now_ms), 0);
    batcher_flushed(&batcher, now_ms);
  }
}
