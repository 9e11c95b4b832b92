#include "agent/doors/mcp/progress.h"

#include "tests/test.h"

TEST(the_first_comes_after_half_a_second) {
  struct mcp_progress progress = mcp_progress_begin(1000);
  assert_int_equal(mcp_progress_wait(&progress, 1000), 500);
  assert_false(mcp_progress_is_due(&progress, 1499, 0));
  assert_false(mcp_progress_is_due(&progress, 1499, 77));
  assert_true(mcp_progress_is_due(&progress, 1500, 0));
  assert_int_equal(progress.last_ms - progress.start_ms, 500);
}

TEST(new_output_is_told_four_times_a_second) {
  struct mcp_progress progress = mcp_progress_begin(0);
  assert_true(mcp_progress_is_due(&progress, 500, 1));
  int told = 0;
  for (int64_t now = 501; now <= 2500; now++)
    told += mcp_progress_is_due(&progress, now, (uint64_t)now);
  assert_int_equal(told, 8);
}

TEST(without_new_output_it_is_told_every_five_seconds) {
  struct mcp_progress progress = mcp_progress_begin(0);
  assert_true(mcp_progress_is_due(&progress, 500, 1));
  assert_false(mcp_progress_is_due(&progress, 5499, 1));
  assert_true(mcp_progress_is_due(&progress, 5500, 1));
  assert_false(mcp_progress_is_due(&progress, 10499, 1));
  assert_true(mcp_progress_is_due(&progress, 10500, 1));
}

TEST(it_is_asked_again_when_something_can_be_due) {
  struct mcp_progress progress = mcp_progress_begin(0);
  assert_int_equal(mcp_progress_wait(&progress, 100), 400);
  assert_true(mcp_progress_is_due(&progress, 500, 1));
  assert_int_equal(mcp_progress_wait(&progress, 500), 250);
  assert_int_equal(mcp_progress_wait(&progress, 600), 150);
  assert_int_equal(mcp_progress_wait(&progress, 5000), 250);
}

/* Strictly rising: it is never due twice in a millisecond. */
TEST(it_rises) {
  struct mcp_progress progress = mcp_progress_begin(0);
  assert_true(mcp_progress_is_due(&progress, 500, 1));
  assert_false(mcp_progress_is_due(&progress, 500, 2));
}
