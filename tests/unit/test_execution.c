
#include "agent/engine/batcher.h"
#include "agent/engine/execution.h"
#include "tests/support/gate.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/step_owner.h"
#include "tests/test.h"

/* Longer than a test may take: a grace that must not be waited for. */
#define FOREVER_MS 3600000

#define TIMEOUT 600

#define NO_SUCH_COMMAND "{'schemaVersion':1,'stepId':'s','command':'no-such-command'}"

static void run_script(struct step_owner *owner, const char *script) {
  step_owner_start_script(owner, script, TIMEOUT);
  step_owner_wait(owner);
}

static void make_capacity(struct step_owner *owner) {
  owner->full = false;
  execution_resume(owner->execution);
}

STEP_TEST(what_cannot_start_is_reported_like_the_rest) {
  owner->full = true;
  step_owner_start(owner, quoted(NO_SUCH_COMMAND));
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  execution_stop(owner->execution, 0, STEP_CAUSE_CANCELLED, "too late");
  make_capacity(owner);
  assert_int_equal(owner->done, 0);
  step_owner_wait(owner);
  assert_string_equal(owner->events, "started no-such-command\ncompleted exit=-1 timedOut=False\n");
  assert_int_equal(owner->result.exit_code, -1);
  assert_non_null(strstr(owner->error_message, "no-such-command: command not found"));
  assert_false(owner->result.timed_out);
}

STEP_TEST(a_stop_says_the_first_reason) {
  step_owner_start_script(owner,
                          "trap 'echo term' TERM; echo ready; "
                          "while :; do sleep 0.01; done 2>&-",
                          TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout ready\n");
  execution_stop(owner->execution, FOREVER_MS, STEP_CAUSE_CANCELLED, "first");
  step_owner_expect(owner, "started sh\nstdout ready\nstdout term\n");
  execution_stop(owner->execution, 0, STEP_CAUSE_CANCELLED, "second");
  step_owner_ends(owner, -1, "first", "ready\nterm\n");
  assert_false(owner->result.timed_out);
}

STEP_TEST(a_stop_before_the_start_waits_for_capacity) {
  owner->full = true;
  step_owner_make_script(owner, "true");
  execution_stop(owner->execution, 0, STEP_CAUSE_CANCELLED, "stopped");
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  assert_int_equal(owner->done, 0);
  make_capacity(owner);
  step_owner_ends(owner, -1, "stopped", NULL);
}

STEP_TEST(what_was_not_started_can_be_freed) {
  step_owner_make_script(owner, "touch $D/ran");
  execution_resume(owner->execution); /* nothing waits: nothing happens */
  step_owner_free_execution(owner);
  loop_settle(&owner->loop);
  assert_int_equal(owner->done, 0);
  assert_false(directory_has(&owner->loop.directory, "ran"));
}

/* As far as it is taken apart: a read may be a thousand lines. */
STEP_TEST(what_is_read_at_once_leaves_batch_by_batch) {
  run_script(owner, "seq 1 1000");
  assert_int_equal(owner->event_count, 1002);
  assert_in_range(owner->flushes, 1000 / BATCHER_LINES, 1000 / BATCHER_LINES + 10);
}

/* It repeats the output: on top of what is held that would be a megabyte more. */
STEP_TEST(a_result_waits_for_capacity_of_its_size) {
  owner->capacity = 5;
  step_owner_start_script(owner, "echo 12345; touch $D/over", TIMEOUT);
  loop_await_file(&owner->loop, "over");
  while (!step_owner_is_stalled(owner))
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  assert_string_equal(owner->events, "started sh\nstdout 12345\n");
  owner->capacity = 6; /* and the line's end */
  execution_resume(owner->execution);
  step_owner_ends(owner, 0, NULL, "12345\n");
}

STEP_TEST(a_result_that_was_cut_waits_for_capacity_of_both_ends) {
  enum { LINE = 250000, HEAD = 4 * (LINE + 1), TAIL = 4 };
  owner->capacity = HEAD + TAIL - 1;
  step_owner_start_script(owner,
                          "for i in 1 2 3 4; do printf %250000s x; echo; done; echo end; "
                          "touch $D/over",
                          TIMEOUT);
  loop_await_file(&owner->loop, "over");
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  owner->capacity = HEAD + TAIL;
  execution_resume(owner->execution);
  step_owner_wait(owner);
  assert_int_equal(owner->result.output_content_length, HEAD);
  assert_int_equal(owner->result.output_tail_length, TAIL);
  assert_int_equal(owner->result.output_bytes, HEAD + TAIL);
}

STEP_TEST(everything_may_end_while_the_owner_is_full) {
  step_owner_start_script(owner, "echo one; echo two; printf end; touch $D/over", TIMEOUT);
  owner->full = true;
  loop_await_file(&owner->loop, "over");
  loop_settle(&owner->loop);
  assert_string_equal(owner->events, "started sh\n");
  /* Still full, and told twice: nothing happens, and nothing is lost. */
  execution_resume(owner->execution);
  execution_resume(owner->execution);
  loop_settle(&owner->loop);
  assert_string_equal(owner->events, "started sh\n");
  make_capacity(owner);
  assert_int_equal(owner->done, 0); /* never inside a call */
  step_owner_wait(owner);
  assert_string_equal(owner->events, "started sh\nstdout one\nstdout two\nstdout end\n"
                                     "completed exit=0 timedOut=False\n");
}

/* step_owner_wait looks at every number: here are the ways on which one could get lost. */
STEP_TEST(events_are_counted_over_both_streams_and_pauses) {
  step_owner_start_script(owner,
                          "echo one >&2; touch $D/first; " GATE(
                              "$D/more") "seq 1 5000; touch $D/second; echo two >&2; printf end",
                          TIMEOUT);
  owner->full = true;
  loop_await_file(&owner->loop, "first");
  loop_settle(&owner->loop);
  assert_string_equal(owner->events, "started sh\n");
  make_capacity(owner);
  step_owner_expect(owner, "started sh\nstderr one\n");
  owner->full = true;
  loop_open_gate(&owner->loop, "more");
  loop_await_file(&owner->loop, "second");
  loop_settle(&owner->loop);
  assert_int_equal(owner->event_count, 2);
  make_capacity(owner);
  step_owner_wait(owner);
  assert_int_equal(owner->result.event_count, 1 + 1 + 5000 + 2 + 1);
  assert_int_equal(owner->out_of_sequence, 0);
}

static bool the_command_is_reaped(void *context) {
  (void)context;
  return proc_find("sh -c echo one") == 0;
}

STEP_TEST(the_last_lines_may_wait_for_capacity) {
  step_owner_start_script(owner, "echo one", TIMEOUT);
  owner->full = true;
  assert_true(loop_until(&owner->loop, the_command_is_reaped, NULL));
  make_capacity(owner);
  owner->full = true; /* full again before it could end */
  loop_settle(&owner->loop);
  assert_int_equal(owner->done, 0);
  make_capacity(owner);
  step_owner_ends(owner, 0, NULL, "one\n");
}
