/* How a process is ended: its deadline, process_stop, and who is ended with it. */
#include <signal.h>
#include <sys/wait.h>

#include "agent/process/process.h"
#include "tests/support/proc.h"
#include "tests/support/process_owner.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* Longer than a test may take: a grace that must not be waited for. */
#define FOREVER_MS 3600000

#define STUBBORN "trap 'echo term' TERM; echo ready; while :; do sleep 0.01; done 2>&-"

PROCESS_TEST(the_deadline_runs_while_paused) {
  owner->timeout_seconds = 1;
  process_owner_start(owner, "echo kept; echo $$ > $D/begun; exec sleep 3102");
  process_pause(owner->process, true);
  process_owner_reap(owner);
  process_pause(owner->process, false);
  process_owner_ends(owner, PROCESS_TIMED_OUT);
  assert_int_equal(WTERMSIG(owner->outcome.status), SIGTERM);
  assert_string_equal(owner->output[PROCESS_STDOUT], "kept\n");
}

PROCESS_TEST(an_exit_before_the_deadline_disarms_it) {
  owner->timeout_seconds = 1;
  process_owner_start(owner, "sleep 3103 & echo hi"); /* held for longer than a second */
  process_owner_ends(owner, PROCESS_EXITED);
  assert_true(proc_wait_for("sleep 3103", WAIT_BOUND_MS) > 0);
}

PROCESS_TEST(a_stop_may_come_before_the_command_runs) {
  for (int i = 0; i < 40; i++) {
    process_owner_start(owner, "exec sleep 3114");
    process_stop(owner->process, i % 2 == 0 ? FOREVER_MS : 0);
    process_owner_wait(owner);
    assert_int_equal(owner->outcome.end, PROCESS_STOPPED);
    assert_int_equal(owner->outcome.survivors, 0);
  }
}

PROCESS_TEST(a_stop_after_the_deadline_leaves_the_reason) {
  owner->timeout_seconds = 1;
  process_owner_start(owner, STUBBORN);
  process_owner_expect(owner, "ready\nterm\n");
  process_stop(owner->process, 0);
  process_owner_ends(owner, PROCESS_TIMED_OUT);
}

PROCESS_TEST(the_command_may_be_reaped_before_its_tree_is_gone) {
  process_owner_start(owner, "(trap '' TERM; echo ready; while :; do sleep 0.01; done 2>&-) &"
                             "wait; exec sleep 3104");
  process_owner_expect(owner, "ready\n");
  process_stop(owner->process, FOREVER_MS);
  process_owner_reap(owner);
  loop_settle(&owner->loop);
  assert_int_equal(owner->ended, 0);
  process_stop(owner->process, 0);
  process_owner_ends(owner, PROCESS_STOPPED);
  assert_int_equal(WTERMSIG(owner->outcome.status), SIGTERM);
}

PROCESS_TEST(a_stop_while_a_holder_is_waited_for_ends_the_waiting) {
  process_owner_start(owner, "sleep 3112 & echo hi; exit 2");
  process_owner_expect(owner, "hi\n");
  process_owner_reap(owner);
  int64_t start_ms = wait_now_ms();
  process_stop(owner->process, FOREVER_MS);
  assert_int_equal(owner->ended, 0); /* never from inside a call */
  process_stop(owner->process, 0);
  process_owner_wait(owner);
  assert_true(wait_now_ms() - start_ms < PROCESS_OWNER_DRAIN_MS);
  assert_int_equal(owner->outcome.end, PROCESS_EXITED);
  assert_int_equal(WEXITSTATUS(owner->outcome.status), 2);
  assert_true(proc_wait_for("sleep 3112", WAIT_BOUND_MS) > 0);
}

PROCESS_TEST(a_stop_after_the_end_does_nothing) {
  process_owner_start(owner, "exit 1");
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->ended));
  process_stop(owner->process, 0);
  process_owner_ends(owner, PROCESS_EXITED);
}
