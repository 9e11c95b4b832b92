#include "agent/doors/redis/in/recent_steps.h"
#include "tests/test.h"

static int set_up(void **state) {
  *state = calloc(1, sizeof(struct recent_steps));
  return *state == NULL ? -1 : 0;
}

static int tear_down(void **state) {
  free(*state);
  return 0;
}

#define RECENT_STEPS_TEST(NAME)                                                                    \
  TEST_WITH(struct recent_steps *recent_steps, NAME, set_up, tear_down)

RECENT_STEPS_TEST(before_a_rollback_everything_is_new) {
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_NEW);
  recent_steps_add(recent_steps, "a");
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_NEW);
  recent_steps_add(recent_steps, "a"); /* the same id again, pushed on purpose */
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_NEW);
}

RECENT_STEPS_TEST(what_was_started_before_a_rollback_is_answered_once) {
  recent_steps_add(recent_steps, "a");
  recent_steps_add(recent_steps, "b");
  recent_steps_roll_back(recent_steps);
  assert_int_equal(recent_steps_judge(recent_steps, "b"), RECENT_STEPS_ANSWERED);
  assert_int_equal(recent_steps_judge(recent_steps, "b"), RECENT_STEPS_NEW);
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_ANSWERED);
  assert_int_equal(recent_steps_judge(recent_steps, "never"), RECENT_STEPS_NEW);
}

RECENT_STEPS_TEST(each_start_counts) {
  recent_steps_add(recent_steps, "a");
  recent_steps_add(recent_steps, "a");
  recent_steps_roll_back(recent_steps);
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_ANSWERED);
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_ANSWERED);
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_NEW);
}

RECENT_STEPS_TEST(what_starts_after_a_rollback_is_new) {
  recent_steps_add(recent_steps, "old");
  recent_steps_roll_back(recent_steps);
  recent_steps_add(recent_steps, "young");
  assert_int_equal(recent_steps_judge(recent_steps, "young"), RECENT_STEPS_NEW);
  assert_int_equal(recent_steps_judge(recent_steps, "old"), RECENT_STEPS_ANSWERED);
}

RECENT_STEPS_TEST(what_is_held_is_known_once) {
  recent_steps_roll_back(recent_steps);
  recent_steps_hold(recent_steps, "waits"); /* was never started */
  assert_int_equal(recent_steps_judge(recent_steps, "waits"), RECENT_STEPS_HELD);
  assert_int_equal(recent_steps_judge(recent_steps, "waits"), RECENT_STEPS_NEW);
}

/* The step that runs while Redis goes back: it was started, and its answer comes. */
RECENT_STEPS_TEST(what_is_started_and_held_is_not_taken_for_answered) {
  recent_steps_add(recent_steps, "runs");
  recent_steps_roll_back(recent_steps);
  recent_steps_hold(recent_steps, "runs");
  assert_int_equal(recent_steps_judge(recent_steps, "runs"), RECENT_STEPS_HELD);
  assert_int_equal(recent_steps_judge(recent_steps, "runs"), RECENT_STEPS_NEW);
}

RECENT_STEPS_TEST(a_second_rollback_forgets_what_was_held_and_keeps_what_was_answered) {
  recent_steps_add(recent_steps, "answered");
  recent_steps_roll_back(recent_steps);
  recent_steps_hold(recent_steps, "waits");
  recent_steps_roll_back(recent_steps);
  assert_int_equal(recent_steps_judge(recent_steps, "waits"), RECENT_STEPS_NEW);
  assert_int_equal(recent_steps_judge(recent_steps, "answered"), RECENT_STEPS_ANSWERED);
}

/* Redis may lose data more than once. */
RECENT_STEPS_TEST(what_was_started_stays_known_in_a_second_rollback) {
  recent_steps_add(recent_steps, "answered");
  recent_steps_add(recent_steps, "runs");
  recent_steps_add(recent_steps, "settled");
  recent_steps_roll_back(recent_steps);
  recent_steps_hold(recent_steps, "runs");
  assert_int_equal(recent_steps_judge(recent_steps, "answered"), RECENT_STEPS_ANSWERED);
  assert_int_equal(recent_steps_judge(recent_steps, "runs"), RECENT_STEPS_HELD);
  recent_steps_settle(recent_steps);
  recent_steps_roll_back(recent_steps);
  assert_int_equal(recent_steps_judge(recent_steps, "answered"), RECENT_STEPS_ANSWERED);
  assert_int_equal(recent_steps_judge(recent_steps, "runs"), RECENT_STEPS_ANSWERED);
  assert_int_equal(recent_steps_judge(recent_steps, "settled"), RECENT_STEPS_ANSWERED);
}

/* An id that was used twice: the first one is answered, the second one runs. */
RECENT_STEPS_TEST(the_newest_start_is_the_one_that_is_held) {
  recent_steps_add(recent_steps, "a");
  recent_steps_add(recent_steps, "a");
  recent_steps_roll_back(recent_steps);
  recent_steps_hold(recent_steps, "a");
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_ANSWERED);
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_HELD);
  assert_int_equal(recent_steps_judge(recent_steps, "a"), RECENT_STEPS_NEW);
}

RECENT_STEPS_TEST(the_newest_are_kept) {
  char id[24];
  for (int i = 0; i < RECENT_STEPS_MAX + 1; i++) {
    snprintf(id, sizeof id, "step-%d", i);
    recent_steps_add(recent_steps, id);
  }
  recent_steps_roll_back(recent_steps);
  assert_int_equal(recent_steps_judge(recent_steps, "step-0"), RECENT_STEPS_NEW);
  for (int i = 1; i < RECENT_STEPS_MAX + 1; i++) {
    snprintf(id, sizeof id, "step-%d", i);
    assert_int_equal(recent_steps_judge(recent_steps, id), RECENT_STEPS_ANSWERED);
  }
}

RECENT_STEPS_TEST(what_is_held_twice_is_held_once) {
  recent_steps_hold(recent_steps, "waits");
  recent_steps_hold(recent_steps, "waits");
  assert_int_equal(recent_steps_judge(recent_steps, "waits"), RECENT_STEPS_HELD);
  assert_int_equal(recent_steps_judge(recent_steps, "waits"), RECENT_STEPS_NEW);
}

/* Redis has handed out all that it had: an id that comes now is pushed on purpose. */
RECENT_STEPS_TEST(when_it_is_settled_everything_is_new) {
  recent_steps_add(recent_steps, "answered");
  recent_steps_roll_back(recent_steps);
  recent_steps_hold(recent_steps, "held");
  recent_steps_add(recent_steps, "young");
  recent_steps_settle(recent_steps);
  assert_int_equal(recent_steps_judge(recent_steps, "answered"), RECENT_STEPS_NEW);
  assert_int_equal(recent_steps_judge(recent_steps, "held"), RECENT_STEPS_NEW);
  recent_steps_roll_back(recent_steps);
  assert_int_equal(recent_steps_judge(recent_steps, "young"), RECENT_STEPS_ANSWERED);
}

RECENT_STEPS_TEST(starts_are_counted) {
  assert_int_equal(recent_steps_times(recent_steps, "a"), 0);
  recent_steps_add(recent_steps, "a");
  recent_steps_add(recent_steps, "b");
  recent_steps_add(recent_steps, "a");
  assert_int_equal(recent_steps_times(recent_steps, "a"), 2);
  assert_int_equal(recent_steps_times(recent_steps, "b"), 1);
}
