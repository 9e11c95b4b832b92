#include "agent/frontends/redis/intake/recent_steps.h"
#include "tests/test.h"

/* One event of a story; or false, when the step of this id is judged otherwise. */
static bool happens(struct recent_steps *recent_steps, const char *what, const char *id) {
  static const char *const verdicts[] = {[RECENT_STEPS_NEW] = "new",
                                         [RECENT_STEPS_HELD] = "held",
                                         [RECENT_STEPS_ANSWERED] = "answered"};
  if (strcmp(what, "add") == 0)
    recent_steps_add(recent_steps, id);
  else if (strcmp(what, "hold") == 0)
    recent_steps_hold(recent_steps, id, false);
  else if (strcmp(what, "hold_started") == 0)
    recent_steps_hold(recent_steps, id, true);
  else if (strcmp(what, "rollback") == 0)
    recent_steps_roll_back(recent_steps);
  else if (strcmp(what, "settle") == 0)
    recent_steps_settle(recent_steps);
  else
    return strcmp(what, verdicts[recent_steps_judge(recent_steps, id)]) == 0;
  return true;
}

TEST(each_story_comes_true) {
  static const struct {
    const char *name, *events;
  } rows[] = {
      {"before a rollback everything is new, also an id that is pushed again on purpose",
       "new a, add a, new a, add a, new a"},
      {"what was started before a rollback is answered once",
       "add a, add b, rollback, answered b, answered a, held a, held b, held a, new c"},
      {"each start counts", "add a, add a, rollback, answered a, answered a, held a, held a"},
      {"what starts after a rollback is new",
       "add old, rollback, add young, new young, answered old"},
      {"what waits is known, though it was never started", "rollback, hold a, held a, held a"},
      {"what waits and starts is known", "rollback, hold a, held a, add a, held a"},
      {"what runs while Redis goes back is not taken for answered: its answer comes",
       "add a, rollback, hold_started a, held a, held a"},
      {"what runs in two rollbacks without having been handed out is answered",
       "add a, rollback, hold_started a, rollback, answered a, held a"},
      {"a second rollback forgets what waited and keeps what was answered",
       "add ended, rollback, hold waits, rollback, new waits, answered ended"},
      {"a second rollback asks anew for what was judged",
       "add a, rollback, answered a, rollback, hold_started a, held a, rollback, answered a"},
      {"what was started stays known in a second rollback",
       "add ended, add runs, add last, rollback, hold_started runs, answered ended, held runs,"
       "settle, rollback, answered ended, answered runs, answered last"},
      {"of an id that was used twice the newest start is held, and the first one answered",
       "add a, add a, rollback, hold_started a, answered a, held a, held a"},
      {"of an id that waits to be used again the first start is answered, and the other one held",
       "add a, rollback, hold a, answered a, held a, held a"},
      {"once Redis has handed out all that it had, an id that comes is new",
       "add ended, rollback, hold_started ended, hold a, add young, settle, new ended, new a,"
       "rollback, answered young, answered ended"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct recent_steps recent_steps = {0};
    char events[320], *rest = strcpy(events, rows[i].events);
    for (const char *event; (event = strsep(&rest, ",")) != NULL;) {
      char what[24] = "", id[16] = "";
      assert_true(sscanf(event, "%23s %15s", what, id) > 0);
      if (!happens(&recent_steps, what, id))
        fail_msg("%s: not%s%s", rows[i].name, event[0] == ' ' ? "" : " ", event);
    }
  }
}

TEST(the_newest_are_kept) {
  struct recent_steps recent_steps = {0};
  char id[24];
  for (int i = 0; i < RECENT_STEPS_MAX + 1; i++) {
    snprintf(id, sizeof id, "step-%d", i);
    recent_steps_add(&recent_steps, id);
  }
  recent_steps_roll_back(&recent_steps);
  for (int i = 0; i < RECENT_STEPS_MAX + 1; i++) {
    snprintf(id, sizeof id, "step-%d", i);
    assert_int_equal(recent_steps_judge(&recent_steps, id),
                     i == 0 ? RECENT_STEPS_NEW : RECENT_STEPS_ANSWERED);
  }
}

TEST(starts_are_counted) {
  struct recent_steps recent_steps = {0};
  assert_int_equal(recent_steps_times(&recent_steps, "a"), 0);
  recent_steps_add(&recent_steps, "a");
  recent_steps_add(&recent_steps, "b");
  recent_steps_add(&recent_steps, "a");
  assert_int_equal(recent_steps_times(&recent_steps, "a"), 2);
  assert_int_equal(recent_steps_times(&recent_steps, "b"), 1);
}
