/* The numbers and structs are the kernel's (linux/seccomp.h), which musl does not have. */
#include "agent/confinement/loopback.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/confinement/filter.h"
#include "agent/confinement/seccomp.h"
#include "base/raw_call.h"

#define SECCOMP_GET_NOTIF_SIZES 3
#define SECCOMP_ADDFD_FLAG_SEND (1U << 1)

/* LOOPBACK_IFINDEX of the kernel's net/net_namespace.h: "lo" is the first interface of each network
   namespace and stays there. Its name can change. */
#define LOOPBACK_INTERFACE 1

struct seccomp_notif_sizes {
  uint16_t notif, response, data;
};

struct seccomp_notif {
  uint64_t id;
  uint32_t pid, flags;
  struct {
    int32_t number;
    uint32_t arch;
    uint64_t instruction_pointer;
    uint64_t arguments[6];
  } data;
};

struct seccomp_notif_resp {
  uint64_t id;
  int64_t value;
  int32_t error;
  uint32_t flags;
};

struct seccomp_notif_addfd {
  uint64_t id;
  uint32_t flags, source, target, target_flags;
};

static_assert(sizeof(struct seccomp_notif_sizes) == 6, "linux/seccomp.h");
static_assert(sizeof(struct seccomp_notif) == 80, "linux/seccomp.h");
static_assert(sizeof(struct seccomp_notif_resp) == 24, "linux/seccomp.h");
static_assert(sizeof(struct seccomp_notif_addfd) == 24, "linux/seccomp.h");

#define SECCOMP_IOCTL_NOTIF_RECV _IOWR('!', 0, struct seccomp_notif)
#define SECCOMP_IOCTL_NOTIF_SEND _IOWR('!', 1, struct seccomp_notif_resp)
#define SECCOMP_IOCTL_NOTIF_ADDFD _IOW('!', 3, struct seccomp_notif_addfd)

/* A later kernel may write more than it did when this was compiled. */
union request {
  struct seccomp_notif notif;
  unsigned char space[512];
};

union response {
  struct seccomp_notif_resp answer;
  unsigned char space[512];
};

/* ioctl(2), whose requests do not fit into the type that musl gives them. */
static long call(int listener, unsigned long request, const void *argument) {
  return syscall(SYS_ioctl, listener, request, argument);
}

static bool is_recent(void) {
  struct utsname system;
  char *dot;
  if (uname(&system) != 0)
    return false;
  unsigned long major = strtoul(system.release, &dot, 10);
  return major > 5 || (major == 5 && *dot == '.' && strtoul(dot + 1, NULL, 10) >= 14);
}

static bool has_known_sizes(void) {
  struct seccomp_notif_sizes sizes = {0};
  return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0 &&
         sizes.notif <= sizeof(union request) && sizes.response <= sizeof(union response);
}

/* Runs in a process that shares this one's memory until it ends. Returns the errno. */
__attribute__((no_sanitize("address"))) static int install_trial(void *unused) {
  static const struct filter_instruction allow = {.code = 0x06 /* BPF_RET | BPF_K */,
                                                  .value = SECCOMP_RET_ALLOW};
  const struct { /* struct sock_fprog */
    unsigned short length;
    const struct filter_instruction *instructions;
  } trial = {1, &allow};
  (void)unused;
  (void)raw_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const long result = raw_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                               SECCOMP_FILTER_FLAG_NEW_LISTENER, (long)&trial, 0, 0);
  return result < 0 ? (int)-result : 0;
}

/* Returns 0, or the errno of a filter with a listener. Without another filter there is no other
   listener. A call without a program then suffices, and is faster: it fails with EFAULT only if the
   kernel knows the flag. */
static int try_listener(void) {
  _Alignas(16) static char stack[16384];
  int status = 0;
  if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0) {
    (void)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, NULL);
    return errno == EFAULT ? 0 : errno;
  }
  const pid_t pid =
      clone(install_trial, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
    return ENOSYS;
  return WEXITSTATUS(status);
}

/* gVisor knows the action of such a filter, but not the listener. */
const char *loopback_lacks(void) {
  if (!is_recent() || !has_known_sizes())
    return "seccomp's user notification of Linux 5.14";
  if (syscall(SYS_close_range, ~0U, ~0U, CLOSE_RANGE_UNSHARE) != 0)
    return "close_range, which the container's seccomp profile forbids";
  switch (try_listener()) {
  case 0:
    return NULL;
  case EBUSY:
    return "a seccomp listener of its own, and the container's runtime has one (EBUSY)";
  default:
    return "seccomp's user notification of Linux 5.14";
  }
}

/* The filter has checked these values already. */
static bool may_have(const struct seccomp_notif *notif, bool lets_udp_through) {
  const int type = (int)notif->data.arguments[1] & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  const int protocol = (int)notif->data.arguments[2];
  if (notif->data.number != SYS_socket || (int)notif->data.arguments[0] != AF_INET)
    return false;
  if (type == SOCK_STREAM)
    return protocol == 0 || protocol == IPPROTO_TCP;
  return lets_udp_through && type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP);
}

/* Returns a socket that is bound to the loopback interface, or -1 with errno. */
static int make_socket(const struct seccomp_notif *notif) {
  const int interface = LOOPBACK_INTERFACE;
  int fd = socket((int)notif->data.arguments[0], (int)notif->data.arguments[1] | SOCK_CLOEXEC,
                  (int)notif->data.arguments[2]);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface, sizeof interface) == 0)
    return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

/* Installs the socket in the process that asked, as its answer. Returns 0 or an error. */
static int hand_over(int listener, const struct seccomp_notif *notif, bool lets_udp_through) {
  if (!may_have(notif, lets_udp_through))
    return EACCES;
  int fd = make_socket(notif);
  if (fd < 0)
    return errno;
  const struct seccomp_notif_addfd install = {
      .id = notif->id,
      .flags = SECCOMP_ADDFD_FLAG_SEND,
      .source = (uint32_t)fd,
      .target_flags = notif->data.arguments[1] & SOCK_CLOEXEC ? O_CLOEXEC : 0};
  int error = call(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &install) < 0 ? errno : 0;
  close(fd);
  return error;
}

/* The process that asked may vanish at any time; each call then fails with ENOENT. */
static void answer_one(int listener, bool lets_udp_through) {
  union request request = {.space = {0}};
  union response response = {.space = {0}};
  if (call(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0)
    return;
  int error = hand_over(listener, &request.notif, lets_udp_through);
  if (error == 0)
    return;
  response.answer.id = request.notif.id;
  response.answer.error = -error;
  (void)call(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

bool loopback_answer(int listener, bool lets_udp_through) {
  for (int i = 0; i < LOOPBACK_ANSWERS_MAX; i++) {
    struct pollfd waiting = {.fd = listener, .events = POLLIN};
    if (poll(&waiting, 1, 0) <= 0)
      return true;
    if ((waiting.revents & POLLIN) == 0)
      return false;
    answer_one(listener, lets_udp_through);
  }
  return true;
}
