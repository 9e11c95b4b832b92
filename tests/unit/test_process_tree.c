#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/process/process_tree.h"
#include "base/clock.h"
#include "tests/test.h"

/* Only reading a descriptor takes time. */
static int64_t now_ms = 1;

int64_t clock_monotonic_ms(void) {
  return now_ms;
}

int64_t clock_unix_ms(void) {
  return now_ms;
}

ssize_t readlinkat(int fd, const char *path, char *out, size_t size) {
  now_ms += 10;
  return syscall(SYS_readlinkat, fd, path, out, size);
}

TEST(a_search_for_the_holder_of_a_pipe_leaves_time_for_the_count) {
  enum { PROCESSES = 20 };
  pid_t pids[PROCESSES];
  for (int i = 0; i < PROCESSES; i++)
    if ((pids[i] = fork()) == 0) {
      (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;)
        (void)pause();
    }
  const struct process_tree tree = {.turn_ms = 100};
  const ino_t nobodys[2] = {1, 0};
  const struct process_tree_census census = process_tree_list(&tree, nobodys, NULL, 0);
  assert_int_equal(census.living, PROCESSES);
  assert_int_equal(census.holder.pid, 0);
  assert_true(now_ms > 1);
  for (int i = 0; i < PROCESSES; i++) {
    assert_int_equal(kill(pids[i], SIGKILL), 0);
    assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
  }
}
