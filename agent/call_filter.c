/*
 * The filter has a table for each numbering of system calls that the kernel takes from a process of
 * this machine. The numbers and structs are the kernel's (linux/seccomp.h, filter.h, audit.h), which
 * musl does not bring. Of each argument the lower half is compared: pids have 32 bits, and the
 * kernel ignores the rest.
 */
#include "agent/call_filter.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECCOMP_SET_MODE_FILTER 1
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW                                                             \
  (1U << 2) /* else processes become slower before Linux 5.16 */
#define SECCOMP_RET_ALLOW 0x7fff0000U
#define SECCOMP_RET_ERRNO 0x00050000U

/* struct seccomp_data: nr, arch, instruction pointer, six arguments of 64 bits. */
enum { DATA_NUMBER = 0, DATA_ARCH = 4, DATA_FIRST = 16, DATA_SECOND = 24 };

/* Classic BPF: load a word, and, subtract, jump, return. */
enum { LOAD = 0x20, AND = 0x54, SUBTRACT = 0x14, JUMP = 0x05, JUMP_IF = 0x15, RETURN = 0x06 };

struct instruction { /* struct sock_filter */
  uint16_t code;
  uint8_t if_true, if_false; /* instructions to skip */
  uint32_t value;
};

struct program { /* struct sock_fprog */
  unsigned short length;
  const struct instruction *instructions;
};

struct numbering {
  uint32_t arch;   /* AUDIT_ARCH_… */
  uint32_t mask;   /* of the number; x32 is amd64 with a bit */
  uint32_t pid[5]; /* whose first argument is a pid: prlimit64, sched_set… */
  uint32_t ioprio_set, setpriority;
};

static const struct numbering numberings[] = {
#if defined(__x86_64__)
    {0xc000003e,
     ~0x40000000U,
     {SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
      SYS_sched_setaffinity},
     SYS_ioprio_set,
     SYS_setpriority},
    {0x40000003, ~0U, {340, 156, 154, 351, 241}, 289, 97}, /* i386 */
#elif defined(__aarch64__)
    {0xc00000b7,
     ~0U,
     {SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
      SYS_sched_setaffinity},
     SYS_ioprio_set,
     SYS_setpriority},
    {0x40000028, ~0U, {369, 156, 154, 380, 241}, 314, 97}, /* arm */
#endif
};

enum { NUMBERINGS = sizeof numberings / sizeof *numberings, PART = 28 };

/* The arguments `which` of ioprio_set are those of setpriority, from 1 on. */
static void write_part(struct instruction part[PART], const struct numbering *of, uint32_t pid,
                       uint32_t group) {
  /* Where the jumps lead. */
  enum { BY_PID = 11, BY_IO = 14, BY_PRIORITY = 17, ONE = 22, GROUP = 24, ALLOW = 26, DENY = 27 };
#define IF(VALUE, AT, TRUE, FALSE)                                                                 \
  { JUMP_IF, (TRUE) - (AT)-1, (FALSE) - (AT)-1, (VALUE) }
  const struct instruction all[PART] = {
      IF(of->arch, 0, 1, PART),
      {LOAD, 0, 0, DATA_NUMBER},
      {AND, 0, 0, of->mask},
      IF(of->pid[0], 3, BY_PID, 4),
      IF(of->pid[1], 4, BY_PID, 5),
      IF(of->pid[2], 5, BY_PID, 6),
      IF(of->pid[3], 6, BY_PID, 7),
      IF(of->pid[4], 7, BY_PID, 8),
      IF(of->ioprio_set, 8, BY_IO, 9),
      IF(of->setpriority, 9, BY_PRIORITY, 10),
      {RETURN, 0, 0, SECCOMP_RET_ALLOW},
      [BY_PID] = {LOAD, 0, 0, DATA_FIRST},
      IF(pid, 12, DENY, 13),
      {RETURN, 0, 0, SECCOMP_RET_ALLOW},
      [BY_IO] = {LOAD, 0, 0, DATA_FIRST},
      {SUBTRACT, 0, 0, 1},
      {JUMP, 0, 0, 1},
      [BY_PRIORITY] = {LOAD, 0, 0, DATA_FIRST},
      IF(PRIO_USER, 18, DENY, 19),
      IF(PRIO_PGRP, 19, GROUP, 20),
      IF(PRIO_PROCESS, 20, ONE, 21),
      {RETURN, 0, 0, SECCOMP_RET_ALLOW},
      [ONE] = {LOAD, 0, 0, DATA_SECOND},
      IF(pid, 23, DENY, ALLOW),
      [GROUP] = {LOAD, 0, 0, DATA_SECOND},
      IF(group, 25, DENY, ALLOW),
      [ALLOW] = {RETURN, 0, 0, SECCOMP_RET_ALLOW},
      [DENY] = {RETURN, 0, 0, SECCOMP_RET_ERRNO | EPERM},
  };
#undef IF
  for (size_t i = 0; i < PART; i++)
    part[i] = all[i];
}

bool call_filter_install(void) {
  struct instruction all[1 + NUMBERINGS * PART + 1] = {{LOAD, 0, 0, DATA_ARCH}};
  const struct program program = {sizeof all / sizeof *all, all};
  uint32_t pid = (uint32_t)getpid();
  uint32_t group = (uint32_t)getpgrp();
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
    return false;
  for (size_t i = 0; i < NUMBERINGS; i++) /* a group of 0 is outside of the pid namespace */
    write_part(&all[1 + i * PART], &numberings[i], pid, group != 0 ? group : pid);
  all[1 + NUMBERINGS * PART] = (struct instruction){RETURN, 0, 0, SECCOMP_RET_ALLOW};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) ==
         0;
}
