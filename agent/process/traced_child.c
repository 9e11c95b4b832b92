#include "agent/process/traced_child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/process_table.h"

bool traced_child_has_stopped(const siginfo_t *info) {
  return info->si_code == CLD_TRAPPED || info->si_code == CLD_STOPPED;
}

bool traced_child_take(struct traced_child *self, pid_t pid) {
  siginfo_t info = {0};
  if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) != 0 || info.si_pid != pid)
    return false;
  *self = (struct traced_child){.pid = pid, .signal = info.si_status & 0x7F};
  return true;
}

/* `child` may be a thread of the process that sent it. */
static bool is_own(const siginfo_t *signal, pid_t child) {
  return syscall(SYS_tgkill, signal->si_pid, child, 0) == 0 || errno == EPERM;
}

/* The SIGTRAP of an execve(2) looks like one that the child has sent itself by kill(2). */
static bool is_in_kill(pid_t child) {
  char text[256];
  return process_table_read_file(child, "syscall", text, sizeof text) > 0 &&
         strtol(text, NULL, 10) == SYS_kill;
}

static bool is_for_tracer(const siginfo_t *signal, pid_t child) {
  if (signal->si_signo == SIGSTOP)
    return signal->si_pid == 0 || is_own(signal, child);
  return signal->si_signo == SIGTRAP && signal->si_code == SI_USER && is_own(signal, child) &&
         !is_in_kill(child);
}

/* Where there is no siginfo, all of the child's process is stopped, by a signal that another thread
   of it got: the child stays so without a tracer. */
void traced_child_release(const struct traced_child *self) {
  siginfo_t signal = {0};
  bool has_signal = ptrace(PTRACE_GETSIGINFO, self->pid, NULL, &signal) == 0;
  long passed = has_signal && !is_for_tracer(&signal, self->pid) ? self->signal : 0;
  (void)ptrace(PTRACE_DETACH, self->pid, NULL, passed); /* fails when it was killed meanwhile */
}
