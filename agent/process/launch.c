#include "agent/process/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/process/raw_syscall.h"

#define FUTEX_WAIT 0 /* of linux/futex.h, which musl does not bring */

/* AddressSanitizer would call functions of its own, and mark frames on the child's stack, from
   which no function returns. */
#define NO_SANITIZER __attribute__((no_sanitize("address")))

NO_SANITIZER __attribute__((noreturn)) static void exit_now(void) {
  for (;;)
    (void)raw_syscall(SYS_exit_group, 127, 0, 0, 0);
}

/* As dup2(2), which not every machine has; a descriptor that is in its place already loses its
   close-on-exec. */
NO_SANITIZER static long move_descriptor(int fd, int place) {
  return fd == place ? raw_syscall(SYS_fcntl, fd, F_SETFD, 0, 0)
                     : raw_syscall(SYS_dup3, fd, place, 0, 0);
}

NO_SANITIZER int launch_set_up(const struct spawn_defaults *defaults,
                               const struct spawn_request *request, pid_t agent) {
  long result = raw_syscall(SYS_setsid, 0, 0, 0, 0);
  if (result >= 0)
    result = raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
  if (raw_syscall(SYS_getppid, 0, 0, 0, 0) != agent)
    exit_now(); /* it died before prctl */
  if (result >= 0)
    result = raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)&defaults->open_files, 0);
  if (result >= 0)
    result = move_descriptor(defaults->stdin_fd, STDIN_FILENO);
  if (result >= 0)
    result = move_descriptor(request->stdout_fd, STDOUT_FILENO);
  if (result >= 0)
    result = move_descriptor(request->stderr_fd, STDERR_FILENO);
  return result >= 0 ? 0 : (int)-result;
}

/* Woken for other reasons, too: a stop and a continue, or nothing at all. */
NO_SANITIZER static void wait_at_gate(const int *gate) {
  while (__atomic_load_n(gate, __ATOMIC_ACQUIRE) == LAUNCH_GATE_CLOSED)
    (void)raw_syscall(SYS_futex, (long)gate, FUTEX_WAIT, LAUNCH_GATE_CLOSED, 0);
}

NO_SANITIZER bool launch_is_missing(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

/* As execvp(3): skips a candidate that is not there; remembers one that is there but may not be
   executed, and goes on searching. */
NO_SANITIZER static void exec_candidates(struct launch *self) {
  struct launch_failure *failure = &self->failure;
  failure->error = ENOENT;
  bool found = false;
  for (size_t i = 0; self->candidates[i] != NULL; i++) {
    const char *path = self->candidates[i];
    int error = (int)-raw_syscall(SYS_execve, (long)path, (long)self->request.argv,
                                  (long)self->request.envp, 0);
    if (error == ENOENT && raw_syscall(SYS_faccessat, AT_FDCWD, (long)path, F_OK, 0) != 0)
      continue;
    if (error == ENAMETOOLONG && self->candidates[1] == NULL)
      failure->error = error;
    if (error == ENOTDIR || error == ENAMETOOLONG)
      continue;
    if (!found) {
      failure->error = error;
      failure->candidate = i;
      found = true;
    }
    if (error != EACCES)
      break;
  }
  exec_probe_file(&failure->probe, self->candidates[failure->candidate], failure->error);
}

NO_SANITIZER static void execute(struct launch *self) {
  const struct spawn_request *request = &self->request;
  struct launch_failure *failure = &self->failure;
  failure->error = launch_set_up(&self->defaults, request, self->agent);
  if (failure->error != 0)
    return;
  /* execve(2) would close them in any case, but this child may wait before it, and the agent's
     connections must end when the agent closes them. Before Linux 5.9 they end with the wait. */
  if (self->report_fd < 0)
    (void)raw_syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0, 0);
  /* What comes before leaves no trace. The directory comes after: to enter it may mount it, and a
     step before this one may still make it. */
  wait_at_gate(&self->gate);
  if (request->directory != NULL) {
    failure->stage = LAUNCH_DIRECTORY;
    failure->error = (int)-raw_syscall(SYS_chdir, (long)request->directory, 0, 0, 0);
    failure->in_directory = failure->error == 0;
    if (!failure->in_directory &&
        !(request->directory_may_be_missing && launch_is_missing(failure->error)))
      return;
  }
  uint64_t none = 0; /* the kernel's sigset_t */
  (void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, sizeof none);
  failure->stage = LAUNCH_EXEC;
  exec_candidates(self);
}

NO_SANITIZER int launch_main(void *context) {
  struct launch *self = context;
  /* CLONE_CHILD_CLEARTID would do the same, but musl's clone(2) refuses it from 1.2.5 on. */
  (void)raw_syscall(SYS_set_tid_address, (long)&self->in_use, 0, 0, 0);
  self->shared = true;
  execute(self);
  self->failed = true;
  if (self->report_fd >= 0)
    (void)raw_syscall(SYS_write, self->report_fd, (long)&self->failure, sizeof self->failure, 0);
  exit_now();
}
