#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/policy.h"

/*
 * Writes the filters of system calls (seccomp) that keep steps away from the agent and from the
 * network. The hard part is that a filter sees numbers only: it cannot read memory, and each
 * machine has several numberings of system calls.
 *
 * Protection of the agent. A process may set the limits and the scheduling of any other process of
 * its user: prlimit(2) with a CPU time of 0 even kills process 1 of a container. The filter rejects
 * (EPERM) prlimit, sched_setscheduler, sched_setparam, sched_setattr, sched_setaffinity,
 * setpriority and ioprio_set that name the agent, its group or all processes of the user. It also
 * rejects signals whose sender the kernel may forget, because engine/signals.c would take them for
 * an order of the container runtime. If a user has as many pending signals as allowed, this happens
 * to tkill, tgkill and rt_sigqueueinfo, which are rejected towards the agent, and to
 * pidfd_send_signal with a siginfo or to a thread, which is rejected towards any process. The
 * kernel never forgets the sender of kill(2). One case too many is rejected: a process that has the
 * agent's number in a nested pid namespace may not do these things to itself.
 *
 * Limits of others. A process of a step with a policy sets its own limits only, by the pid 0, like
 * setrlimit(2). With those of its supervisor it could kill that, or make it useless for later
 * steps; Landlock does not cover them.
 *
 * Network. Only these sockets can be made; all others are EACCES:
 *
 *   POLICY_NETWORK_NONE      UNIX and netlink sockets
 *   POLICY_NETWORK_LOOPBACK  also TCP sockets of IPv4, which the supervisor makes (loopback.h)
 *   POLICY_NETWORK_PORTS     also TCP and UDP sockets; Landlock restricts the ports of TCP
 *
 * io_uring, which would make sockets without a system call, and the system calls of other
 * architectures (32-bit programs) do not exist (ENOSYS). With TCP sockets, the filter also rejects
 * what Landlock's rules for ports do not cover: MSG_FASTOPEN (EACCES), and TCP_ULP (ENOENT), which
 * can turn a socket into an SMC socket. With LOOPBACK, no socket can be bound to another interface
 * (EPERM), and there is no IPv6 (EAFNOSUPPORT, as on a host without it): the scope of a link-local
 * address that a process binds to replaces the interface, also if bind(2) fails.
 */

/* Of struct sock_filter in linux/filter.h. */
struct filter_instruction {
  uint16_t code;
  uint8_t if_true, if_false; /* the instructions to skip */
  uint32_t value;
};

#define FILTER_INSTRUCTIONS_MAX 128

struct filter_program {
  size_t count;
  struct filter_instruction instructions[FILTER_INSTRUCTIONS_MAX];
};

struct filter_rules {
  enum policy_network network;
  bool lets_udp_through; /* POLICY_NETWORK_LOOPBACK: the supervisor makes UDP sockets, too */
  pid_t agent, group;    /* the process to protect, and its group; 0: none */
  bool keeps_limits;     /* of a step: see above */
};

/* Whether processes with this filter ask a supervisor for their sockets (SECCOMP_RET_USER_NOTIF).
   It is then installed with SECCOMP_FILTER_FLAG_NEW_LISTENER. */
bool filter_asks(const struct filter_rules *rules);

/* Writes the program. Does not allocate. */
void filter_write(struct filter_program *out, const struct filter_rules *rules);

/* The numberings of a machine. filter_write writes for the machine that it was compiled for. */
struct filter_machine;
extern const struct filter_machine filter_amd64, filter_arm64;
void filter_write_for(struct filter_program *out, const struct filter_rules *rules,
                      const struct filter_machine *machine);

/* Protects the calling process, the agent, from everything that it starts. A step pays nothing for
   this filter, because it is inherited. It works only if no_new_privs is already set, as in a
   restricted pod; setting it would change how programs like sudo behave. Returns false if there is
   no filter. */
bool filter_protect_agent(void);
