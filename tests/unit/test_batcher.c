#include "agent/engine/batcher.h"
#include "tests/test.h"

TEST(nothing_is_due_without_lines) {
  struct batcher batcher;
  batcher_init(&batcher, 1000);
  assert_int_equal(batcher_due_in_ms(&batcher, 1000), -1);
  assert_int_equal(batcher_due_in_ms(&batcher, 999999), -1);
  batcher_add(&batcher, 1000);
  batcher_flushed(&batcher);
  assert_int_equal(batcher_due_in_ms(&batcher, 999999), -1);
}

TEST(the_first_line_leaves_at_once) {
  static const int64_t starts[] = {0, 1, 1000, INT64_C(1700000000000)};
  for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
    struct batcher batcher;
    batcher_init(&batcher, starts[i]);
    batcher_add(&batcher, starts[i]);
    assert_int_equal(batcher_due_in_ms(&batcher, starts[i]), 0);
  }
}

/* A batcher whose last line left at once, at this time. */
static struct batcher after_a_line(int64_t now_ms) {
  struct batcher batcher;
  batcher_init(&batcher, now_ms);
  batcher_add(&batcher, now_ms);
  batcher_flushed(&batcher);
  return batcher;
}

TEST(the_oldest_line_waits_100_ms) {
  struct batcher batcher = after_a_line(1000);
  batcher_add(&batcher, 1010);
  assert_int_equal(batcher_due_in_ms(&batcher, 1010), 100);
  batcher_add(&batcher, 1050); /* a newer one changes nothing */
  assert_int_equal(batcher_due_in_ms(&batcher, 1050), 60);
  assert_int_equal(batcher_due_in_ms(&batcher, 1109), 1);
  assert_int_equal(batcher_due_in_ms(&batcher, 1110), 0);
  assert_int_equal(batcher_due_in_ms(&batcher, 5000), 0); /* late is due, not past */
  batcher_flushed(&batcher);
  batcher_add(&batcher, 1120); /* the next batch has its own age */
  assert_int_equal(batcher_due_in_ms(&batcher, 1120), 100);
}

TEST(fifty_lines_do_not_wait) {
  struct batcher batcher = after_a_line(1000);
  for (int round = 0; round < 3; round++) {
    for (int i = 1; i < 50; i++) {
      batcher_add(&batcher, 1001);
      assert_int_equal(batcher_due_in_ms(&batcher, 1001), 100);
    }
    batcher_add(&batcher, 1001);
    assert_int_equal(batcher_due_in_ms(&batcher, 1001), 0);
    batcher_add(&batcher, 1001);
    assert_int_equal(batcher_due_in_ms(&batcher, 1001), 0);
    batcher_flushed(&batcher);
  }
}

TEST(a_line_after_silence_leaves_at_once) {
  static const struct {
    int64_t pause_ms;
    int64_t due_in_ms;
  } rows[] = {{0, 100}, {1, 100}, {99, 100}, {100, 0}, {101, 0}, {100000, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct batcher batcher = after_a_line(1000);
    batcher_add(&batcher, 1000 + rows[i].pause_ms);
    assert_int_equal(batcher_due_in_ms(&batcher, 1000 + rows[i].pause_ms), rows[i].due_in_ms);
    /* What comes with it leaves with it; what follows is no silence any more. */
    batcher_add(&batcher, 1001 + rows[i].pause_ms);
    batcher_flushed(&batcher);
    batcher_add(&batcher, 1002 + rows[i].pause_ms);
    assert_int_equal(batcher_due_in_ms(&batcher, 1002 + rows[i].pause_ms), 100);
  }
}

/* A flush is no line: silence counts from the last line that was collected. */
TEST(silence_counts_from_the_last_line) {
  struct batcher batcher = after_a_line(1000);
  batcher_add(&batcher, 1050);
  batcher_flushed(&batcher); /* at 1150 */
  batcher_add(&batcher, 1149);
  assert_int_equal(batcher_due_in_ms(&batcher, 1149), 100);
  batcher_flushed(&batcher);
  batcher_add(&batcher, 1249);
  assert_int_equal(batcher_due_in_ms(&batcher, 1249), 0);
}
