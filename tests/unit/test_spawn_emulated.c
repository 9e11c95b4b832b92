/* Where the kernel is an emulator that makes no child beside its parent, as qemu-user: a child that
   is to wait is made when it goes. */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "agent/process/process.h"
#include "tests/support/proc.h"
#include "tests/support/process_owner.h"
#include "tests/test.h"

/* Of the C library, whose clone() stands behind this one. */
int __clone(int (*function)(void *), void *stack, int flags, void *context, ...);

static bool no_process; /* not even an emulated one */

int clone(int (*function)(void *), void *stack, int flags, void *context, ...) {
  if ((flags & CLONE_VM) != 0 && (flags & CLONE_VFORK) == 0) {
    errno = EINVAL;
    return -1;
  }
  if (no_process) {
    errno = EAGAIN;
    return -1;
  }
  return __clone(function, stack, flags, context);
}

PROCESS_TEST(it_starts) {
  process_owner_start(owner, "echo out; exit 3");
  process_owner_exits(owner, 3);
  assert_string_equal(owner->output[PROCESS_STDOUT], "out\n");
}

PROCESS_TEST(what_is_prepared_starts_when_it_goes) {
  process_owner_prepare(owner, "echo out; exit 3");
  assert_int_equal(proc_child_count(getpid(), NULL), 0);
  loop_settle(&owner->loop);
  assert_int_equal(owner->readable[PROCESS_STDOUT], 0);
  process_go(owner->process);
  process_owner_exits(owner, 3);
  assert_string_equal(owner->output[PROCESS_STDOUT], "out\n");
}

PROCESS_TEST(what_cannot_start_says_why) {
  char *argv[] = {"no-such-command", NULL};
  process_owner_prepare_argv(owner, argv, NULL);
  process_go(owner->process);
  process_owner_ends(owner, PROCESS_NOT_STARTED);
  assert_string_equal(owner->outcome.reason.text, "no-such-command: command not found on PATH");
}

PROCESS_TEST(without_a_process_it_ends_when_it_goes) {
  process_owner_prepare(owner, "echo out");
  no_process = true;
  process_go(owner->process);
  no_process = false;
  process_owner_ends(owner, PROCESS_NOT_STARTED);
  assert_string_equal(owner->outcome.reason.text,
                      "cannot start sh: Resource temporarily unavailable");
}

PROCESS_TEST(what_does_not_go_leaves_nothing) {
  int descriptors = proc_fd_count(getpid());
  process_owner_prepare(owner, "echo out");
  process_stop(owner->process, 1000);
  process_owner_ends(owner, PROCESS_STOPPED);
  assert_int_equal(owner->outcome.duration_ms, 0);
  assert_int_equal(owner->readable[PROCESS_STDOUT], 0);
  process_owner_prepare(owner, "echo out");
  process_owner_free(owner);
  assert_int_equal(proc_fd_count(getpid()), descriptors);
}
