#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/history.h"

static int set_up(void **state) {
  *state = calloc(1, sizeof(struct history));
  return *state == NULL ? -1 : 0;
}

static int tear_down(void **state) {
  free(*state);
  return 0;
}

static void before_a_rollback_everything_is_new(void **state) {
  struct history *history = *state;
  assert_int_equal(history_judge(history, "a"), HISTORY_NEW);
  history_add(history, "a");
  assert_int_equal(history_judge(history, "a"), HISTORY_NEW);
  history_add(history, "a"); /* the same id again, pushed on purpose */
  assert_int_equal(history_judge(history, "a"), HISTORY_NEW);
}

static void what_was_started_before_a_rollback_is_answered_once(void **state) {
  struct history *history = *state;
  history_add(history, "a");
  history_add(history, "b");
  history_roll_back(history);
  assert_int_equal(history_judge(history, "b"), HISTORY_ANSWERED);
  assert_int_equal(history_judge(history, "b"), HISTORY_NEW);
  assert_int_equal(history_judge(history, "a"), HISTORY_ANSWERED);
  assert_int_equal(history_judge(history, "never"), HISTORY_NEW);
}

static void each_start_counts(void **state) {
  struct history *history = *state;
  history_add(history, "a");
  history_add(history, "a");
  history_roll_back(history);
  assert_int_equal(history_judge(history, "a"), HISTORY_ANSWERED);
  assert_int_equal(history_judge(history, "a"), HISTORY_ANSWERED);
  assert_int_equal(history_judge(history, "a"), HISTORY_NEW);
}

static void what_starts_after_a_rollback_is_new(void **state) {
  struct history *history = *state;
  history_add(history, "old");
  history_roll_back(history);
  history_add(history, "young");
  assert_int_equal(history_judge(history, "young"), HISTORY_NEW);
  assert_int_equal(history_judge(history, "old"), HISTORY_ANSWERED);
}

static void what_is_held_is_known_once(void **state) {
  struct history *history = *state;
  history_roll_back(history);
  history_hold(history, "waits"); /* was never started */
  assert_int_equal(history_judge(history, "waits"), HISTORY_HELD);
  assert_int_equal(history_judge(history, "waits"), HISTORY_NEW);
}

/* The step that runs while Redis goes back: it was started, and its answer comes. */
static void what_is_started_and_held_is_not_taken_for_answered(void **state) {
  struct history *history = *state;
  history_add(history, "runs");
  history_roll_back(history);
  history_hold(history, "runs");
  assert_int_equal(history_judge(history, "runs"), HISTORY_HELD);
  assert_int_equal(history_judge(history, "runs"), HISTORY_NEW);
}

static void a_second_rollback_forgets_what_was_held_and_keeps_what_was_answered(void **state) {
  struct history *history = *state;
  history_add(history, "answered");
  history_roll_back(history);
  history_hold(history, "waits");
  history_roll_back(history);
  assert_int_equal(history_judge(history, "waits"), HISTORY_NEW);
  assert_int_equal(history_judge(history, "answered"), HISTORY_ANSWERED);
}

static void the_newest_are_kept(void **state) {
  struct history *history = *state;
  char id[24];
  for (int i = 0; i < HISTORY_MOST + 1; i++) {
    snprintf(id, sizeof id, "step-%d", i);
    history_add(history, id);
  }
  history_roll_back(history);
  assert_int_equal(history_judge(history, "step-0"), HISTORY_NEW);
  for (int i = 1; i < HISTORY_MOST + 1; i++) {
    snprintf(id, sizeof id, "step-%d", i);
    assert_int_equal(history_judge(history, id), HISTORY_ANSWERED);
  }
}

static void what_is_held_twice_is_held_once(void **state) {
  struct history *history = *state;
  history_hold(history, "waits");
  history_hold(history, "waits");
  assert_int_equal(history_judge(history, "waits"), HISTORY_HELD);
  assert_int_equal(history_judge(history, "waits"), HISTORY_NEW);
}

/* Redis has handed out all that it had: an id that comes now is pushed on purpose. */
static void when_it_is_settled_everything_is_new(void **state) {
  struct history *history = *state;
  history_add(history, "answered");
  history_roll_back(history);
  history_hold(history, "held");
  history_add(history, "young");
  history_settle(history);
  assert_int_equal(history_judge(history, "answered"), HISTORY_NEW);
  assert_int_equal(history_judge(history, "held"), HISTORY_NEW);
  history_roll_back(history);
  assert_int_equal(history_judge(history, "young"), HISTORY_ANSWERED);
}

static void starts_are_counted(void **state) {
  struct history *history = *state;
  assert_int_equal(history_times(history, "a"), 0);
  history_add(history, "a");
  history_add(history, "b");
  history_add(history, "a");
  assert_int_equal(history_times(history, "a"), 2);
  assert_int_equal(history_times(history, "b"), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(before_a_rollback_everything_is_new, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_was_started_before_a_rollback_is_answered_once, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(each_start_counts, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_starts_after_a_rollback_is_new, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_held_is_known_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_started_and_held_is_not_taken_for_answered, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(
          a_second_rollback_forgets_what_was_held_and_keeps_what_was_answered, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_held_twice_is_held_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(when_it_is_settled_everything_is_new, set_up, tear_down),
      cmocka_unit_test_setup_teardown(starts_are_counted, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_newest_are_kept, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
