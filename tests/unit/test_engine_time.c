/* The limits of the engine, in virtual time, in which an hour passes at once. Commands only sleep,
   with a longer time limit. */

#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "tests/support/proc.h"
#include "tests/support/step_owner.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define LIMIT_MS 1000

/* The maximum delay of a timer. */
enum { LATE_MS = 50 };

#define FOREVER_S 10000000

static int set_up(void **state) {
  step_owner_set_up(state);
  step_owner_limit_idle_time(*state, LIMIT_MS);
  return 0;
}

static void expect_idle_after(struct step_owner *owner, int64_t begin_ms, int64_t milliseconds) {
  int idle = owner->idle;
  while (owner->idle == idle && virtual_time_ms < begin_ms + milliseconds + LATE_MS)
    virtual_time_pass(&owner->loop, 1);
  assert_int_equal(owner->idle, idle + 1);
  assert_in_range(virtual_time_ms - begin_ms, milliseconds, milliseconds + LATE_MS);
}

/* --- the idle limit --------------------------------------------------------------------------- */

#define ENGINE_TEST(NAME) TEST_WITH(struct step_owner *owner, NAME, set_up, step_owner_tear_down)

ENGINE_TEST(the_frontend_is_asked_once_at_the_idle_limit) {
  engine_touch(&owner->frontend);
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS);
  assert_int_equal(loop_logged(&owner->loop, "no step for 1 s"), 1);
  virtual_time_pass(&owner->loop, 3 * LIMIT_MS); /* without an answer it is not asked again */
  assert_int_equal(owner->idle, 1);
}

ENGINE_TEST(the_idle_limit_counts_from_the_start) {
  owner->delivery = DELIVERS;
  owner->leaves_when_idle = true;
  int64_t begin_ms = virtual_time_ms;
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_IDLE);
  assert_in_range(virtual_time_ms - begin_ms, LIMIT_MS, LIMIT_MS + 2 * LATE_MS);
  assert_int_equal(owner->idle, 1);
}

ENGINE_TEST(a_frontend_that_continues_to_wait_is_asked_again) {
  engine_touch(&owner->frontend);
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS);
  virtual_time_pass(&owner->loop, LIMIT_MS / 2); /* the answer may come later */
  engine_wait_on(&owner->frontend, 0);
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS);
  engine_wait_on(&owner->frontend, 0);
  engine_wait_on(&owner->frontend, 0); /* answered already */
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS);
}

ENGINE_TEST(a_frontend_that_continues_to_wait_can_be_asked_sooner) {
  engine_touch(&owner->frontend);
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS);
  engine_wait_on(&owner->frontend, LIMIT_MS / 4);
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS / 4);
  engine_wait_on(&owner->frontend, 0);
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS);
}

/* Idle time runs until the step executes, which may be never without a server. */
ENGINE_TEST(a_step_restarts_the_idle_time_and_its_start_ends_it) {
  engine_touch(&owner->frontend);
  virtual_time_pass(&owner->loop, LIMIT_MS / 2);
  step_owner_make_script(owner, "exec sleep 4021");
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS);
  engine_wait_on(&owner->frontend, 0);
  virtual_time_pass(&owner->loop, LIMIT_MS / 2);
  engine_touch(&owner->frontend); /* has no effect while a step waits */
  virtual_time_pass(&owner->loop, LIMIT_MS / 4);
  assert_int_equal(owner->idle, 1);
  expect_idle_after(owner, virtual_time_ms - 3 * LIMIT_MS / 4, LIMIT_MS);
}

ENGINE_TEST(idle_time_does_not_run_during_a_step) {
  engine_touch(&owner->frontend);
  virtual_time_pass(&owner->loop, LIMIT_MS / 2);
  step_owner_start_script(owner, "echo ready; exec sleep 4023", FOREVER_S);
  step_owner_expect(owner, "started sh\nstdout ready\n");
  virtual_time_pass(&owner->loop, 5 * LIMIT_MS);
  assert_int_equal(owner->idle, 0);
  assert_true(engine_cancel(&owner->frontend, "s-1", "cancelled: by a test"));
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->done));
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS);
}

ENGINE_TEST(idle_time_runs_while_a_step_waits_for_capacity) {
  step_owner_start_script(owner, "echo one", FOREVER_S);
  owner->full = true;
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  expect_idle_after(owner, virtual_time_ms, LIMIT_MS);
}

/* --- how long the end may take ---------------------------------------------------------------- */

static void expect_closed_now_after(struct step_owner *owner, int64_t begin_ms,
                                    int64_t milliseconds) {
  virtual_time_pass(&owner->loop, begin_ms + milliseconds - virtual_time_ms - LATE_MS);
  assert_false(owner->closes > 0 && owner->close == FRONTEND_CLOSE_IMMEDIATE);
  virtual_time_pass(&owner->loop, 2 * LATE_MS);
  assert_true(owner->closes > 0 && owner->close == FRONTEND_CLOSE_IMMEDIATE);
}

ENGINE_TEST(a_frontend_that_does_not_close_is_stopped_at_the_idle_limit) {
  int64_t begin_ms = virtual_time_ms;
  owner->delivery = HOLDS;
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  expect_closed_now_after(owner, begin_ms, LIMIT_MS);
  assert_int_equal(owner->closes, 2); /* graceful, immediate */
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_ERROR);
}

ENGINE_TEST(after_a_signal_the_agent_closes_at_its_deadline) {
  step_owner_limit_idle_time(owner, 0);
  int64_t begin_ms = virtual_time_ms;
  owner->delivery = DELIVERS_AT_LAST;
  engine_signal(owner->engine, SIGINT);
  expect_closed_now_after(owner, begin_ms, ENGINE_DEADLINE_MS);
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_SIGNAL + SIGINT);
}

/* Checks the grace from below only, because the machine may be busy. */
static void expect_killed_after(struct step_owner *owner, const char *command_line,
                                int64_t begin_ms, int64_t grace_ms) {
  virtual_time_pass(&owner->loop, begin_ms + grace_ms - virtual_time_ms - LATE_MS);
  assert_true(proc_find(command_line) > 0);
  assert_int_equal(owner->closes, 0);
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->closes));
  assert_true(proc_wait_gone(command_line, WAIT_BOUND_MS));
}

ENGINE_TEST(a_running_step_has_a_grace_period_when_the_agent_ends) {
  step_owner_limit_idle_time(owner, 0);
  step_owner_start_script(owner, "trap '' TERM; echo ready; exec sleep 4024", FOREVER_S);
  step_owner_expect(owner, "started sh\nstdout ready\n");
  assert_true(proc_wait_for("sleep 4024", WAIT_BOUND_MS) > 0);
  int64_t begin_ms = virtual_time_ms;
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  expect_killed_after(owner, "sleep 4024", begin_ms, owner->frontend.terms.leave_grace_ms);
  assert_int_equal(owner->done, 1);
}
