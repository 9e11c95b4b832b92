/* The filter has a part for each numbering of system calls that the kernel accepts on this machine.
   The numbers and structs are the kernel's (linux/seccomp.h, filter.h, audit.h), which musl does
   not have. It compares the lower half of each argument: pids have 32 bits, and the kernel ignores
   the rest. */
#include "agent/call_filter.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECCOMP_SET_MODE_FILTER 1
/* Before Linux 5.16 processes would be slower without it. */
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1U << 2)
#define SECCOMP_RET_ALLOW 0x7fff0000U
#define SECCOMP_RET_ERRNO 0x00050000U

/* struct seccomp_data: nr, arch, instruction pointer, six arguments of 64 bits. */
enum {
  DATA_NUMBER = 0,
  DATA_ARCH = 4,
  DATA_FIRST = 16,
  DATA_SECOND = 24,
  DATA_THIRD = 32,
  DATA_FOURTH = 40
};

/* Classic BPF: load a word, and, subtract, jump, return. */
enum { LOAD = 0x20, AND = 0x54, SUBTRACT = 0x14, JUMP = 0x05, JUMP_IF = 0x15, RETURN = 0x06 };

struct instruction { /* struct sock_filter */
  uint16_t code;
  uint8_t if_true, if_false; /* instructions to skip */
  uint32_t value;
};

struct filter_program { /* struct sock_fprog */
  unsigned short length;
  const struct instruction *instructions;
};

struct numbering {
  uint32_t arch;   /* AUDIT_ARCH_… */
  uint32_t mask;   /* of the number: x32 is amd64 with another bit */
  uint32_t pid[9]; /* calls whose first argument is a pid: prlimit64, sched_set…, … */
  uint32_t ioprio_set, setpriority;
  uint32_t tkill, tgkill, pidfd_send_signal;
};

#define NATIVE_PID                                                                                 \
  SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,                    \
      SYS_sched_setaffinity, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo
#define NATIVE_OTHERS SYS_ioprio_set, SYS_setpriority, SYS_tkill, SYS_tgkill, SYS_pidfd_send_signal

static const struct numbering numberings[] = {
#if defined(__x86_64__) /* and i386; 524 and 536 are rt_…sigqueueinfo of x32 */
    {0xc000003e, ~0x40000000U, {NATIVE_PID, 524, 536}, NATIVE_OTHERS},
    {0x40000003, ~0U, {340, 156, 154, 351, 241, 178, 335, 178, 335}, 289, 97, 238, 270, 424},
#elif defined(__aarch64__) /* and arm */
    {0xc00000b7, ~0U, {NATIVE_PID, SYS_rt_sigqueueinfo, SYS_rt_sigqueueinfo}, NATIVE_OTHERS},
    {0x40000028, ~0U, {369, 156, 154, 380, 241, 178, 363, 178, 363}, 314, 97, 238, 268, 424},
#endif
};

enum { NUMBERINGS = sizeof numberings / sizeof *numberings, PART = 45 };

/* The targets of the jumps in a part. */
enum {
  PIDS = 3, /* one jump for each of numbering.pid */
  OTHERS = 12,
  BY_PID = 18,
  BY_IO = 20,
  BY_PRIORITY = 23,
  ONE = 27,
  GROUP = 29,
  TGKILL = 31,
  TKILL = 33,
  PIDFD = 37,
  ALLOW = 43,
  DENY = 44
};

/* `which` of ioprio_set has the values of setpriority, plus 1. */
static void write_part(struct instruction part[PART], const struct numbering *of, uint32_t pid,
                       uint32_t group) {
#define IF(VALUE, AT, TRUE, FALSE)                                                                 \
  { JUMP_IF, (TRUE) - (AT)-1, (FALSE) - (AT)-1, (VALUE) }
  const struct instruction all[PART] = {
      IF(of->arch, 0, 1, PART),
      {LOAD, 0, 0, DATA_NUMBER},
      {AND, 0, 0, of->mask},
      [OTHERS] = IF(of->ioprio_set, 12, BY_IO, 13),
      IF(of->setpriority, 13, BY_PRIORITY, 14),
      IF(of->tkill, 14, TKILL, 15),
      IF(of->tgkill, 15, TGKILL, 16),
      IF(of->pidfd_send_signal, 16, PIDFD, 17),
      {RETURN, 0, 0, SECCOMP_RET_ALLOW},
      [BY_PID] = {LOAD, 0, 0, DATA_FIRST},
      IF(pid, 19, DENY, ALLOW),
      [BY_IO] = {LOAD, 0, 0, DATA_FIRST},
      {SUBTRACT, 0, 0, 1},
      {JUMP, 0, 0, 1},
      [BY_PRIORITY] = {LOAD, 0, 0, DATA_FIRST},
      IF(PRIO_USER, 24, DENY, 25),
      IF(PRIO_PGRP, 25, GROUP, 26),
      IF(PRIO_PROCESS, 26, ONE, ALLOW),
      [ONE] = {LOAD, 0, 0, DATA_SECOND},
      IF(pid, 28, DENY, ALLOW),
      [GROUP] = {LOAD, 0, 0, DATA_SECOND},
      IF(group, 30, DENY, ALLOW),
      [TGKILL] = {LOAD, 0, 0, DATA_THIRD},
      {JUMP, 0, 0, 1},
      [TKILL] = {LOAD, 0, 0, DATA_SECOND},
      IF(SIGABRT, 34, ALLOW, 35), /* abort(3) */
      {LOAD, 0, 0, DATA_FIRST},
      IF(pid, 36, DENY, ALLOW),
      [PIDFD] = {LOAD, 0, 0, DATA_THIRD}, /* with a siginfo */
      IF(0, 38, 39, DENY),
      {LOAD, 0, 0, DATA_THIRD + 4},
      IF(0, 40, 41, DENY),
      {LOAD, 0, 0, DATA_FOURTH}, /* to a thread */
      IF(0, 42, ALLOW, DENY),
      [ALLOW] = {RETURN, 0, 0, SECCOMP_RET_ALLOW},
      [DENY] = {RETURN, 0, 0, SECCOMP_RET_ERRNO | EPERM},
  };
#undef IF
  for (size_t i = 0; i < PART; i++)
    part[i] = all[i];
  for (size_t i = PIDS; i < OTHERS; i++)
    part[i] = (struct instruction){JUMP_IF, (uint8_t)(BY_PID - i - 1), 0, of->pid[i - PIDS]};
}

bool call_filter_install(void) {
  struct instruction all[1 + NUMBERINGS * PART + 1] = {{LOAD, 0, 0, DATA_ARCH}};
  const struct filter_program program = {sizeof all / sizeof *all, all};
  uint32_t pid = (uint32_t)getpid();
  uint32_t group = (uint32_t)getpgrp();
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
    return false;
  for (size_t i = 0; i < NUMBERINGS; i++) /* a group of 0 is outside the pid namespace */
    write_part(&all[1 + i * PART], &numberings[i], pid, group != 0 ? group : pid);
  all[1 + NUMBERINGS * PART] = (struct instruction){RETURN, 0, 0, SECCOMP_RET_ALLOW};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) ==
         0;
}
