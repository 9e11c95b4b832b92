#include "agent/frontends/redis/intake/recent_steps.h"
#include "tests/test.h"

/* Applies an event. Returns false if the step with this id belongs to another class. */
static bool apply(struct recent_steps *recent_steps, const char *what, const char *id) {
  static const char *const classes[] = {[RECENT_STEPS_NEW] = "new",
                                        [RECENT_STEPS_DUPLICATE] = "duplicate",
                                        [RECENT_STEPS_RESULT_LOST] = "lost"};
  if (strcmp(what, "add") == 0)
    recent_steps_add(recent_steps, id);
  else if (strcmp(what, "pending") == 0)
    recent_steps_mark_pending(recent_steps, id, false);
  else if (strcmp(what, "pending_started") == 0)
    recent_steps_mark_pending(recent_steps, id, true);
  else if (strcmp(what, "rollback") == 0)
    recent_steps_roll_back(recent_steps);
  else if (strcmp(what, "end") == 0)
    recent_steps_end_redelivery(recent_steps);
  else
    return strcmp(what, classes[recent_steps_classify(recent_steps, id)]) == 0;
  return true;
}

TEST(redelivered_steps_are_recognized) {
  static const struct {
    const char *name, *events;
  } rows[] = {
      {"before a rollback every step is new, also one with a repeated id",
       "new a, add a, new a, add a, new a"},
      {"the lost result of a step that was started is reported once",
       "add a, add b, rollback, lost b, lost a, duplicate a, duplicate b, duplicate a, new c"},
      {"the lost result of each start is reported",
       "add a, add a, rollback, lost a, lost a, duplicate a, duplicate a"},
      {"a step that is started after a rollback is new",
       "add old, rollback, add young, new young, lost old"},
      {"a waiting step is recognized, although it was never started",
       "rollback, pending a, duplicate a, duplicate a"},
      {"a waiting step is recognized after its start",
       "rollback, pending a, duplicate a, add a, duplicate a"},
      {"the result of a step that runs during a rollback is not lost",
       "add a, rollback, pending_started a, duplicate a, duplicate a"},
      {"a step that ran during a rollback is lost after a second one",
       "add a, rollback, pending_started a, rollback, lost a, duplicate a"},
      {"a second rollback forgets waiting steps and remembers started ones",
       "add ended, rollback, pending waits, rollback, new waits, lost ended"},
      {"a second rollback makes a reported result lost again",
       "add a, rollback, lost a, rollback, pending_started a, duplicate a, rollback, lost a"},
      {"started steps are remembered over a second rollback",
       "add ended, add runs, add last, rollback, pending_started runs, lost ended, duplicate runs,"
       "end, rollback, lost ended, lost runs, lost last"},
      {"if an id was used twice, the newest start is pending and the first one is lost",
       "add a, add a, rollback, pending_started a, lost a, duplicate a, duplicate a"},
      {"if a step with a repeated id waits, the first start is lost and the waiting one a "
       "duplicate",
       "add a, rollback, pending a, lost a, duplicate a, duplicate a"},
      {"after the end of redelivery every step is new",
       "add ended, rollback, pending_started ended, pending a, add young, end, new ended, new a,"
       "rollback, lost young, lost ended"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct recent_steps recent_steps = {0};
    char events[320], *rest = strcpy(events, rows[i].events);
    for (const char *event; (event = strsep(&rest, ",")) != NULL;) {
      char what[24] = "", id[16] = "";
      assert_true(sscanf(event, "%23s %15s", what, id) > 0);
      if (!apply(&recent_steps, what, id))
        fail_msg("%s: not%s%s", rows[i].name, event[0] == ' ' ? "" : " ", event);
    }
  }
}

TEST(only_the_newest_starts_are_remembered) {
  struct recent_steps recent_steps = {0};
  char id[24];
  for (int i = 0; i < RECENT_STEPS_MAX + 1; i++) {
    snprintf(id, sizeof id, "step-%d", i);
    recent_steps_add(&recent_steps, id);
  }
  recent_steps_roll_back(&recent_steps);
  for (int i = 0; i < RECENT_STEPS_MAX + 1; i++) {
    snprintf(id, sizeof id, "step-%d", i);
    assert_int_equal(recent_steps_classify(&recent_steps, id),
                     i == 0 ? RECENT_STEPS_NEW : RECENT_STEPS_RESULT_LOST);
  }
}

TEST(the_starts_of_an_id_are_counted) {
  struct recent_steps recent_steps = {0};
  assert_int_equal(recent_steps_count_starts(&recent_steps, "a"), 0);
  recent_steps_add(&recent_steps, "a");
  recent_steps_add(&recent_steps, "b");
  recent_steps_add(&recent_steps, "a");
  assert_int_equal(recent_steps_count_starts(&recent_steps, "a"), 2);
  assert_int_equal(recent_steps_count_starts(&recent_steps, "b"), 1);
}
