/* Children that are prepared and then executed, stopped or freed. */

#include "agent/process/process.h"
#include "tests/support/proc.h"
#include "tests/support/process_owner.h"
#include "tests/support/quoted.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { MANY = 1000 };

#define LEAVES_TRACES "touch $D/made; echo out; echo err >&2; exit 5"

/* It has set itself up and sleeps at the gate. */
static bool waits_at_the_gate(void *pid) {
  return proc_state(*(pid_t *)pid) == 'S';
}

static bool is_suspended(void *pid) {
  return proc_state(*(pid_t *)pid) == 'T';
}

static void suspend(pid_t pid) {
  assert_int_equal(kill(pid, SIGSTOP), 0);
  assert_true(wait_until(is_suspended, &pid, WAIT_BOUND_MS));
}

static bool has_pid(void *process) {
  return process_pid(process) != 0;
}

static pid_t wait_for_child(struct process_owner *owner) {
  assert_true(wait_until(has_pid, owner->process, WAIT_BOUND_MS));
  pid_t pid = process_pid(owner->process);
  assert_true(wait_until(waits_at_the_gate, &pid, WAIT_BOUND_MS));
  return pid;
}

static void expect_no_trace(struct process_owner *owner) {
  loop_settle(&owner->loop);
  assert_int_equal(owner->readable[PROCESS_STDOUT] + owner->readable[PROCESS_STDERR], 0);
  assert_false(directory_has(&owner->loop.directory, "made"));
}

static void expect_nothing_yet(struct process_owner *owner) {
  expect_no_trace(owner);
  assert_int_equal(owner->ended, 0);
}

static void expect_all_traces(struct process_owner *owner) {
  process_owner_exits(owner, 5);
  assert_string_equal(owner->output[PROCESS_STDOUT], "out\n");
  assert_string_equal(owner->output[PROCESS_STDERR], "err\n");
  assert_true(directory_has(&owner->loop.directory, "made"));
}

static void expect_stopped(struct process_owner *owner) {
  process_owner_ends(owner, PROCESS_STOPPED);
  assert_int_equal(owner->outcome.duration_ms, 0);
  assert_int_equal(owner->outcome.survivors, 0);
  assert_int_equal(owner->outcome.holder.pid, 0);
  expect_no_trace(owner);
}

PROCESS_TEST(a_prepared_child_does_nothing_before_it_goes) {
  process_owner_prepare(owner, LEAVES_TRACES);
  (void)wait_for_child(owner);
  expect_nothing_yet(owner);
  process_go(owner->process);
  process_go(owner->process);
  expect_all_traces(owner);
}

PROCESS_TEST(a_prepared_child_that_is_stopped_leaves_no_trace) {
  for (int i = 0; i < 40; i++) {
    process_owner_prepare(owner, LEAVES_TRACES);
    if (i % 4 < 2)
      (void)wait_for_child(owner);
    process_stop(owner->process, i % 2 == 0 ? 3600000 : 0);
    process_stop(owner->process, 0);
    process_go(owner->process); /* too late */
    expect_stopped(owner);
  }
}

PROCESS_TEST(a_suspended_child_goes_when_it_continues) {
  process_owner_prepare(owner, LEAVES_TRACES);
  pid_t pid = wait_for_child(owner);
  suspend(pid);
  assert_int_equal(kill(pid, SIGCONT), 0);
  assert_true(wait_until(waits_at_the_gate, &pid, WAIT_BOUND_MS)); /* as before */
  expect_nothing_yet(owner);
  suspend(pid);
  process_go(owner->process);
  expect_nothing_yet(owner);
  assert_int_equal(kill(pid, SIGCONT), 0);
  expect_all_traces(owner);
}

/* By another process, while it waits: process_go reports it. */
PROCESS_TEST(a_child_that_was_killed_while_it_waited_is_reported) {
  process_owner_prepare(owner, LEAVES_TRACES);
  assert_int_equal(kill(wait_for_child(owner), SIGKILL), 0);
  process_owner_reap(owner);
  expect_nothing_yet(owner);
  process_go(owner->process);
  process_owner_ends(owner, PROCESS_EXITED);
  assert_int_equal(WTERMSIG(owner->outcome.status), SIGKILL);
  assert_int_equal(owner->length[PROCESS_STDOUT], 0);
  assert_false(directory_has(&owner->loop.directory, "made"));
}

PROCESS_TEST(one_that_was_killed_can_be_stopped) {
  process_owner_prepare(owner, LEAVES_TRACES);
  assert_int_equal(kill(wait_for_child(owner), SIGKILL), 0);
  process_owner_reap(owner);
  process_stop(owner->process, 0);
  expect_stopped(owner);
}

PROCESS_TEST(a_command_that_cannot_start_is_reported_after_it_goes) {
  char *argv[] = {"no-such-command", NULL};
  process_owner_prepare_argv(owner, argv, NULL);
  (void)wait_for_child(owner);
  expect_nothing_yet(owner);
  process_go(owner->process);
  process_owner_ends(owner, PROCESS_NOT_STARTED);
  assert_string_equal(owner->failure.reason.text, "no-such-command: command not found on PATH");
}

static bool one_supervisor_is_left(void *context) {
  (void)context;
  return proc_child_count(getpid(), NULL) <= 1 && proc_child_of(proc_child_of(getpid(), 0), 0) == 0;
}

/* The sanitizers report leaked memory. */
PROCESS_TEST(many_prepared_children_leak_nothing) {
  int descriptors = proc_fd_count(getpid());
  for (int i = 0; i < MANY; i++) {
    process_owner_prepare(owner, LEAVES_TRACES);
    if (i % 25 == 0) {
      process_stop(owner->process, 0);
      process_owner_wait(owner);
    } else {
      process_owner_free(owner);
    }
  }
  assert_true(loop_until(&owner->loop, one_supervisor_is_left, NULL));
  assert_in_range(proc_fd_count(getpid()), descriptors,
                  descriptors + 2); /* of an idle supervisor */
  assert_false(directory_has(&owner->loop.directory, "made"));
}
