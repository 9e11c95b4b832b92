/* A program is assembled from its last instruction to its first. BPF only jumps forward, so the
   target of each jump is already written, and its label is the number of instructions from there to
   the end. The kernel executes a new program for each of some 460 system calls and two
   architectures to learn which ones are always allowed. Therefore each program finds the number by
   a binary search.

   The numbers and structs are the kernel's (linux/seccomp.h, filter.h, audit.h), which musl does
   not have. The kernel ignores the upper half of pids, families, types, flags and options, so the
   program compares the lower half of each argument. */
#include "agent/confinement/filter.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/confinement/seccomp.h"
#include "base/check.h"

#define X32_BIT 0x40000000U /* of the numbers of x32, the third numbering of amd64 */
#define TYPE_MASK 0xfU      /* of a socket's type, without SOCK_CLOEXEC and SOCK_NONBLOCK */

/* struct seccomp_data: number, architecture, instruction pointer, six arguments of 64 bits. */
enum { NUMBER = 0, ARCH = 4, FIRST = 16, SECOND = 24, THIRD = 32, FOURTH = 40 };

/* Classic BPF: load a word; and; jump; jump if equal, if at least, if a bit is set; return. */
enum { LOAD = 0x20, AND = 0x54, JUMP = 0x05, IF = 0x15, IF_FROM = 0x35, IF_BIT = 0x45, RETURN = 6 };

/* --- the numbers ------------------------------------------------------------------------------ */

/* Which part of the program examines a system call. */
enum part {
  PID,      /* whose first argument is a pid: sched_set…, rt_…sigqueueinfo */
  LIMITS,   /* prlimit64 */
  IOPRIO,   /* ioprio_set */
  PRIORITY, /* setpriority */
  TKILL,
  TGKILL,
  PIDFD, /* pidfd_send_signal */
  SOCKET,
  PAIR,    /* socketpair */
  MESSAGE, /* sendmsg, whose third argument are flags */
  SEND,    /* sendto and sendmmsg: the fourth */
  OPTION,  /* setsockopt */
  RING,    /* io_uring_… */
  PARTS
};

struct call {
  uint16_t number, part; /* enum part */
};

#define CALLS_MAX 24

struct filter_machine {
  uint32_t arch, foreign_arch; /* AUDIT_ARCH_… */
  struct call calls[CALLS_MAX];
  struct call foreign[12]; /* of 32-bit programs; the network does not exist for them */
};

const struct filter_machine filter_amd64 = {
    .arch = 0xc000003e,
    .foreign_arch = 0x40000003, /* i386 */
    .calls = {{41, SOCKET}, {44, SEND},      {46, MESSAGE}, {53, PAIR},  {54, OPTION},
              {129, PID},   {141, PRIORITY}, {142, PID},    {144, PID},  {200, TKILL},
              {203, PID},   {234, TGKILL},   {251, IOPRIO}, {297, PID},  {302, LIMITS},
              {307, SEND},  {314, PID},      {424, PIDFD},  {425, RING}, {426, RING},
              {427, RING},  {524, PID},      {536, PID}}, /* the last two: rt_… of x32 */
    .foreign = {{97, PRIORITY},
                {154, PID},
                {156, PID},
                {178, PID},
                {238, TKILL},
                {241, PID},
                {270, TGKILL},
                {289, IOPRIO},
                {335, PID},
                {340, LIMITS},
                {351, PID},
                {424, PIDFD}},
};

const struct filter_machine filter_arm64 = {
    .arch = 0xc00000b7,
    .foreign_arch = 0x40000028, /* arm */
    .calls = {{30, IOPRIO},  {118, PID},    {119, PID},      {122, PID},    {130, TKILL},
              {131, TGKILL}, {138, PID},    {140, PRIORITY}, {198, SOCKET}, {199, PAIR},
              {206, SEND},   {208, OPTION}, {211, MESSAGE},  {240, PID},    {261, LIMITS},
              {269, SEND},   {274, PID},    {424, PIDFD},    {425, RING},   {426, RING},
              {427, RING}},
    .foreign = {{97, PRIORITY},
                {154, PID},
                {156, PID},
                {178, PID},
                {238, TKILL},
                {241, PID},
                {268, TGKILL},
                {314, IOPRIO},
                {363, PID},
                {369, LIMITS},
                {380, PID},
                {424, PIDFD}},
};

/* --- the assembler ---------------------------------------------------------------------------- */

/* A label is the number of instructions from there to the end of the program. Those that have been
   written are at the end of out->instructions. 0 is no label. */
typedef unsigned label;

struct assembler {
  struct filter_program *out;
  label allow, deny, refuse, absent; /* EPERM, EACCES, ENOSYS */
  label parts[PARTS];                /* 0: these system calls are not examined */
};

static label emit(struct assembler *self, uint16_t code, label if_true, label if_false,
                  uint32_t value) {
  struct filter_program *out = self->out;
  CHECK(out->count < FILTER_INSTRUCTIONS_MAX);
  static_assert(FILTER_INSTRUCTIONS_MAX <= UINT8_MAX, "each jump fits");
  out->instructions[FILTER_INSTRUCTIONS_MAX - out->count - 1] = (struct filter_instruction){
      code, (uint8_t)(out->count - if_true), (uint8_t)(out->count - if_false), value};
  return (label)++out->count;
}

static label emit_return(struct assembler *self, uint32_t action) {
  return emit(self, RETURN, (label)self->out->count, (label)self->out->count, action);
}

/* Writes an instruction after which the program continues at a label. */
static label emit_step(struct assembler *self, uint16_t code, uint32_t value, label next) {
  label last = (label)self->out->count;
  if (next != last)
    last = emit(self, JUMP, last, last, last - next);
  return emit(self, code, last, last, value);
}

static label emit_load(struct assembler *self, uint32_t offset, label next) {
  return emit_step(self, LOAD, offset, next);
}

/* Compares an argument with a value. */
static label emit_compare(struct assembler *self, uint32_t offset, uint32_t value, label if_equal,
                          label otherwise) {
  return emit_load(self, offset, emit(self, IF, if_equal, otherwise, value));
}

/* Finds the number of a system call; `calls` is in ascending order. */
static label emit_search(struct assembler *self, const struct call *calls, size_t count) {
  label next = self->allow;
  if (count > 2) {
    size_t half = count / 2;
    label upper = emit_search(self, calls + half, count - half);
    label lower = emit_search(self, calls, half);
    return emit(self, IF_FROM, upper, lower, calls[half].number);
  }
  while (count-- > 0)
    next = emit(self, IF, self->parts[calls[count].part], next, calls[count].number);
  return next;
}

/* Finds those system calls that are examined. */
static label emit_calls(struct assembler *self, const struct call *calls, size_t size) {
  struct call examined[CALLS_MAX];
  size_t count = 0;
  for (size_t i = 0; i < size; i++)
    if (calls[i].number != 0 && self->parts[calls[i].part] != 0)
      examined[count++] = calls[i];
  return emit_search(self, examined, count);
}

/* --- the rules -------------------------------------------------------------------------------- */

/* `which` of setpriority; that of ioprio_set has the same values, plus 1. */
static label emit_priority(struct assembler *self, uint32_t plus, label one, label group) {
  label next = emit(self, IF, one, self->allow, PRIO_PROCESS + plus);
  next = emit(self, IF, group, next, PRIO_PGRP + plus);
  next = emit(self, IF, self->deny, next, PRIO_USER + plus);
  return emit_load(self, FIRST, next);
}

static void emit_protection(struct assembler *self, uint32_t agent, uint32_t group) {
  label *parts = self->parts, allow = self->allow, deny = self->deny, next;
  parts[PID] = parts[LIMITS] = emit_compare(self, FIRST, agent, deny, allow);
  next = emit(self, IF, allow, parts[PID], SIGABRT); /* abort(3) */
  parts[TKILL] = emit_load(self, SECOND, next);
  parts[TGKILL] = emit_load(self, THIRD, next);
  label to_group = emit_compare(self, SECOND, group, deny, allow);
  label to_one = emit_compare(self, SECOND, agent, deny, allow);
  parts[PRIORITY] = emit_priority(self, 0, to_one, to_group);
  parts[IOPRIO] = emit_priority(self, 1, to_one, to_group);
  next = emit_compare(self, FOURTH, 0, allow, deny);   /* to a thread */
  next = emit_compare(self, THIRD + 4, 0, next, deny); /* with a siginfo, a pointer */
  parts[PIDFD] = emit_compare(self, THIRD, 0, next, deny);
}

/* A process sets its own limits as those of 0, and may read those of others, except the agent's. */
static void emit_limits(struct assembler *self, uint32_t agent) {
  label next = emit_compare(self, THIRD + 4, 0, self->allow, self->deny);
  next = emit_compare(self, THIRD, 0, next, self->deny); /* the new limit, a pointer */
  next = emit(self, IF, self->deny, next, agent);
  self->parts[LIMITS] = emit_load(self, FIRST, emit(self, IF, self->allow, next, 0));
}

/* Sends TCP sockets, and UDP sockets if they are allowed, to `granted`. */
static label emit_internet(struct assembler *self, label granted, bool udp) {
  label refuse = self->refuse, by_type = refuse;
  label any = emit(self, IF, granted, refuse, 0); /* the protocol of the type */
  label tcp = emit(self, IF, granted, any, IPPROTO_TCP);
  tcp = emit_load(self, THIRD, tcp);
  if (udp) {
    label protocol = emit_load(self, THIRD, emit(self, IF, granted, any, IPPROTO_UDP));
    by_type = emit(self, IF, protocol, refuse, SOCK_DGRAM);
  }
  by_type = emit(self, IF, tcp, by_type, SOCK_STREAM);
  return emit_load(self, SECOND, emit_step(self, AND, TYPE_MASK, by_type));
}

static label emit_options(struct assembler *self, bool binds) {
  label unknown = emit_return(self, SECCOMP_RET_ERRNO | ENOENT);
  label tcp = emit_compare(self, THIRD, TCP_ULP, unknown, self->allow);
  label next = self->allow;
  if (!binds) {
    next = emit(self, IF, self->deny, next, SO_BINDTODEVICE);
    next = emit_load(self, THIRD, emit(self, IF, self->deny, next, SO_BINDTOIFINDEX));
    next = emit(self, IF, next, self->allow, SOL_SOCKET);
  }
  return emit_load(self, SECOND, emit(self, IF, tcp, next, IPPROTO_TCP));
}

static void emit_network(struct assembler *self, const struct filter_rules *rules) {
  label *parts = self->parts, next = self->refuse;
  parts[RING] = self->absent;
  /* The pairs of AF_TIPC, the only other ones, can send to the network. */
  parts[PAIR] = emit_compare(self, FIRST, AF_UNIX, self->allow, self->refuse);
  if (rules->network != POLICY_NETWORK_NONE) {
    const bool asks = filter_asks(rules);
    label granted = asks ? emit_return(self, SECCOMP_RET_USER_NOTIF) : self->allow;
    label internet = emit_internet(self, granted, !asks || rules->lets_udp_through);
    label internet6 = asks ? emit_return(self, SECCOMP_RET_ERRNO | EAFNOSUPPORT) : internet;
    next = emit(self, IF, internet6, next, AF_INET6);
    next = emit(self, IF, internet, next, AF_INET);
    parts[SOCKET] = next;
    parts[OPTION] = emit_options(self, !asks);
    label flags = emit(self, IF_BIT, self->refuse, self->allow, MSG_FASTOPEN);
    parts[SEND] = emit_load(self, FOURTH, flags);
    parts[MESSAGE] = emit_load(self, THIRD, flags);
  }
  next = emit(self, IF, self->allow, next, AF_NETLINK);
  parts[SOCKET] = emit_load(self, FIRST, emit(self, IF, self->allow, next, AF_UNIX));
}

/* Programs of the machine itself. A tracer that skips a system call sets its number to -1. */
static label emit_native(struct assembler *self, const struct filter_machine *machine,
                         bool has_network) {
  label next = emit_calls(self, machine->calls, CALLS_MAX);
  if (has_network)
    return emit_load(self, NUMBER, emit_step(self, AND, ~X32_BIT, next));
  label skipped = emit(self, IF, self->allow, self->absent, UINT32_MAX);
  return emit_load(self, NUMBER, emit(self, IF_FROM, skipped, next, X32_BIT));
}

bool filter_asks(const struct filter_rules *rules) {
  return rules->network == POLICY_NETWORK_LOOPBACK;
}

void filter_write_for(struct filter_program *out, const struct filter_rules *rules,
                      const struct filter_machine *machine) {
  struct assembler self = {.out = out};
  const bool has_network = rules->network == POLICY_NETWORK_ALL;
  out->count = 0;
  self.allow = emit_return(&self, SECCOMP_RET_ALLOW);
  self.deny = emit_return(&self, SECCOMP_RET_ERRNO | EPERM);
  self.refuse = emit_return(&self, SECCOMP_RET_ERRNO | EACCES);
  self.absent = emit_return(&self, SECCOMP_RET_ERRNO | ENOSYS);
  if (rules->agent != 0) /* a group of 0 is outside the pid namespace */
    emit_protection(&self, (uint32_t)rules->agent,
                    (uint32_t)(rules->group != 0 ? rules->group : rules->agent));
  if (rules->keeps_limits)
    emit_limits(&self, (uint32_t)rules->agent);
  if (!has_network)
    emit_network(&self, rules);
  label native = emit_native(&self, machine, has_network);
  label other = self.absent;
  if (has_network) {
    other = emit_calls(&self, machine->foreign, sizeof machine->foreign / sizeof(struct call));
    other = emit(&self, IF, emit_load(&self, NUMBER, other), self.allow, machine->foreign_arch);
  }
  (void)emit_load(&self, ARCH, emit(&self, IF, native, other, machine->arch));
  memmove(out->instructions, &out->instructions[FILTER_INSTRUCTIONS_MAX - out->count],
          out->count * sizeof *out->instructions);
}

void filter_write(struct filter_program *out, const struct filter_rules *rules) {
#if defined(__x86_64__)
  filter_write_for(out, rules, &filter_amd64);
#elif defined(__aarch64__)
  filter_write_for(out, rules, &filter_arm64);
#endif
}

bool filter_protect_agent(void) {
  const struct filter_rules rules = {.agent = getpid(), .group = getpgrp()};
  struct filter_program program;
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
    return false;
  filter_write(&program, &rules);
  const struct { /* struct sock_fprog */
    unsigned short length;
    const struct filter_instruction *instructions;
  } installed = {(unsigned short)program.count, program.instructions};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                 &installed) == 0;
}
