#include "agent/process/guard.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* A process in a session of its own with this tag; its arguments are "sleep <seconds>". */
static void start_sleep(const char *tag, const char *seconds) {
  char variable[128];
  snprintf(variable, sizeof variable, PROCESS_TREE_TAG "=%s", tag);
  if (fork() != 0)
    return;
  (void)setsid();
  (void)execle("/bin/sleep", "sleep", seconds, (char *)NULL, (char *[]){variable, NULL});
  _exit(127);
}

/* An agent with a guard; it writes the guard's pid to the pipe, and waits. */
static pid_t start_agent(int report_fd, const char *seconds) {
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  struct guard guard = GUARD_NONE;
  struct error error;
  if (guard_start(&guard, "0badcafe-4711-99", &error) != 0 || guard.pid == 0)
    _exit(1);
  start_sleep("0badcafe-4711-99-1", seconds);
  (void)!write(report_fd, &guard.pid, sizeof guard.pid);
  for (;;)
    (void)pause();
}

static pid_t read_pid(const int ends[2]) {
  pid_t pid = 0;
  close(ends[1]);
  assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
  return pid;
}

TEST(what_a_killed_agent_has_left_is_ended) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  start_sleep("0badcafe-4711-991-1", "4071"); /* of another agent */
  pid_t agent = start_agent(ends[1], "4070");
  pid_t guard = read_pid(ends);
  assert_true(proc_wait_for("sleep 4070", WAIT_BOUND_MS) > 0);
  pid_t other = proc_wait_for("sleep 4071", WAIT_BOUND_MS);
  assert_true(other > 0);
  assert_int_equal(kill(agent, SIGKILL), 0);
  assert_true(proc_wait_gone("sleep 4070", WAIT_BOUND_MS));
  assert_true(proc_wait_pid_gone(guard, WAIT_BOUND_MS));
  assert_true(proc_find("sleep 4071") == other);
  assert_int_equal(kill(other, SIGKILL), 0);
  /* The pipe's other end went with the agent: the guard held no descriptor but its own. */
  char byte;
  assert_int_equal(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

static bool has_one_descriptor(void *guard) {
  return proc_fd_count(*(pid_t *)guard) == 1;
}

TEST(the_guard_lets_go_of_all_descriptors) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t agent = start_agent(ends[1], "4072");
  pid_t guard = read_pid(ends);
  close(ends[0]);
  assert_true(wait_until(has_one_descriptor, &guard, WAIT_BOUND_MS));
  assert_int_equal(kill(agent, SIGKILL), 0);
  assert_true(proc_wait_pid_gone(guard, WAIT_BOUND_MS));
}

TEST(a_guard_that_was_killed_is_told) {
  struct guard guard = GUARD_NONE;
  struct error error;
  assert_int_equal(guard_start(&guard, "0badcafe-4711-99", &error), 0);
  pid_t pid = guard.pid;
  assert_int_equal(guard_start(&guard, "0badcafe-4711-99", &error), 0);
  assert_int_equal(guard.pid, pid);
  assert_false(guard_reaped(&guard, pid + 1));
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  assert_true(guard_reaped(&guard, pid));
  assert_int_equal(guard.pid, 0);
  assert_int_equal(guard.fd, -1);
}

TEST(a_released_guard_exits) {
  struct guard guard = GUARD_NONE;
  struct error error;
  int status;
  assert_int_equal(guard_start(&guard, "0badcafe-4711-99", &error), 0);
  pid_t pid = guard.pid;
  guard_release(&guard);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
