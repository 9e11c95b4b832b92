#include "agent/engine/execution.h"
#include "tests/support/proc.h"
#include "tests/support/step_owner.h"
#include "tests/test.h"

/* A grace that is longer than a test may take. */
#define FOREVER_MS 3600000

#define TIMEOUT 600

static void make_capacity(struct step_owner *owner) {
  owner->full = false;
  execution_resume(owner->execution);
}

STEP_TEST(the_first_reason_of_two_stops_counts) {
  step_owner_start_script(owner,
                          "trap 'echo term' TERM; echo ready; "
                          "while :; do sleep 0.01; done 2>&-",
                          TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout ready\n");
  engine_stop(owner->execution, FOREVER_MS, STEP_CAUSE_CANCELLED, "first");
  step_owner_expect(owner, "started sh\nstdout ready\nstdout term\n");
  engine_stop(owner->execution, 0, STEP_CAUSE_CANCELLED, "second");
  step_owner_ends(owner, -1, "first", "ready\nterm\n");
  assert_false(owner->result.timed_out);
}

STEP_TEST(the_result_of_a_stop_before_the_start_waits_for_capacity) {
  owner->full = true;
  step_owner_make_script(owner, "true");
  engine_stop(owner->execution, 0, STEP_CAUSE_CANCELLED, "stopped");
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  assert_int_equal(owner->done, 0);
  make_capacity(owner);
  step_owner_ends(owner, -1, "stopped", NULL);
}

/* The result repeats the output, which could be another megabyte in a full frontend. */
STEP_TEST(a_result_waits_for_capacity_of_its_size) {
  owner->capacity = 5;
  step_owner_start_script(owner, "echo 12345; touch $D/over", TIMEOUT);
  loop_await_file(&owner->loop, "over");
  while (!step_owner_is_stalled(owner))
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  assert_string_equal(owner->events, "started sh\nstdout 12345\n");
  owner->capacity = 6; /* with the newline */
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

static bool the_command_is_reaped(void *context) {
  (void)context;
  return proc_find("sh -c echo one") == 0;
}

STEP_TEST(the_last_lines_wait_for_capacity) {
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
