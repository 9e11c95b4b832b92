/* A child that is prepared, and goes or not. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/process.h"
#include "tests/support/proc.h"
#include "tests/support/process_owner.h"
#include "tests/support/quoted.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { MANY = 1000 };

#define LEAVES_TRACES "touch $D/made; echo out; echo err >&2; exit 5"

/* It has set itself up, and sleeps. */
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

PROCESS_TEST(nothing_happens_before_it_goes) {
  process_owner_prepare(owner, LEAVES_TRACES);
  (void)wait_for_child(owner);
  expect_nothing_yet(owner);
  process_go(owner->process);
  process_go(owner->process);
  expect_all_traces(owner);
}

PROCESS_TEST(it_may_go_before_it_has_come_to_its_gate) {
  process_owner_prepare(owner, LEAVES_TRACES);
  process_go(owner->process);
  expect_all_traces(owner);
}

PROCESS_TEST(a_pause_may_come_before_it_goes) {
  process_owner_prepare(owner, LEAVES_TRACES);
  process_pause(owner->process, true);
  process_go(owner->process);
  process_owner_reap(owner);
  loop_settle(&owner->loop);
  assert_int_equal(owner->readable[PROCESS_STDOUT] + owner->readable[PROCESS_STDERR], 0);
  process_pause(owner->process, false);
  expect_all_traces(owner);
}

PROCESS_TEST(a_stop_leaves_no_trace) {
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

PROCESS_TEST(what_is_freed_before_it_goes_leaves_no_trace) {
  process_owner_prepare(owner, LEAVES_TRACES);
  pid_t pid = wait_for_child(owner);
  process_owner_free(owner);
  assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
  expect_nothing_yet(owner);
}

PROCESS_TEST(a_suspended_one_goes_when_it_continues) {
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

PROCESS_TEST(a_suspended_one_can_be_stopped) {
  process_owner_prepare(owner, LEAVES_TRACES);
  suspend(wait_for_child(owner));
  process_stop(owner->process, 3600000);
  expect_stopped(owner);
}

/* By somebody else, while it waits: the outcome comes with process_go. */
PROCESS_TEST(one_that_was_killed_is_reported) {
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

PROCESS_TEST(what_cannot_start_is_reported_after_it_goes) {
  char *argv[] = {"no-such-command", NULL};
  process_owner_prepare_argv(owner, argv, NULL);
  (void)wait_for_child(owner);
  expect_nothing_yet(owner);
  process_go(owner->process);
  process_owner_ends(owner, PROCESS_NOT_STARTED);
  assert_string_equal(owner->failure.reason.text, "no-such-command: command not found on PATH");
}

/* A step before it may have made the directory. */
PROCESS_TEST(the_directory_is_entered_after_it_goes) {
  const char *path = directory_path(&owner->loop.directory, "later");
  char *argv[] = {"pwd", NULL};
  process_owner_prepare_argv(owner, argv, path);
  (void)wait_for_child(owner);
  assert_int_equal(mkdir(path, 0755), 0);
  process_go(owner->process);
  process_owner_wait(owner);
  assert_int_equal(owner->outcome.status, 0);
  assert_int_equal(strncmp(owner->output[PROCESS_STDOUT], path, strlen(path)), 0);
  assert_int_equal(rmdir(path), 0);
}

static bool its_time_is_over(void *since_ms) {
  return wait_now_ms() - *(const int64_t *)since_ms > 3000;
}

PROCESS_TEST(its_time_begins_when_it_goes) {
  owner->timeout_seconds = 3;
  process_owner_prepare(owner, LEAVES_TRACES);
  int64_t prepared_ms = wait_now_ms();
  assert_true(loop_until(&owner->loop, its_time_is_over, &prepared_ms));
  expect_nothing_yet(owner);
  process_go(owner->process);
  expect_all_traces(owner);
  assert_true(owner->outcome.duration_ms < 3000);
}

static bool one_supervisor_is_left(void *context) {
  (void)context;
  return proc_child_count(getpid(), NULL) <= 1 && proc_child_of(proc_child_of(getpid(), 0), 0) == 0;
}

/* The sanitizers look for what they left in memory. */
PROCESS_TEST(many_leave_nothing) {
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
  assert_in_range(proc_fd_count(getpid()), descriptors, descriptors + 2); /* a supervisor's */
  assert_false(directory_has(&owner->loop.directory, "made"));
}
