/* What a step may try on its agent, or on itself: `attack NAME PID`. Prints the answer of the
   kernel. Built by test_container. */

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct attributes { /* of sched_setattr(2) */
  unsigned size, policy;
  unsigned long long flags;
  int nice;
  unsigned priority;
  unsigned long long runtime, deadline, period;
};

static struct rlimit limit;
static struct sched_param parameter;
static struct attributes idle = {.size = sizeof idle, .policy = SCHED_IDLE};
static unsigned long processors = 1;

/* Uses the numbers and registers of the 32-bit system calls; pointers must fit into them. */
static long foreign(long number, long a, long b, long c, long d) {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("push %%rbx; mov %2, %%rbx; int $0x80; pop %%rbx"
                   : "=a"(result)
                   : "0"(number), "r"(a), "c"(b), "d"(c), "S"(d)
                   : "memory", "r8", "r9", "r10", "r11");
  return result;
#else
  (void)number, (void)a, (void)b, (void)c, (void)d;
  return -ENOSYS;
#endif
}

static long as_foreign(long result) {
  if (result >= 0)
    return result;
  errno = (int)-result;
  return -1;
}

/* If the user may have no more pending signals, the kernel forgets who sent one. */
static long unsigned_signal(pid_t pid) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGRTMIN);
  (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
  while (sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0)
    continue;
  siginfo_t info = {.si_code = SI_QUEUE};
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  (void)syscall(SYS_rt_sigqueueinfo, pid, SIGTERM, &info);
  (void)syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGTERM, &info);
  (void)syscall(SYS_pidfd_send_signal, fd, SIGTERM, &info, 0);
  (void)syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 1);
  (void)syscall(SYS_tkill, pid, SIGTERM);
  return syscall(SYS_tgkill, pid, pid, SIGTERM);
}

/* A signal that seems to come from outside of the pid namespace. */
static long forged_queue(pid_t pid) {
  siginfo_t info = {.si_signo = SIGTERM, .si_code = SI_QUEUE};
  return syscall(SYS_rt_sigqueueinfo, pid, SIGTERM, &info);
}

static long forged_io(pid_t pid) {
  int ends[2];
  return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || fcntl(ends[0], F_SETSIG, SIGTERM) != 0 ||
                 fcntl(ends[0], F_SETOWN, pid) != 0 || fcntl(ends[0], F_SETFL, O_ASYNC) != 0 ||
                 write(ends[1], "x", 1) != 1
             ? -1
             : 0;
}

static long attack(const char *name, pid_t pid) {
  static struct {
    const char *name;
    long number, b, c, d; /* the pid comes first */
  } rows[] = {
      {"prlimit", SYS_prlimit64, RLIMIT_NOFILE, (long)&limit, 0},
      {"scheduler", SYS_sched_setscheduler, SCHED_IDLE, (long)&parameter, 0},
      {"parameter", SYS_sched_setparam, (long)&parameter, 0, 0},
      {"attributes", SYS_sched_setattr, (long)&idle, 0, 0},
      {"affinity", SYS_sched_setaffinity, sizeof processors, (long)&processors, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(name, rows[i].name) == 0)
      return syscall((long)rows[i].number, pid, rows[i].b, rows[i].c, rows[i].d);
  if (strcmp(name, "nice") == 0)
    return setpriority(PRIO_PROCESS, (id_t)pid, 19);
  if (strcmp(name, "nice-group") == 0)
    return setpriority(PRIO_PGRP, (id_t)getpgid(pid), 19);
  if (strcmp(name, "nice-user") == 0)
    return setpriority(PRIO_USER, 0, 19);
  if (strcmp(name, "io") == 0)
    return syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, pid, 3 << 13);
  if (strcmp(name, "io-group") == 0)
    return syscall(SYS_ioprio_set, IOPRIO_WHO_PGRP, getpgid(pid), 3 << 13);
  if (strcmp(name, "io-user") == 0)
    return syscall(SYS_ioprio_set, IOPRIO_WHO_USER, getuid(), 3 << 13);
  if (strcmp(name, "foreign") == 0) /* getpid: whether there is a 32-bit table */
    return as_foreign(foreign(20, 0, 0, 0, 0)) > 0 ? 0 : -1;
  if (strcmp(name, "foreign-prlimit") == 0)
    return as_foreign(foreign(340, pid, RLIMIT_NOFILE, 0, 0));
  if (strcmp(name, "foreign-nice") == 0)
    return as_foreign(foreign(97, PRIO_PROCESS, pid, 19, 0));
  if (strcmp(name, "queue") == 0)
    return forged_queue(pid);
  if (strcmp(name, "unsigned") == 0)
    return unsigned_signal(pid);
  if (strcmp(name, "sigio") == 0)
    return forged_io(pid);
  errno = EINVAL;
  return -1;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 50;
  long result = attack(argv[1], (pid_t)atoi(argv[2]));
  printf("%s\n", result == 0 ? "done" : strerrorname_np(errno));
  return 0;
}
