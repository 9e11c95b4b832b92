#include "tests/support/landlock_shim.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "tests/test.h"

enum { LANDLOCK_CREATE = 444, LANDLOCK_ADD, LANDLOCK_RESTRICT, VERSION_FLAG = 1 };

/* struct landlock_ruleset_attr; each Landlock knows a beginning of it. */
struct rules {
  uint64_t fs, net, scoped;
};

struct abilities {
  size_t size;
  struct rules rules;
};

/* linux/security/landlock of these versions. */
static struct abilities abilities_of(int abi) {
  return (struct abilities){.size = abi < 4   ? offsetof(struct rules, net)
                                    : abi < 6 ? offsetof(struct rules, scoped)
                                              : sizeof(struct rules),
                            .rules = {.fs = (1U << (abi < 2   ? 13
                                                    : abi < 3 ? 14
                                                    : abi < 5 ? 15
                                                              : 16)) -
                                            1,
                                      .net = abi < 4 ? 0 : 3,
                                      .scoped = abi < 6 ? 0 : 3}};
}

static void die(const char *what) {
  dprintf(STDERR_FILENO, "landlock shim: %s: %s\n", what, strerror(errno));
  _exit(126);
}

/* Returns the error with which this Landlock rejects the rule set; 0: it does not. */
static int rejection(int abi, const struct seccomp_notif *call) {
  struct abilities known = abilities_of(abi);
  struct rules rules = {0};
  size_t size = (size_t)call->data.args[1];
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%u/mem", call->pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (size > sizeof rules)
    size = sizeof rules;
  if (fd < 0 || pread(fd, &rules, size, (off_t)call->data.args[0]) != (ssize_t)size)
    die(path);
  close(fd);
  static const char zeros[sizeof rules];
  if (size > known.size && memcmp((const char *)&rules + known.size, zeros, size - known.size) != 0)
    return E2BIG;
  return (rules.fs & ~known.rules.fs) != 0 || (rules.net & ~known.rules.net) != 0 ||
                 (rules.scoped & ~known.rules.scoped) != 0
             ? EINVAL
             : 0;
}

static void answer(int abi, int listener) {
  struct seccomp_notif call = {0};
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
    return; /* the caller was killed */
  struct seccomp_notif_resp response = {.id = call.id};
  if (call.data.args[2] == VERSION_FLAG)
    response.val = abi;
  else if (call.data.args[2] != 0)
    response.error = -EINVAL;
  else
    response.error = -rejection(abi, &call);
  if (response.error == 0 && call.data.args[2] == 0)
    response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

/* Until no process is left that has the filter. */
static void serve(int abi, int listener) {
  struct pollfd polled = {.fd = listener, .events = POLLIN};
  while (poll(&polled, 1, -1) == 1 && (polled.revents & POLLIN) != 0)
    answer(abi, listener);
  _exit(0);
}

union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

static int receive_listener(int from) {
  char byte;
  struct iovec bytes = {&byte, 1};
  union control control;
  struct msghdr message = {.msg_iov = &bytes,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  int listener;
  if (recvmsg(from, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == NULL)
    _exit(1);
  memcpy(&listener, CMSG_DATA(&control.header), sizeof listener);
  return listener;
}

static void send_listener(int to, int listener) {
  struct iovec bytes = {"", 1};
  union control control = {.header = {.cmsg_len = CMSG_LEN(sizeof listener),
                                      .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.header), &listener, sizeof listener);
  struct msghdr message = {.msg_iov = &bytes,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  if (sendmsg(to, &message, 0) != 1)
    die("sendmsg");
}

/* An orphan, so that the program has no child that it did not make. */
static int start_server(int abi) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    die("socketpair");
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    if (fork() == 0)
      serve(abi, receive_listener(ends[0]));
    _exit(0);
  }
  close(ends[0]);
  if (pid < 0 || waitpid(pid, NULL, 0) != pid)
    die("fork");
  return ends[1];
}

#define LOAD(MEMBER) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, MEMBER))
#define IF(TEST, VALUE, THEN, ELSE) BPF_JUMP(BPF_JMP | (TEST) | BPF_K, VALUE, THEN, ELSE)
#define UNLESS(VALUE, SKIP) IF(BPF_JEQ, VALUE, 0, SKIP)
#define RETURN(VALUE) BPF_STMT(BPF_RET | BPF_K, VALUE)

/* Before Landlock 7, landlock_restrict_self(2) takes no flags. */
static void install_filter(const struct landlock_shim *self, unsigned flags, int *listener) {
  const unsigned allow = SECCOMP_RET_ALLOW, invalid = SECCOMP_RET_ERRNO | EINVAL;
  unsigned call = self->error != 0 ? SECCOMP_RET_ERRNO | (unsigned)self->error : allow;
  struct sock_filter filter[] = {
      LOAD(nr),
      UNLESS(SYS_seccomp, 6),
      LOAD(args[0]),
      IF(BPF_JEQ, SECCOMP_GET_NOTIF_SIZES, 3, 0),
      LOAD(args[1]),
      IF(BPF_JSET, SECCOMP_FILTER_FLAG_NEW_LISTENER, 1, 0),
      RETURN(allow),
      RETURN(self->has_no_listener ? invalid : allow),
      UNLESS(LANDLOCK_CREATE, 1),
      RETURN(self->abi > 0 ? SECCOMP_RET_USER_NOTIF : call),
      UNLESS(LANDLOCK_ADD, 1),
      RETURN(call),
      UNLESS(LANDLOCK_RESTRICT, 4),
      LOAD(args[1]),
      UNLESS(0, 1),
      RETURN(call),
      RETURN(self->abi > 0 && self->abi < 7 ? invalid : call),
      RETURN(allow),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  *listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (*listener < 0)
    die("seccomp");
}

void landlock_shim_install(const void *context) {
  const struct landlock_shim *self = context;
  int listener;
  if (self->abi == 0) {
    install_filter(self, 0, &listener);
    return;
  }
  int server = start_server(self->abi);
  install_filter(self, SECCOMP_FILTER_FLAG_NEW_LISTENER, &listener);
  send_listener(server, listener);
  close(listener);
  close(server);
}
