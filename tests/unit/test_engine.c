/* The engine with a frontend of the test, in real time: whatever runs a command. Limits and graces
   are in test_engine_time.c. */
#include "agent/engine/engine.h"

#include <signal.h>
#include <unistd.h>

#include "agent/exit_code.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/step_owner.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define TIMEOUT 600

static int set_up(void **state) {
  step_owner_set_up(state);
  struct step_owner *owner = *state;
  owner->keeps_calls = true;
  return 0;
}

/* What the engine has called since this was asked last. */
static void called(struct step_owner *owner, const char *expected) {
  assert_string_equal(recorder_text(&owner->calls), expected);
  recorder_reset(&owner->calls);
}

static void await_call(struct step_owner *owner, const char *call) {
  if (!recorder_await(&owner->loop, &owner->calls, call, 1))
    fail_msg("no %s in: %s", call, recorder_text(&owner->calls));
}

/* --- a step's way ---------------------------------------------------------------------------- */

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
  called(owner, "want:1 close:patient");
  assert_int_equal(owner->wanted, owner->frontend.terms.executions);
}

/* --- before the start ------------------------------------------------------------------------ */

ENGINE_TEST(a_rejected_run_is_answered_and_has_not_executed) {
  step_owner_make_script(owner, "touch $D/ran");
  recorder_reset(&owner->calls);
  engine_stop(owner->execution, 0, STEP_CAUSE_CANCELLED, "not now");
  called(owner, ""); /* never from inside */
  engine_start(owner->execution);
  step_owner_wait(owner);
  called(owner, "completed result running:0 want:1 flush");
  assert_int_equal(owner->result.exit_code, -1);
  assert_string_equal(owner->error_message, "not now");
  assert_false(directory_has(&owner->loop.directory, "ran"));
}

/* --- signals --------------------------------------------------------------------------------- */

ENGINE_TEST(a_dump_has_a_line_for_each_execution_and_for_the_frontend) {
  engine_signal(owner->engine, SIGUSR1);
  assert_int_equal(loop_logged(&owner->loop, "state: 0 executions, "), 1);
  assert_int_equal(loop_logged(&owner->loop, "state: execution "), 0);
  assert_int_equal(loop_logged(&owner->loop, "state: frontend test"), 1);
  step_owner_make_script(owner, "echo one; exec sleep 4013");
  engine_signal(owner->engine, SIGUSR1);
  assert_int_equal(loop_logged(&owner->loop, "state: 1 executions, "), 1);
  assert_int_equal(loop_logged(&owner->loop, "events: waits until its start is acknowledged"), 1);
  engine_start(owner->execution);
  step_owner_expect(owner, "started sh\nstdout one\n");
  engine_signal(owner->engine, SIGUSR1);
  assert_int_equal(loop_logged(&owner->loop, "2 events: waits for its process"), 1);
  char pid[64];
  snprintf(pid, sizeof pid, "state: execution run, pid %d, age ",
           (int)proc_wait_for("sleep 4013", WAIT_BOUND_MS));
  assert_true(loop_logged(&owner->loop, pid) >= 1);
  assert_null(engine_leaving(&owner->frontend));
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  engine_signal(owner->engine, SIGUSR1);
  assert_int_equal(loop_logged(&owner->loop, "state: 1 executions, stopping"), 1);
}

/* --- the end --------------------------------------------------------------------------------- */

ENGINE_TEST(the_step_is_ended_and_answered_before_the_frontend_closes) {
  owner->delivery = DELIVERS;
  step_owner_start_script(owner, "echo out; exec sleep 4014", TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout out\n");
  recorder_reset(&owner->calls);
  assert_null(engine_leaving(&owner->frontend));
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "shutdown step");
  assert_non_null(engine_leaving(&owner->frontend));
  called(owner, "want:0");
  await_call(owner, "close:patient");
  called(owner, "completed result running:0 flush close:patient"); /* and no more is wanted */
  assert_int_equal(owner->result.exit_code, -1);
  assert_string_equal(owner->error_message, "cancelled: the agent was stopped by shutdown step");
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_SHUTDOWN);
}

ENGINE_TEST(only_the_first_leave_counts) {
  owner->delivery = DELIVERS;
  engine_leave(&owner->frontend, AGENT_EXIT_IDLE, "the first");
  engine_leave(&owner->frontend, AGENT_EXIT_ERROR, "the second");
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_IDLE);
  called(owner, "want:0 want:1 close:prompt"); /* only a shutdown step is patient */
  assert_int_equal(loop_logged(&owner->loop, "stopping: "), 1);
  assert_int_equal(loop_logged(&owner->loop, "stopping: the first"), 1);
}

ENGINE_TEST(a_run_that_waits_for_its_start_is_answered_too) {
  owner->delivery = DELIVERS;
  step_owner_make_script(owner, "touch $D/ran");
  owner->full = true; /* its result is worth it */
  engine_leave(&owner->frontend, AGENT_EXIT_IDLE, "a test");
  engine_start(owner->execution);
  await_call(owner, "close:prompt");
  assert_int_equal(owner->done, 1);
  assert_false(directory_has(&owner->loop.directory, "ran"));
}

ENGINE_TEST(what_is_over_does_not_wait_for_capacity_any_more) {
  owner->delivery = DELIVERS;
  step_owner_start_script(owner, "seq 1 100", TIMEOUT);
  owner->full = true;
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  await_call(owner, "close:patient");
  assert_int_equal(owner->event_count, 102);
  assert_int_equal(owner->result.exit_code, 0);
}

ENGINE_TEST(nor_does_it_when_the_agent_begins_to_drain) {
  step_owner_drain(owner, 600000);
  owner->delivery = DELIVERS;
  step_owner_start_script(owner, "seq 1 100", TIMEOUT);
  owner->full = true;
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  engine_signal(owner->engine, SIGTERM);
  await_call(owner, "close:prompt");
  assert_int_equal(owner->event_count, 102);
  assert_int_equal(owner->result.exit_code, 0);
  assert_int_equal(loop_logged(&owner->loop, "draining: "), 1);
}

/* The shell counts by itself: a child that it starts now may get the signal too. What it waits for
   is there before the trap is: between fork and exec the child would take the signal as the
   shell. */
ENGINE_TEST(nor_does_what_ends_while_the_agent_leaves) {
  owner->delivery = DELIVERS;
  step_owner_start_script(owner,
                          "count() { n=0; while [ $n -lt 100 ]; do n=$((n+1)); echo $n; done; }; "
                          "sleep 3099 & trap 'count; exit 0' TERM; echo ready; wait",
                          TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout ready\n");
  owner->full = true;
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  await_call(owner, "close:patient");
  assert_non_null(strstr(owner->events, "stdout 1\nstdout 2\n"));
  assert_non_null(strstr(owner->events, "stdout 100\n")); /* a shell may add "Terminated" */
}

/* Whoever ignores SIGTERM gets a second when the run has had its time, not another five. */
ENGINE_TEST(what_earlier_steps_left_ends_before_the_frontend_closes) {
  owner->delivery = DELIVERS;
  step_owner_start_script(owner, "trap '' TERM; setsid sleep 4015 >&- 2>&- &", TIMEOUT);
  step_owner_wait(owner);
  step_owner_start_script(owner, "echo ready; exec sleep 4016", TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout ready\n");
  assert_true(proc_wait_for("sleep 4015", WAIT_BOUND_MS) > 0);
  int64_t begin_ms = wait_now_ms();
  engine_leave(&owner->frontend, AGENT_EXIT_IDLE, "a test");
  await_call(owner, "close:prompt");
  assert_in_range(wait_now_ms() - begin_ms, 1000, 4999);
  assert_int_equal(proc_find("sleep 4015"), 0);
}

ENGINE_TEST(without_a_run_they_have_five_seconds) {
  owner->delivery = DELIVERS;
  step_owner_start_script(owner, "trap '' TERM; setsid sleep 4017 >&- 2>&- &", TIMEOUT);
  step_owner_wait(owner);
  assert_true(proc_wait_for("sleep 4017", WAIT_BOUND_MS) > 0);
  int64_t begin_ms = wait_now_ms();
  engine_leave(&owner->frontend, AGENT_EXIT_IDLE, "a test");
  await_call(owner, "close:prompt");
  assert_true(wait_now_ms() - begin_ms >= 5000);
  assert_int_equal(proc_find("sleep 4017"), 0);
}

ENGINE_TEST(what_is_not_delivered_makes_a_promise_an_error) {
  static const struct {
    int exit_code; /* or a signal, which outranks what is lost */
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

ENGINE_TEST(a_signal_hurries_a_graceful_close) {
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  await_call(owner, "close:patient");
  recorder_reset(&owner->calls);
  engine_signal(owner->engine, SIGTERM);
  called(owner, "close:prompt");
  assert_int_equal(loop_logged(&owner->loop, "stopping: "), 1); /* it was begun before */
  engine_frontend_closed(&owner->frontend, 0);
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_SIGNAL + SIGTERM);
}

ENGINE_TEST(a_signal_before_the_close_makes_it_fast) {
  owner->delivery = DELIVERS;
  engine_leave(&owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  engine_signal(owner->engine, SIGTERM);
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_SIGNAL + SIGTERM);
  called(owner, "want:0 want:1 close:prompt");
}

/* The results of what runs are lost: it is killed, and the frontend logs what it holds. */
ENGINE_TEST(a_second_signal_waits_for_nothing) {
  owner->delivery = DELIVERS; /* as far as the frontend knows */
  step_owner_start_script(owner, "trap '' TERM; echo ready; sleep 3099", TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout ready\n");
  recorder_reset(&owner->calls);
  engine_signal(owner->engine, SIGTERM);
  called(owner, "want:0");
  engine_signal(owner->engine, SIGINT);
  called(owner, "close:now");
  assert_int_equal(loop_logged(&owner->loop, "another signal (SIGINT): exiting at once"), 1);
  assert_int_equal(engine_run(owner->engine), AGENT_EXIT_SIGNAL + SIGTERM);
  called(owner, "want:1");
  assert_int_equal(owner->done, 0);
}
