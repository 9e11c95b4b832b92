/* The engine with a test frontend, in real time. Limits and graces are in test_engine_time.c. */
#include "agent/engine/engine.h"

#include "agent/exit_code.h"
#include "tests/support/quoted.h"
#include "tests/support/step_owner.h"
#include "tests/test.h"

#define TIMEOUT 600

static int set_up(void **state) {
  step_owner_set_up(state);
  struct step_owner *owner = *state;
  owner->keeps_calls = true;
  return 0;
}

/* Expects the calls of the engine since the last time. */
static void called(struct step_owner *owner, const char *expected) {
  assert_string_equal(recorder_text(&owner->calls), expected);
  recorder_reset(&owner->calls);
}

static void await_call(struct step_owner *owner, const char *call) {
  if (!recorder_await(&owner->loop, &owner->calls, call, 1))
    fail_msg("no %s in: %s", call, recorder_text(&owner->calls));
}

#define ENGINE_TEST(NAME) TEST_WITH(struct step_owner *owner, NAME, set_up, step_owner_tear_down)

ENGINE_TEST(a_step_is_begun_started_and_answered_in_order) {
  step_owner_make(owner, quoted("{'schemaVersion':1,'stepId':'a','command':'true'}"));
  called(owner, "started running:1 begin flush");
  loop_settle(&owner->loop);
  called(owner, ""); /* it waits for the frontend */
  engine_start(owner->execution);
  called(owner, "");
  await_call(owner, "result");
  loop_settle(&owner->loop);
  called(owner, "completed result running:0 want:1 flush");
  assert_int_equal(loop_logged(&owner->loop, "exit=0 in "), 1);
}

ENGINE_TEST(engine_run_asks_for_as_many_as_it_runs_at_once) {
  owner->delivery = DELIVERS;
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  called(owner, "want:0");
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_SHUTDOWN);
  called(owner, "want:1 close:graceful");
  assert_int_equal(owner->wanted, owner->frontend.terms.executions);
}

/* --- the end ---------------------------------------------------------------------------------- */

ENGINE_TEST(only_the_first_leave_counts) {
  owner->delivery = DELIVERS;
  engine_leave(&owner->frontend, AGENT_EXIT_IDLE, "the first");
  engine_leave(&owner->frontend, AGENT_EXIT_ERROR, "the second");
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_IDLE);
  called(owner, "want:0 want:1 close:fast"); /* only a shutdown step is graceful */
  assert_int_equal(loop_logged(&owner->loop, "stopping: "), 1);
  assert_int_equal(loop_logged(&owner->loop, "stopping: the first"), 1);
}

ENGINE_TEST(a_step_that_waits_for_its_start_is_answered_at_the_end) {
  owner->delivery = DELIVERS;
  step_owner_make_script(owner, "touch $D/ran");
  owner->full = true; /* the result does not wait for capacity */
  engine_leave(&owner->frontend, AGENT_EXIT_IDLE, "a test");
  engine_start(owner->execution);
  await_call(owner, "close:fast");
  assert_int_equal(owner->done, 1);
  assert_false(directory_has(&owner->loop.directory, "ran"));
}

ENGINE_TEST(a_finished_step_does_not_wait_for_capacity_at_the_end) {
  owner->delivery = DELIVERS;
  step_owner_start_script(owner, "seq 1 100", TIMEOUT);
  owner->full = true;
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  await_call(owner, "close:graceful");
  assert_int_equal(owner->event_count, 102);
  assert_int_equal(owner->result.exit_code, 0);
}

/* The shell counts by itself, because a new child might get the signal, too. The sleep begins
   before the trap is set, which its child would inherit between fork and exec. */
ENGINE_TEST(nor_does_a_step_that_ends_during_the_end) {
  owner->delivery = DELIVERS;
  step_owner_start_script(owner,
                          "count() { n=0; while [ $n -lt 100 ]; do n=$((n+1)); echo $n; done; }; "
                          "sleep 3099 & trap 'count; exit 0' TERM; echo ready; wait",
                          TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout ready\n");
  owner->full = true;
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  await_call(owner, "close:graceful");
  assert_non_null(strstr(owner->events, "stdout 1\nstdout 2\n"));
  assert_non_null(strstr(owner->events, "stdout 100\n")); /* a shell may add "Terminated" */
}

ENGINE_TEST(a_loss_makes_the_exit_code_an_error) {
  static const struct {
    int exit_code; /* or a signal, whose exit code stays */
    bool delivers;
    int expected;
  } rows[] = {{AGENT_EXIT_SHUTDOWN, true, AGENT_EXIT_SHUTDOWN},
              {AGENT_EXIT_SHUTDOWN, false, AGENT_EXIT_ERROR},
              {AGENT_EXIT_IDLE, true, AGENT_EXIT_IDLE},
              {AGENT_EXIT_IDLE, false, AGENT_EXIT_ERROR},
              {AGENT_EXIT_ERROR, false, AGENT_EXIT_ERROR},
              {AGENT_EXIT_SIGNAL + SIGINT, false, AGENT_EXIT_SIGNAL + SIGINT}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    step_owner_free_execution(owner);
    owner->delivery = rows[i].delivers ? DELIVERS : LOSES;
    if (rows[i].exit_code > AGENT_EXIT_SIGNAL)
      engine_signal(owner->engine, rows[i].exit_code - AGENT_EXIT_SIGNAL);
    else
      engine_leave(&owner->frontend, rows[i].exit_code, "a test");
    assert_int_equal(engine_run(owner->engine), rows[i].expected);
  }
}

ENGINE_TEST(a_signal_makes_a_graceful_close_fast) {
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  await_call(owner, "close:graceful");
  recorder_reset(&owner->calls);
  engine_signal(owner->engine, SIGTERM);
  called(owner, "close:fast");
  assert_int_equal(loop_logged(&owner->loop, "stopping: "),
                   1); /* the end began before the signal */
  engine_frontend_closed(&owner->frontend, 0);
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_SIGNAL + SIGTERM);
}

ENGINE_TEST(a_signal_before_the_close_makes_the_close_fast) {
  owner->delivery = DELIVERS;
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  engine_signal(owner->engine, SIGTERM);
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_SIGNAL + SIGTERM);
  called(owner, "want:0 want:1 close:fast");
}
