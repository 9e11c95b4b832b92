#include "agent/doors/call_progress.h"

#include "tests/test.h"

TEST(the_first_comes_after_half_a_second) {
  struct call_progress progress = call_progress_begin(1000);
  assert_int_equal(call_progress_wait(&progress, 1000), 500);
  assert_false(call_progress_is_due(&progress, 1499, 0));
  assert_false(call_progress_is_due(&progress, 1499, 77));
  assert_true(call_progress_is_due(&progress, 1500, 0));
  assert_int_equal(progress.last_ms - progress.start_ms, 500);
}

TEST(new_output_is_told_four_times_a_second) {
  struct call_progress progress = call_progress_begin(0);
  assert_true(call_progress_is_due(&progress, 500, 1));
  int told = 0;
  for (int64_t now = 501; now <= 2500; now++)
    told += call_progress_is_due(&progress, now, (uint64_t)now);
  assert_int_equal(told, 8);
}

TEST(without_new_output_it_is_told_every_five_seconds) {
  struct call_progress progress = call_progress_begin(0);
  assert_true(call_progress_is_due(&progress, 500, 1));
  assert_false(call_progress_is_due(&progress, 5499, 1));
  assert_true(call_progress_is_due(&progress, 5500, 1));
  assert_false(call_progress_is_due(&progress, 10499, 1));
  assert_true(call_progress_is_due(&progress, 10500, 1));
}

TEST(it_is_asked_again_when_something_can_be_due) {
  struct call_progress progress = call_progress_begin(0);
  assert_int_equal(call_progress_wait(&progress, 100), 400);
  assert_true(call_progress_is_due(&progress, 500, 1));
  assert_int_equal(call_progress_wait(&progress, 500), 250);
  assert_int_equal(call_progress_wait(&progress, 600), 150);
  assert_int_equal(call_progress_wait(&progress, 5000), 250);
}

/* Strictly rising: it is never due twice in a millisecond. */
TEST(it_rises) {
  struct call_progress progress = call_progress_begin(0);
  assert_true(call_progress_is_due(&progress, 500, 1));
  assert_false(call_progress_is_due(&progress, 500, 2));
}

TEST(a_message_has_200_characters) {
  char line[602] = "";
  for (int i = 0; i < 300; i++)
    strcat(line, "\xC3\xA9");
  assert_int_equal(call_progress_cut(line, 600), 400);
  assert_int_equal(call_progress_cut(line, 398), 398);
  memset(line, 0xFF, 600);
  assert_int_equal(call_progress_cut(line, 600), 200);
}
