/* A supervisor that is stopped by a tracer, so that SIGCONT has no effect. */

#include <sys/ptrace.h>

#include "tests/support/proc.h"
#include "tests/support/process_owner.h"
#include "tests/support/wait.h"
#include "tests/test.h"

static pid_t tracer;

/* Stops the process until `resume` is called. */
static void stop(pid_t pid) {
  int ready[2];
  char byte;
  assert_int_equal(pipe(ready), 0);
  tracer = fork();
  if (tracer == 0) {
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0 ||
        ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 || waitpid(pid, NULL, __WALL) != pid ||
        write(ready[1], "", 1) != 1)
      _exit(1);
    for (;;)
      pause();
  }
  close(ready[1]);
  assert_int_equal(read(ready[0], &byte, 1), 1);
  close(ready[0]);
}

static void resume(void) {
  assert_int_equal(kill(tracer, SIGKILL), 0);
  (void)waitpid(tracer, NULL, 0);
}

/* Stops the idle supervisor, and returns its pid. */
static pid_t stop_the_spare(struct process_owner *owner) {
  process_owner_start(owner, "exit 0");
  process_owner_exits(owner, 0);
  pid_t pid = proc_child_of(getpid(), 0);
  assert_true(pid > 0);
  stop(pid);
  return pid;
}

PROCESS_TEST(another_supervisor_gets_the_task) {
  pid_t pid = stop_the_spare(owner);
  process_owner_start(owner, "echo up");
  process_owner_exits(owner, 0);
  assert_string_equal(owner->output[PROCESS_STDOUT], "up\n");
  resume();
  assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
}

PROCESS_TEST(a_command_that_waits_also_waits_at_the_other_supervisor) {
  (void)stop_the_spare(owner);
  process_owner_prepare(owner, "echo up");
  while (process_pid(owner->process) == 0)
    (void)event_base_loop(owner->loop.base, EVLOOP_ONCE);
  loop_settle(&owner->loop);
  assert_int_equal(owner->length[PROCESS_STDOUT], 0);
  process_go(owner->process);
  process_owner_exits(owner, 0);
  assert_string_equal(owner->output[PROCESS_STDOUT], "up\n");
  resume();
}

/* It was killed before it received the task, so it has done nothing. */
PROCESS_TEST(the_task_of_a_killed_supervisor_is_not_lost) {
  pid_t pid = stop_the_spare(owner);
  process_owner_start(owner, "echo up");
  assert_int_equal(kill(pid, SIGKILL), 0);
  resume();
  process_owner_exits(owner, 0);
  assert_string_equal(owner->output[PROCESS_STDOUT], "up\n");
}

PROCESS_TEST(a_task_that_was_not_received_can_be_stopped) {
  (void)stop_the_spare(owner);
  process_owner_start(owner, "touch $D/begun");
  process_stop(owner->process, 600000);
  process_owner_ends(owner, PROCESS_STOPPED);
  assert_int_equal(owner->outcome.survivors, 0);
  assert_int_equal(owner->outcome.usage.processes, -1);
  assert_false(directory_has(&owner->loop.directory, "begun"));
  resume();
}
