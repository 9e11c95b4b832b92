#include <assert.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "agent/confinement/filter.h"
#include "tests/test.h"

/* The rules are tested twice: a small interpreter of BPF runs the programs of both machines, with
   all of their numberings; and the kernel runs those of this machine. */

static_assert(sizeof(struct filter_instruction) == sizeof(struct sock_filter), "one layout");

/* --- the interpreter -------------------------------------------------------------------------- */

struct runner {
  struct filter_program program;
  unsigned executed; /* instructions of the last run */
};

static uint32_t load(const struct seccomp_data *data, uint32_t offset) {
  uint32_t word;
  assert_true(offset % 4 == 0 && offset < sizeof *data);
  memcpy(&word, (const char *)data + offset, sizeof word);
  return word;
}

/* Jumps lead forward, so each instruction is executed at most once. */
static uint32_t run(struct runner *self, const struct seccomp_data *data) {
  uint32_t value = 0;
  self->executed = 0;
  for (size_t at = 0;; at++) {
    assert_true(at < self->program.count);
    const struct filter_instruction *now = &self->program.instructions[at];
    bool is_true = false;
    self->executed++;
    switch (now->code) {
    case BPF_LD | BPF_W | BPF_ABS:
      value = load(data, now->value);
      continue;
    case BPF_ALU | BPF_AND | BPF_K:
      value &= now->value;
      continue;
    case BPF_JMP | BPF_JA:
      at += now->value;
      continue;
    case BPF_RET | BPF_K:
      return now->value;
    case BPF_JMP | BPF_JEQ | BPF_K:
      is_true = value == now->value;
      break;
    case BPF_JMP | BPF_JGE | BPF_K:
      is_true = value >= now->value;
      break;
    case BPF_JMP | BPF_JSET | BPF_K:
      is_true = (value & now->value) != 0;
      break;
    default:
      fail_msg("instruction %zu has the code %#x", at, now->code);
    }
    at += is_true ? now->if_true : now->if_false;
  }
}

/* --- the rows --------------------------------------------------------------------------------- */

enum { AGENT = 4321, GROUP = 4300, OTHER = 77 };

#define ALLOWED SECCOMP_RET_ALLOW
#define ASKED SECCOMP_RET_USER_NOTIF
#define FAILS(ERROR) (SECCOMP_RET_ERRNO | (ERROR))
/* The kernel ignores the upper half of 32-bit arguments. */
#define UPPER 0xabcdef0100000000U

struct call {
  const char *name;
  uint64_t arguments[4];
};

struct numbers {
  const char *name;
  uint32_t number[4]; /* amd64, i386, arm64, arm */
};

static const struct numbers numbers[] = {
    {"getpid", {39, 20, 172, 20}},
    {"write", {1, 4, 64, 4}},
    {"prlimit64", {302, 340, 261, 369}},
    {"sched_setscheduler", {144, 156, 119, 156}},
    {"sched_setparam", {142, 154, 118, 154}},
    {"sched_setattr", {314, 351, 274, 380}},
    {"sched_setaffinity", {203, 241, 122, 241}},
    {"rt_sigqueueinfo", {129, 178, 138, 178}},
    {"rt_tgsigqueueinfo", {297, 335, 240, 363}},
    {"ioprio_set", {251, 289, 30, 314}},
    {"setpriority", {141, 97, 140, 97}},
    {"kill", {62, 37, 129, 37}},
    {"tkill", {200, 238, 130, 238}},
    {"tgkill", {234, 270, 131, 268}},
    {"pidfd_send_signal", {424, 424, 424, 424}},
    {"socket", {41, 359, 198, 281}},
    {"socketpair", {53, 360, 199, 288}},
    {"sendto", {44, 369, 206, 290}},
    {"sendmsg", {46, 370, 211, 296}},
    {"sendmmsg", {307, 345, 269, 374}},
    {"setsockopt", {54, 366, 208, 294}},
    {"io_uring_setup", {425, 425, 425, 425}},
    {"io_uring_enter", {426, 426, 426, 426}},
    {"io_uring_register", {427, 427, 427, 427}},
};

static const uint32_t arches[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64,
                                  AUDIT_ARCH_ARM};
enum { AMD64, I386, ARM64, ARM, ARCHES };

static uint32_t number_of(const char *name, int arch) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strcmp(numbers[i].name, name) == 0)
      return numbers[i].number[arch];
  fail_msg("no number of %s", name);
  return 0;
}

static void compile(struct runner *self, const struct filter_rules *rules, int arch) {
  filter_write_for(&self->program, rules, arch <= I386 ? &filter_amd64 : &filter_arm64);
}

static uint32_t action_of(struct runner *self, const struct call *call, int arch, uint32_t plus) {
  struct seccomp_data data = {.nr = (int)(number_of(call->name, arch) + plus),
                              .arch = arches[arch]};
  for (size_t i = 0; i < 4; i++)
    data.args[i] = call->arguments[i];
  return run(self, &data);
}

static void expect(struct runner *self, const struct call *call, int arch, uint32_t plus,
                   uint32_t action) {
  uint32_t real = action_of(self, call, arch, plus);
  if (real != action)
    fail_msg("%s(%#llx, %#llx, %#llx, %#llx) of architecture %d + %#x: %#x instead of %#x",
             call->name, (unsigned long long)call->arguments[0],
             (unsigned long long)call->arguments[1], (unsigned long long)call->arguments[2],
             (unsigned long long)call->arguments[3], arch, plus, real, action);
}

/* --- the protection of the agent -------------------------------------------------------------- */

#define X32 0x40000000U

static const struct {
  struct call call;
  bool is_denied;
} protection[] = {
    {{"getpid", {AGENT}}, false},
    {{"write", {AGENT, AGENT, AGENT, AGENT}}, false},
    {{"prlimit64", {AGENT, RLIMIT_CPU, 1, 0}}, true},
    {{"prlimit64", {UPPER | AGENT, RLIMIT_CPU, 1, 0}}, true},
    {{"prlimit64", {0, RLIMIT_CPU, 1, 0}}, false},
    {{"prlimit64", {OTHER, RLIMIT_CPU, 1, 0}}, false},
    {{"prlimit64", {GROUP, AGENT, AGENT, AGENT}}, false},
    {{"sched_setscheduler", {AGENT, SCHED_IDLE, 1}}, true},
    {{"sched_setscheduler", {OTHER, SCHED_IDLE, 1}}, false},
    {{"sched_setparam", {AGENT, 1}}, true},
    {{"sched_setparam", {0, 1}}, false},
    {{"sched_setattr", {AGENT, 1}}, true},
    {{"sched_setattr", {OTHER, 1}}, false},
    {{"sched_setaffinity", {AGENT, 8, 1}}, true},
    {{"sched_setaffinity", {0, 8, 1}}, false},
    {{"rt_sigqueueinfo", {AGENT, SIGTERM, 1}}, true},
    {{"rt_sigqueueinfo", {OTHER, SIGTERM, 1}}, false},
    {{"rt_tgsigqueueinfo", {AGENT, AGENT, SIGTERM, 1}}, true},
    {{"rt_tgsigqueueinfo", {OTHER, AGENT, SIGTERM, 1}}, false},
    {{"ioprio_set", {IOPRIO_WHO_PROCESS, AGENT}}, true},
    {{"ioprio_set", {IOPRIO_WHO_PROCESS, GROUP}}, false},
    {{"ioprio_set", {IOPRIO_WHO_PROCESS, 0}}, false},
    {{"ioprio_set", {IOPRIO_WHO_PGRP, GROUP}}, true},
    {{"ioprio_set", {IOPRIO_WHO_PGRP, AGENT}}, false},
    {{"ioprio_set", {IOPRIO_WHO_USER, 1000}}, true},
    {{"ioprio_set", {0, AGENT}}, false},
    {{"ioprio_set", {4, AGENT}}, false},
    {{"setpriority", {PRIO_PROCESS, AGENT}}, true},
    {{"setpriority", {UPPER | PRIO_PROCESS, UPPER | AGENT}}, true},
    {{"setpriority", {PRIO_PROCESS, GROUP}}, false},
    {{"setpriority", {PRIO_PROCESS, 0}}, false},
    {{"setpriority", {PRIO_PGRP, GROUP}}, true},
    {{"setpriority", {PRIO_PGRP, 0}}, false},
    {{"setpriority", {PRIO_USER, 0}}, true},
    {{"setpriority", {3, AGENT}}, false},
    {{"kill", {AGENT, SIGTERM}}, false},
    {{"tkill", {AGENT, SIGTERM}}, true},
    {{"tkill", {AGENT, SIGABRT}}, false},
    {{"tkill", {OTHER, SIGTERM}}, false},
    {{"tgkill", {AGENT, AGENT, SIGTERM}}, true},
    {{"tgkill", {AGENT, AGENT, SIGABRT}}, false},
    {{"tgkill", {OTHER, OTHER, SIGTERM}}, false},
    {{"pidfd_send_signal", {5, SIGTERM, 0, 0}}, false},
    {{"pidfd_send_signal", {5, SIGTERM, 1, 0}}, true},
    {{"pidfd_send_signal", {5, SIGTERM, 0, 1}}, true},
    {{"socket", {AF_INET, SOCK_RAW, 1}}, false},
    {{"sendto", {3, 1, 1, MSG_FASTOPEN}}, false},
    {{"setsockopt", {3, SOL_SOCKET, SO_BINDTODEVICE}}, false},
    {{"io_uring_setup", {8}}, false},
};

TEST(the_agent_is_protected_in_every_numbering) {
  const struct filter_rules rules = {.agent = AGENT, .group = GROUP};
  struct runner runner;
  for (int arch = 0; arch < ARCHES; arch++) {
    compile(&runner, &rules, arch);
    for (size_t i = 0; i < sizeof protection / sizeof *protection; i++) {
      const uint32_t action = protection[i].is_denied ? FAILS(EPERM) : ALLOWED;
      expect(&runner, &protection[i].call, arch, 0, action);
      if (arch == AMD64)
        expect(&runner, &protection[i].call, arch, X32, action);
    }
  }
}

TEST(a_pointer_to_a_siginfo_is_seen_in_both_halves) {
  struct runner runner;
  compile(&runner, &(struct filter_rules){.agent = AGENT}, AMD64);
  expect(&runner, &(struct call){"pidfd_send_signal", {5, SIGTERM, 1ULL << 32, 0}}, AMD64, 0,
         FAILS(EPERM));
}

TEST(a_step_sets_its_own_limits_only) {
  static const struct {
    struct call call;
    bool is_denied;
  } rows[] = {
      {{"prlimit64", {0, RLIMIT_CPU, 1, 0}}, false},
      {{"prlimit64", {UPPER, RLIMIT_CPU, 1, 0}}, false},
      {{"prlimit64", {OTHER, RLIMIT_CPU, 0, 1}}, false},
      {{"prlimit64", {OTHER, RLIMIT_CPU, 1, 0}}, true},
      {{"prlimit64", {OTHER, RLIMIT_CPU, 1ULL << 32, 0}}, true},
      {{"prlimit64", {UPPER | OTHER, RLIMIT_CPU, 1, 0}}, true},
      {{"sched_setscheduler", {OTHER, 1, 1}}, false},
      {{"setpriority", {PRIO_PROCESS, OTHER, 1}}, false},
  };
  struct runner runner;
  for (int arch = 0; arch < ARCHES; arch++)
    for (pid_t agent = 0; agent <= AGENT; agent += AGENT) {
      const struct filter_rules rules = {.agent = agent, .keeps_limits = true};
      compile(&runner, &rules, arch);
      for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (arch == AMD64 || arch == ARM64 || rows[i].call.arguments[2] <= UINT32_MAX)
          expect(&runner, &rows[i].call, arch, 0, rows[i].is_denied ? FAILS(EPERM) : ALLOWED);
      const struct call of_agent = {"prlimit64", {AGENT, RLIMIT_CPU, 0, 1}};
      expect(&runner, &of_agent, arch, 0, agent != 0 ? FAILS(EPERM) : ALLOWED);
    }
}

TEST(x32_has_its_own_numbers_for_two_signals) {
  struct runner runner;
  static const uint32_t own[] = {524, 536};
  compile(&runner, &(struct filter_rules){.agent = AGENT}, AMD64);
  for (size_t i = 0; i < 2; i++)
    for (uint32_t bit = 0; bit <= X32; bit += X32) {
      struct seccomp_data data = {.nr = (int)(own[i] | bit), .arch = AUDIT_ARCH_X86_64};
      data.args[0] = AGENT;
      assert_int_equal(run(&runner, &data), FAILS(EPERM));
      data.args[0] = OTHER;
      assert_int_equal(run(&runner, &data), ALLOWED);
    }
}

TEST(an_unknown_group_is_not_the_callers_own) {
  struct runner runner;
  compile(&runner, &(struct filter_rules){.agent = AGENT}, AMD64);
  expect(&runner, &(struct call){"setpriority", {PRIO_PGRP, 0}}, AMD64, 0, ALLOWED);
  expect(&runner, &(struct call){"setpriority", {PRIO_PGRP, AGENT}}, AMD64, 0, FAILS(EPERM));
}

TEST(without_rules_everything_is_allowed) {
  struct runner runner;
  for (int arch = 0; arch < ARCHES; arch++) {
    compile(&runner, &(struct filter_rules){.agent = 0}, arch);
    for (size_t i = 0; i < sizeof protection / sizeof *protection; i++)
      expect(&runner, &protection[i].call, arch, 0, ALLOWED);
  }
}

/* --- the network ------------------------------------------------------------------------------ */

#define EVERYWHERE(ACTION)                                                                         \
  { ACTION, ACTION, ACTION, ACTION }
#define TCP                                                                                        \
  { ALLOWED, ASKED, ASKED, FAILS(EACCES) }
#define UDP                                                                                        \
  { ALLOWED, FAILS(EACCES), ASKED, FAILS(EACCES) }
#define IPV6                                                                                       \
  { ALLOWED, FAILS(EAFNOSUPPORT), FAILS(EAFNOSUPPORT), FAILS(EACCES) }
#define NEVER EVERYWHERE(FAILS(EACCES))

/* POLICY_NETWORK_PORTS, LOOPBACK, the same with UDP, NONE. */
static const struct {
  struct call call;
  uint32_t actions[4];
} network[] = {
    {{"getpid", {AF_INET}}, EVERYWHERE(ALLOWED)},
    {{"write", {3, 1, 1, MSG_FASTOPEN}}, EVERYWHERE(ALLOWED)},
    {{"prlimit64", {AGENT, RLIMIT_CPU, 1, 0}}, EVERYWHERE(ALLOWED)},
    {{"socket", {AF_UNIX, SOCK_STREAM, 0}}, EVERYWHERE(ALLOWED)},
    {{"socket", {UPPER | AF_UNIX, SOCK_RAW, 0}}, EVERYWHERE(ALLOWED)},
    {{"socket", {AF_NETLINK, SOCK_RAW, 0}}, EVERYWHERE(ALLOWED)},
    {{"socket", {AF_INET, SOCK_STREAM, 0}}, TCP},
    {{"socket", {AF_INET, SOCK_STREAM, IPPROTO_TCP}}, TCP},
    {{"socket", {AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP}}, TCP},
    {{"socket", {AF_INET6, SOCK_STREAM, 0}}, IPV6},
    {{"socket", {AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP}}, IPV6},
    {{"socket", {UPPER | AF_INET, UPPER | SOCK_STREAM, UPPER | IPPROTO_TCP}}, TCP},
    {{"socket", {AF_INET, SOCK_DGRAM, 0}}, UDP},
    {{"socket", {AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP}}, UDP},
    {{"socket", {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP}}, IPV6},
    {{"socket", {AF_INET, SOCK_STREAM, IPPROTO_MPTCP}}, NEVER},
    {{"socket", {AF_INET, SOCK_STREAM, IPPROTO_SCTP}}, NEVER},
    {{"socket", {AF_INET, SOCK_STREAM, IPPROTO_UDP}}, NEVER},
    {{"socket", {AF_INET, SOCK_STREAM, 256}}, NEVER}, /* IPPROTO_SMC */
    {{"socket", {AF_INET, SOCK_STREAM, 0x10006}}, NEVER},
    {{"socket", {AF_INET, SOCK_DGRAM, IPPROTO_TCP}}, NEVER},
    {{"socket", {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}}, NEVER},
    {{"socket", {AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE}}, NEVER},
    {{"socket", {AF_INET, SOCK_RAW, IPPROTO_TCP}}, NEVER},
    {{"socket", {AF_INET, SOCK_SEQPACKET, 0}}, NEVER},
    {{"socket", {AF_INET, 10, 0}}, NEVER}, /* SOCK_PACKET, which becomes AF_PACKET */
    {{"socket", {AF_INET | 0x10000, SOCK_STREAM, 0}}, NEVER},
    {{"socket", {AF_UNSPEC, SOCK_STREAM, 0}}, NEVER},
    {{"socket", {AF_PACKET, SOCK_RAW, 0}}, NEVER},
    {{"socket", {AF_VSOCK, SOCK_STREAM, 0}}, NEVER},
    {{"socket", {AF_ALG, SOCK_SEQPACKET, 0}}, NEVER},
    {{"socket", {43, SOCK_STREAM, 0}}, NEVER}, /* AF_SMC */
    {{"socket", {UINT64_MAX, SOCK_STREAM, 0}}, NEVER},
    {{"socketpair", {AF_UNIX, SOCK_STREAM, 0}}, EVERYWHERE(ALLOWED)},
    {{"socketpair", {AF_TIPC, SOCK_DGRAM, 0}}, NEVER},
    {{"sendto", {3, 1, 1, MSG_NOSIGNAL}}, EVERYWHERE(ALLOWED)},
    {{"sendto", {3, 1, MSG_FASTOPEN, 0}}, EVERYWHERE(ALLOWED)},
    {{"sendto", {3, 1, 1, MSG_FASTOPEN | MSG_NOSIGNAL}},
     {FAILS(EACCES), FAILS(EACCES), FAILS(EACCES), ALLOWED}},
    {{"sendmsg", {3, 1, MSG_FASTOPEN, 0}}, {FAILS(EACCES), FAILS(EACCES), FAILS(EACCES), ALLOWED}},
    {{"sendmsg", {3, 1, 0, MSG_FASTOPEN}}, EVERYWHERE(ALLOWED)},
    {{"sendmmsg", {3, 1, 1, UPPER | MSG_FASTOPEN}},
     {FAILS(EACCES), FAILS(EACCES), FAILS(EACCES), ALLOWED}},
    {{"sendmmsg", {3, 1, 1, 0}}, EVERYWHERE(ALLOWED)},
    {{"setsockopt", {3, SOL_SOCKET, SO_REUSEADDR, 1}}, EVERYWHERE(ALLOWED)},
    {{"setsockopt", {3, SOL_SOCKET, SO_BINDTODEVICE, 1}},
     {ALLOWED, FAILS(EPERM), FAILS(EPERM), ALLOWED}},
    {{"setsockopt", {3, UPPER | SOL_SOCKET, UPPER | SO_BINDTOIFINDEX, 1}},
     {ALLOWED, FAILS(EPERM), FAILS(EPERM), ALLOWED}},
    {{"setsockopt", {3, IPPROTO_TCP, SO_BINDTODEVICE, 1}}, EVERYWHERE(ALLOWED)},
    {{"setsockopt", {3, IPPROTO_TCP, TCP_NODELAY, 1}}, EVERYWHERE(ALLOWED)},
    {{"setsockopt", {3, IPPROTO_TCP, TCP_ULP, 1}},
     {FAILS(ENOENT), FAILS(ENOENT), FAILS(ENOENT), ALLOWED}},
    {{"setsockopt", {3, SOL_SOCKET, TCP_ULP, 1}}, EVERYWHERE(ALLOWED)},
    {{"io_uring_setup", {8}}, EVERYWHERE(FAILS(ENOSYS))},
    {{"io_uring_enter", {3}}, EVERYWHERE(FAILS(ENOSYS))},
    {{"io_uring_register", {3}}, EVERYWHERE(FAILS(ENOSYS))},
};

static const struct filter_rules networks[] = {
    {.network = POLICY_NETWORK_PORTS},
    {.network = POLICY_NETWORK_LOOPBACK},
    {.network = POLICY_NETWORK_LOOPBACK, .lets_udp_through = true},
    {.network = POLICY_NETWORK_NONE},
};

TEST(each_network_has_its_sockets) {
  struct runner runner;
  for (int arch = AMD64; arch < ARCHES; arch += ARM64)
    for (size_t n = 0; n < 4; n++) {
      compile(&runner, &networks[n], arch);
      for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        expect(&runner, &network[i].call, arch, 0, network[i].actions[n]);
    }
}

TEST(a_restricted_network_has_no_foreign_system_calls) {
  struct runner runner;
  for (size_t n = 0; n < 4; n++)
    for (size_t i = 0; i < sizeof network / sizeof *network; i++) {
      const struct call *call = &network[i].call;
      compile(&runner, &networks[n], AMD64);
      expect(&runner, call, I386, 0, FAILS(ENOSYS));
      expect(&runner, call, AMD64, X32, FAILS(ENOSYS));
      expect(&runner, call, ARM64, 0, FAILS(ENOSYS)); /* of no machine with this program */
      compile(&runner, &networks[n], ARM64);
      expect(&runner, call, ARM, 0, FAILS(ENOSYS));
    }
}

TEST(a_tracer_may_skip_a_system_call) {
  struct runner runner;
  struct seccomp_data data = {.nr = -1, .arch = AUDIT_ARCH_X86_64};
  for (size_t n = 0; n < 4; n++) {
    compile(&runner, &networks[n], AMD64);
    assert_int_equal(run(&runner, &data), ALLOWED);
  }
}

TEST(a_program_can_have_both_rules) {
  struct runner runner;
  for (int arch = AMD64; arch < ARCHES; arch += ARM64)
    for (size_t n = 0; n < 4; n++) {
      struct filter_rules both = networks[n];
      both.agent = AGENT;
      both.group = GROUP;
      compile(&runner, &both, arch);
      for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if (network[i].call.arguments[0] != AGENT)
          expect(&runner, &network[i].call, arch, 0, network[i].actions[n]);
      for (size_t i = 0; i < sizeof protection / sizeof *protection; i++)
        if (protection[i].is_denied)
          expect(&runner, &protection[i].call, arch, 0, FAILS(EPERM));
    }
}

TEST(only_the_loopback_network_asks) {
  assert_false(filter_asks(&(struct filter_rules){.agent = AGENT}));
  for (size_t n = 0; n < 4; n++)
    assert_int_equal(filter_asks(&networks[n]), n == 1 || n == 2);
}

/* The kernel executes each new program for all numbers, so a number must be found quickly. */
TEST(an_allowed_number_takes_few_instructions) {
  struct runner runner;
  for (size_t n = 0; n < 4; n++) {
    struct filter_rules both = networks[n];
    both.agent = AGENT;
    compile(&runner, &both, AMD64);
    for (int number = 0; number < 470; number++) {
      (void)run(&runner, &(struct seccomp_data){.nr = number, .arch = AUDIT_ARCH_X86_64});
      assert_true(runner.executed <= 17);
    }
  }
}

/* --- the kernel ------------------------------------------------------------------------------- */

struct attempt {
  const char *name;
  int (*attempt)(pid_t agent); /* returns 0 or the error */
  int expected[5];             /* with the protection only; then the networks */
};

static int error_of(long result) {
  return result < 0 ? errno : 0;
}

static int closed(long fd) {
  int error = error_of(fd);
  if (fd >= 0)
    close((int)fd);
  return error;
}

#define ATTEMPT(NAME) static int NAME(__attribute__((unused)) pid_t agent)

ATTEMPT(unix_socket) {
  return closed(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}
ATTEMPT(netlink_socket) {
  return closed(socket(AF_NETLINK, SOCK_RAW, 0));
}
ATTEMPT(udp_socket) {
  return closed(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
}
ATTEMPT(mptcp_socket) {
  return closed(socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP));
}
ATTEMPT(packet_socket) {
  return closed(socket(AF_PACKET, SOCK_RAW, 0));
}
ATTEMPT(unix_pair) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
    return errno;
  close(pair[0]);
  return closed(pair[1]);
}
ATTEMPT(internet_pair) {
  int pair[2];
  return error_of(socketpair(AF_INET, SOCK_STREAM, 0, pair));
}
/* The descriptor is none, so that the kernel's own answer is EBADF. */
ATTEMPT(fast_sendto) {
  return error_of(sendto(-1, "", 0, MSG_FASTOPEN, NULL, 0));
}
ATTEMPT(fast_sendmsg) {
  struct msghdr message = {0};
  return error_of(sendmsg(-1, &message, MSG_FASTOPEN));
}
ATTEMPT(fast_sendmmsg) {
  struct mmsghdr message = {0};
  return error_of(sendmmsg(-1, &message, 1, MSG_FASTOPEN));
}
ATTEMPT(slow_sendmsg) {
  struct msghdr message = {0};
  return error_of(sendmsg(-1, &message, MSG_NOSIGNAL));
}
ATTEMPT(bind_to_device) {
  return error_of(setsockopt(-1, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2));
}
ATTEMPT(change_protocol) {
  return error_of(setsockopt(-1, IPPROTO_TCP, TCP_ULP, "smc", 3));
}
ATTEMPT(ring_register) {
  return error_of(syscall(SYS_io_uring_register, -1, 2, NULL, 0)) == ENOSYS ? ENOSYS : 0;
}
ATTEMPT(limit_of_agent) {
  return error_of(syscall(SYS_prlimit64, agent, RLIMIT_NOFILE, NULL, NULL));
}
ATTEMPT(own_limit) {
  return error_of(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, NULL));
}
ATTEMPT(nice_of_agent) {
  return error_of(syscall(SYS_setpriority, PRIO_PROCESS, agent, 0));
}

static const struct attempt attempts[] = {
    {"a UNIX socket", unix_socket, {0}},
    {"a netlink socket", netlink_socket, {0}},
    {"UDP", udp_socket, {0, 0, EACCES, -1, EACCES}}, /* -1: it would ask */
    {"MPTCP", mptcp_socket, {-1, EACCES, EACCES, EACCES, EACCES}},
    {"a packet socket", packet_socket, {-1, EACCES, EACCES, EACCES, EACCES}},
    {"a UNIX pair", unix_pair, {0}},
    {"an internet pair", internet_pair, {EOPNOTSUPP, EACCES, EACCES, EACCES, EACCES}},
    {"sendto", fast_sendto, {EBADF, EACCES, EACCES, EACCES, EBADF}},
    {"sendmsg", fast_sendmsg, {EBADF, EACCES, EACCES, EACCES, EBADF}},
    {"sendmmsg", fast_sendmmsg, {EBADF, EACCES, EACCES, EACCES, EBADF}},
    {"sendmsg without MSG_FASTOPEN", slow_sendmsg, {EBADF, EBADF, EBADF, EBADF, EBADF}},
    {"SO_BINDTODEVICE", bind_to_device, {EBADF, EBADF, EPERM, EPERM, EBADF}},
    {"TCP_ULP", change_protocol, {EBADF, ENOENT, ENOENT, ENOENT, EBADF}},
    {"io_uring", ring_register, {-1, ENOSYS, ENOSYS, ENOSYS, ENOSYS}},
    {"prlimit of the agent", limit_of_agent, {EPERM, EPERM, EPERM, EPERM, EPERM}},
    {"prlimit of itself", own_limit, {0}},
    {"setpriority of the agent", nice_of_agent, {EPERM, EPERM, EPERM, EPERM, EPERM}},
};

static void install(const struct filter_rules *rules) {
  struct filter_program program;
  filter_write(&program, rules);
  struct sock_fprog installed = {(unsigned short)program.count,
                                 (struct sock_filter *)program.instructions};
  unsigned flags = filter_asks(rules) ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW,
              &installed) < 0)
    _exit(255);
}

/* Returns the status of a child that runs with the rules. */
static int in_a_child(const struct filter_rules *rules, int (*attempt)(pid_t agent), pid_t agent) {
  int status;
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    install(rules);
    _exit(attempt(agent));
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(the_kernel_obeys_the_programs) {
  for (size_t n = 0; n < 5; n++) {
    struct filter_rules rules = n > 0 ? networks[n - 1] : (struct filter_rules){.agent = 0};
    rules.agent = getpid();
    rules.group = getpgrp();
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
      if (attempts[i].expected[n] < 0)
        continue;
      int error = in_a_child(&rules, attempts[i].attempt, rules.agent);
      if (error != attempts[i].expected[n])
        fail_msg("%s with rules %zu: %d instead of %d", attempts[i].name, n, error,
                 attempts[i].expected[n]);
    }
  }
}

ATTEMPT(tcp_socket) {
  return closed(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

TEST(the_kernel_makes_tcp_sockets_only_for_ports) {
  assert_int_equal(in_a_child(&networks[0], tcp_socket, 0), 0);
  assert_int_equal(in_a_child(&networks[3], tcp_socket, 0), EACCES);
}

#if defined(__x86_64__)
/* getpid of i386, for which there may be no table (ENOSYS) anyway. */
ATTEMPT(foreign_call) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "0"(20L) : "memory", "r8", "r9", "r10", "r11");
  return result > 0 ? 0 : (int)-result;
}

ATTEMPT(foreign_limit) {
  long result;
  __asm__ volatile("push %%rbx; mov %2, %%rbx; int $0x80; pop %%rbx"
                   : "=a"(result)
                   : "0"(340L), "r"((long)agent), "c"((long)RLIMIT_NOFILE), "d"(0L), "S"(0L)
                   : "memory", "r8", "r9", "r10", "r11");
  return result >= 0 ? 0 : (int)-result;
}

TEST(the_kernel_rejects_32_bit_system_calls) {
  const struct filter_rules protected = {.agent = getpid()};
  for (size_t n = 0; n < 4; n++)
    assert_int_equal(in_a_child(&networks[n], foreign_call, 0), ENOSYS);
  if (in_a_child(&protected, foreign_call, 0) == 0)
    assert_int_equal(in_a_child(&protected, foreign_limit, getpid()), EPERM);
}
#endif

/* --- the agent itself ------------------------------------------------------------------------- */

static int protect(bool has_no_new_privs) {
  int status;
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    if (has_no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
      _exit(255);
    bool is_protected = filter_protect_agent();
    pid_t agent = getpid(), child = is_protected ? fork() : 0;
    if (child == 0)
      _exit(limit_of_agent(agent));
    _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 255);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(the_agent_protects_itself_if_no_new_privs_is_set) {
  assert_int_equal(protect(true), EPERM);
}

TEST_IF(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0, the_agent_never_sets_no_new_privs) {
  assert_int_equal(protect(false), 0);
}
