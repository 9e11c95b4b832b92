#include "agent/process/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/process/spawn.h"
#include "base/clock.h"

/* How long it goes on where SIGKILL does not help at once. */
#define KILL_MS 2000

/* Between two scans. */
#define SCAN_MS 10

/* So many scans in a row must find nobody. A scan misses a process that forks and exits meanwhile,
   and goes on in its child: mostly the next one finds that. */
#define QUIET_SCANS 5

static void kill_what_is_left(const char *agent_tag) {
  const struct process_tree left = {.dead_agent = agent_tag};
  const int64_t end_ms = clock_monotonic_ms() + KILL_MS;
  for (int quiet_scans = 0; quiet_scans < QUIET_SCANS && clock_monotonic_ms() < end_ms;) {
    quiet_scans = process_tree_signal(&left, SIGKILL) > 0 ? 0 : quiet_scans + 1;
    (void)usleep(SCAN_MS * 1000);
  }
}

__attribute__((noreturn)) static void guard_main(int fd, const char *agent_tag) {
  sigset_t none;
  char byte;
  sigemptyset(&none);
  (void)setsid();
  (void)dup2(fd, STDIN_FILENO);
  spawn_close_all_above(STDIN_FILENO);
  (void)chdir("/"); /* no file system stays busy because of it */
  (void)prctl(PR_SET_NAME, "agent-guard");
  (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  ssize_t length;
  do
    length = read(STDIN_FILENO, &byte, 1);
  while (length < 0 && errno == EINTR);
  kill_what_is_left(agent_tag);
  _exit(0);
}

int guard_start(struct guard *self, const char *agent_tag, struct error *error) {
  int ends[2];
  if (self->pid != 0 || getpid() == 1)
    return 0;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return error_set(error, "cannot make a pipe: %s", strerror(errno));
  pid_t pid = fork();
  if (pid == 0)
    guard_main(ends[0], agent_tag);
  if (pid < 0)
    (void)error_set(error, "cannot fork: %s", strerror(errno));
  close(ends[0]);
  if (pid < 0) {
    close(ends[1]);
    return -1;
  }
  *self = (struct guard){.pid = pid, .fd = ends[1]};
  return 0;
}

bool guard_reaped(struct guard *self, pid_t pid) {
  if (self->pid == 0 || self->pid != pid)
    return false;
  guard_release(self);
  return true;
}

void guard_release(struct guard *self) {
  if (self->fd >= 0)
    close(self->fd);
  *self = (struct guard)GUARD_NONE;
}
