#include "agent/process/children.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/process_table.h"

struct child_stop {
  pid_t pid; /* or a thread's id */
  int signal;
};

/* Consumes the report of a stop. Returns false if the child is no longer stopped: it may have ended
   in the meantime. */
static bool consume_stop(struct child_stop *self, pid_t pid) {
  siginfo_t info = {0};
  if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | __WALL) != 0 || info.si_pid != pid)
    return false;
  *self = (struct child_stop){.pid = pid, .signal = info.si_status & 0x7F};
  return true;
}

/* Whether the process of `child`, which may be a thread, sent the signal. */
static bool is_own(const siginfo_t *signal, pid_t child) {
  return syscall(SYS_tgkill, signal->si_pid, child, 0) == 0 || errno == EPERM;
}

/* The SIGTRAP of an execve(2) looks as if the child had sent it with kill(2). */
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

/* Without a siginfo the whole process was stopped by a signal to another thread of it: the child
   stays stopped without a tracer. */
static void detach(const struct child_stop *self) {
  siginfo_t signal = {0};
  bool has_signal = ptrace(PTRACE_GETSIGINFO, self->pid, NULL, &signal) == 0;
  long passed = has_signal && !is_for_tracer(&signal, self->pid) ? self->signal : 0;
  (void)ptrace(PTRACE_DETACH, self->pid, NULL, passed); /* fails if it was killed */
}

static int status_of(const siginfo_t *info) {
  if (info->si_code == CLD_EXITED)
    return (info->si_status & 0xFF) << 8;
  return info->si_status | (info->si_code == CLD_DUMPED ? 0x80 : 0);
}

/* waitid(2) reports the stops of traced children even without WSTOPPED. Stopped children continue
   after all others were handled, because they may stop again at once and are reported first. */
int children_handle(const struct children_handler *handler, void *owner) {
  const int what = WEXITED | WNOHANG | WNOWAIT | __WALL | (handler->stopped != NULL ? WSTOPPED : 0);
  struct child_stop stops[CHILDREN_AT_ONCE];
  int handled = 0, count = 0;
  bool has_any = true;
  for (; handled < CHILDREN_AT_ONCE; handled++) {
    siginfo_t info = {0};
    struct rusage usage = {0};
    /* waitid(3) of the C libraries has no usage, and wait4(2) returns it only after reaping. */
    if (syscall(SYS_waitid, P_ALL, 0, &info, what, &usage) != 0)
      has_any = errno != ECHILD;
    if (info.si_pid == 0)
      break;
    if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
      handler->ended(owner, info.si_pid, status_of(&info), &usage);
      (void)waitpid(info.si_pid, NULL, WNOHANG | __WALL);
    } else if (consume_stop(&stops[count], info.si_pid)) {
      count++;
    }
  }
  while (count > 0) {
    detach(&stops[--count]);
    if (handler->stopped != NULL)
      handler->stopped(owner, stops[count].pid);
  }
  return has_any ? handled : -1;
}
