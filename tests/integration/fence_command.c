/* What a sandbox policy stops: `fence NAME [ARGUMENT…]`. Prints "done", or the name of the error.
   test_fence.c has the table of names, and sees each of them succeed without a policy. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

/* In the upper half of an argument, which the kernel ignores where it takes an int. */
#define ABOVE (1L << 32)

/* --- processes: the agent, its supervisor, or a number --- */

static pid_t parent_of(pid_t pid) {
  char path[64], text[512];
  (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0)
    return 0;
  text[length] = '\0';
  const char *rest = strrchr(text, ')');
  return rest == NULL ? 0 : (pid_t)atoi(rest + 4);
}

static pid_t process_of(const char *text) {
  if (strcmp(text, "agent") == 0)
    return parent_of(getppid());
  return strcmp(text, "supervisor") == 0 ? getppid() : (pid_t)atoi(text);
}

/* So that a program that is about to be killed has said what the kernel answered. */
static long signal_by(const char *how, pid_t pid) {
  siginfo_t info = {.si_signo = SIGKILL, .si_code = SI_QUEUE};
  if (strcmp(how, "kill") == 0)
    return kill(pid, SIGKILL);
  if (strcmp(how, "ask") == 0)
    return kill(pid, 0);
  if (strcmp(how, "group") == 0)
    return kill(-getpgid(pid), SIGKILL);
  if (strcmp(how, "tkill") == 0)
    return syscall(SYS_tkill, pid, SIGKILL);
  if (strcmp(how, "tgkill") == 0)
    return syscall(SYS_tgkill, pid, pid, SIGKILL);
  if (strcmp(how, "queue") == 0)
    return syscall(SYS_rt_sigqueueinfo, pid, SIGKILL, &info);
  int fd = -1;
  if (strcmp(how, "pidfd") == 0)
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (strcmp(how, "procfd") == 0) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  return fd < 0 ? -1 : syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

static long do_signal(char **arguments) {
  return signal_by(arguments[0], process_of(arguments[1]));
}

/* Everything that this user may signal, except itself. The caller looks at who is left. */
static long do_kill_all(char **arguments) {
  (void)arguments;
  return kill(-1, SIGKILL);
}

/* The kernel drops such a signal without an error, so "done" says nothing: the signal that the
   caller sends to itself is delivered after it. */
static long do_sigio(char **arguments) {
  struct f_owner_ex owner = {F_OWNER_TID, process_of(arguments[1])};
  bool by_thread = strcmp(arguments[0], "thread") == 0;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || fcntl(ends[0], F_SETSIG, SIGKILL) != 0 ||
      (by_thread ? fcntl(ends[0], F_SETOWN_EX, &owner) : fcntl(ends[0], F_SETOWN, owner.pid)) !=
          0 ||
      fcntl(ends[0], F_SETFL, O_ASYNC) != 0)
    return -1;
  return write(ends[1], "x", 1) == 1 ? 0 : -1;
}

static long do_ptrace(char **arguments) {
  return ptrace(PTRACE_SEIZE, process_of(arguments[0]), NULL, NULL);
}

/* EFAULT means that the kernel has looked into the other memory. */
static long do_vm_read(char **arguments) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void *)0x1000, 1};
  long result = process_vm_readv(process_of(arguments[0]), &here, 1, &there, 1, 0);
  return result == 1 || errno == EFAULT ? 0 : -1;
}

static long do_proc_file(char **arguments) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)process_of(arguments[0]), arguments[1]);
  char byte;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  return read(fd, &byte, 1) >= 0 || errno == EIO || errno == EFAULT ? 0 : -1;
}

static long do_proc_link(char **arguments) {
  char path[64], text[PATH_MAX];
  (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)process_of(arguments[0]), arguments[1]);
  return readlink(path, text, sizeof text) > 0 ? 0 : -1;
}

static long do_steal_fd(char **arguments) {
  int fd = (int)syscall(SYS_pidfd_open, process_of(arguments[0]), 0);
  return fd >= 0 && syscall(SYS_pidfd_getfd, fd, 0, 0) >= 0 ? 0 : -1;
}

/* As pidfd_getfd, for a process that no longer has its own descriptors: kcmp tells which process
   holds which socket, and needs the permission to trace. */
static long do_compare(char **arguments) {
  return syscall(SYS_kcmp, getpid(), process_of(arguments[0]), 0, 0, 0) >= 0 ? 0 : -1;
}

static long do_limit(char **arguments) {
  struct rlimit limit;
  pid_t pid = process_of(arguments[0]);
  if (prlimit(pid, RLIMIT_NOFILE, NULL, &limit) != 0)
    return -1;
  return syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, &limit, NULL);
}

/* The kernel takes a pid as an int. */
static long do_limit_above(char **arguments) {
  struct rlimit limit;
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 50;
  return syscall(SYS_prlimit64, process_of(arguments[0]) | ABOVE, RLIMIT_NOFILE, &limit, NULL);
}

/* --- files --- */

static long opened(int fd) {
  if (fd < 0)
    return -1;
  close(fd);
  return 0;
}

static long do_write(char **arguments) {
  return opened(open(arguments[0], O_WRONLY | O_CLOEXEC));
}

static long do_read(char **arguments) {
  return opened(open(arguments[0], O_RDONLY | O_CLOEXEC));
}

static long do_create(char **arguments) {
  return opened(open(arguments[0], O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

static long do_unnamed(char **arguments) {
  return opened(open(arguments[0], O_RDWR | O_TMPFILE | O_CLOEXEC, 0666));
}

static long do_cut(char **arguments) {
  return opened(open(arguments[0], O_RDONLY | O_TRUNC | O_CLOEXEC));
}

static long do_truncate(char **arguments) {
  return truncate(arguments[0], 0);
}

static long do_unlink(char **arguments) {
  return unlink(arguments[0]);
}

static long do_mkdir(char **arguments) {
  return mkdir(arguments[0], 0777);
}

static long do_rmdir(char **arguments) {
  return rmdir(arguments[0]);
}

static long do_rename(char **arguments) {
  return rename(arguments[0], arguments[1]);
}

static long do_exchange(char **arguments) {
  return renameat2(AT_FDCWD, arguments[0], AT_FDCWD, arguments[1], RENAME_EXCHANGE);
}

static long do_link(char **arguments) {
  return link(arguments[0], arguments[1]);
}

static long do_symlink(char **arguments) {
  return symlink("target", arguments[0]);
}

static long do_mkfifo(char **arguments) {
  return mkfifo(arguments[0], 0666);
}

static long do_device(char **arguments) {
  return mknod(arguments[0], S_IFCHR | 0666, (dev_t)0x103); /* /dev/null */
}

static long do_socket_file(char **arguments) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", arguments[0]);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return bind(fd, (const struct sockaddr *)&address, sizeof address);
}

/* `relative read|write DIRECTORY FILE` */
static long do_relative(char **arguments) {
  if (chdir(arguments[1]) != 0)
    return -1;
  return strcmp(arguments[0], "read") == 0 ? do_read(arguments + 2) : do_write(arguments + 2);
}

/* Opens for writing what it may open for reading. */
static long do_reopen(char **arguments) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", open(arguments[0], O_PATH | O_CLOEXEC));
  return opened(open(path, O_WRONLY | O_CLOEXEC));
}

/* `handle read|write FILE DIRECTORY`: opens the file without its path. */
static long do_handle(char **arguments) {
  union {
    struct file_handle handle;
    char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
  } file = {.handle.handle_bytes = MAX_HANDLE_SZ};
  int mount;
  if (name_to_handle_at(AT_FDCWD, arguments[1], &file.handle, &mount, 0) != 0)
    return -1;
  int at = open(arguments[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return opened(
      open_by_handle_at(at, &file.handle, strcmp(arguments[0], "read") == 0 ? O_RDONLY : O_WRONLY));
}

static long do_chmod(char **arguments) {
  return chmod(arguments[0], 0600);
}

static long do_stat(char **arguments) {
  struct stat file;
  return stat(arguments[0], &file);
}

static long do_list(char **arguments) {
  return opened(open(arguments[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static long waited(pid_t pid, int expected) {
  int status;
  if (waitpid(pid, &status, 0) != pid)
    return -1;
  errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
  return errno == expected ? 0 : -1;
}

/* The child exits with the error of exec; the programs here exit with 42. */
static long do_exec(char **arguments) {
  pid_t pid = fork();
  if (pid == 0) {
    execv(arguments[0], arguments);
    _exit(errno);
  }
  return waited(pid, 42);
}

/* Through its loader, which reports a file that it cannot read with 127. */
static long do_load(char **arguments) {
  pid_t pid = fork();
  if (pid == 0) {
    (void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    execv(arguments[0], arguments);
    _exit(errno);
  }
  long result = waited(pid, 42);
  if (result != 0 && errno == 127)
    errno = EACCES;
  return result;
}

static long do_exit(char **arguments) {
  exit(atoi(arguments[0]));
}

/* Puts another directory over a path, in namespaces of its own. */
static long do_mount(char **arguments) {
  if (geteuid() != 0 && unshare(CLONE_NEWUSER) != 0)
    return -1;
  return unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
             ? -1
             : mount(arguments[0], arguments[1], NULL, MS_BIND, NULL);
}

/* --- sockets --- */

struct word {
  const char *word;
  long value;
};

static long value_of(const struct word *words, const char *text) {
  for (; words->word != NULL; words++)
    if (strcmp(words->word, text) == 0)
      return words->value;
  return atol(text);
}

static const struct word families[] = {{"unix", AF_UNIX},
                                       {"inet", AF_INET},
                                       {"inet6", AF_INET6},
                                       {"netlink", AF_NETLINK},
                                       {"packet", AF_PACKET},
                                       {"vsock", AF_VSOCK},
                                       {"alg", AF_ALG},
                                       {"xdp", 44},
                                       {"smc", 43},
                                       {"inet-above", AF_INET | ABOVE},
                                       {"unix-above", AF_UNIX | ABOVE},
                                       {NULL, 0}};
static const struct word types[] = {{"stream", SOCK_STREAM},
                                    {"dgram", SOCK_DGRAM},
                                    {"raw", SOCK_RAW},
                                    {"seqpacket", SOCK_SEQPACKET},
                                    {"stream-flags", SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC},
                                    {"dgram-flags", SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC},
                                    {"dgram-above", SOCK_DGRAM | ABOVE},
                                    {"stream-above", SOCK_STREAM | ABOVE},
                                    {NULL, 0}};
static const struct word protocols[] = {
    {"tcp", IPPROTO_TCP},      {"udp", IPPROTO_UDP},         {"icmp", IPPROTO_ICMP},
    {"icmp6", IPPROTO_ICMPV6}, {"mptcp", IPPROTO_MPTCP},     {"mptcp-above", IPPROTO_MPTCP | ABOVE},
    {"sctp", IPPROTO_SCTP},    {"udplite", IPPROTO_UDPLITE}, {NULL, 0}};

static int socket_of(char **arguments) {
  return (int)syscall(SYS_socket, value_of(families, arguments[0]), value_of(types, arguments[1]),
                      value_of(protocols, arguments[2]));
}

/* `socket FAMILY TYPE PROTOCOL` */
static long do_socket(char **arguments) {
  return opened(socket_of(arguments));
}

struct peer {
  socklen_t size;
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } address;
};

static struct peer peer_of(const char *host, const char *port) {
  struct peer self = {.size = sizeof self.address.v4};
  self.address.v4 =
      (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  if (inet_pton(AF_INET, host, &self.address.v4.sin_addr) == 1)
    return self;
  self.size = sizeof self.address.v6;
  self.address.v6 =
      (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(port))};
  (void)inet_pton(AF_INET6, host, &self.address.v6.sin6_addr);
  return self;
}

/* Gives up after one packet that was not answered: in a second. */
static void be_impatient(int fd) {
  unsigned most_ms = 500;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

#define PING "PING\r\n"

/* Any reply is one of Redis. */
static long answered(int fd) {
  char reply[64];
  ssize_t length = recv(fd, reply, sizeof reply, 0);
  close(fd);
  if (length > 0)
    return 0;
  errno = length == 0 ? ECONNRESET : errno;
  return -1;
}

/* The kernel takes the interface of a link-local address for that of the socket, also if it does
   not have the address. */
static void take_interface(int fd) {
  struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                 .sin6_scope_id = if_nametoindex("fence0")};
  (void)inet_pton(AF_INET6, "fe80::1234", &address.sin6_addr);
  (void)bind(fd, (struct sockaddr *)&address, sizeof address);
}

static long sent_with(const char *how, int fd, const struct peer *peer) {
  struct iovec bytes = {PING, sizeof PING - 1};
  struct mmsghdr many = {.msg_hdr = {.msg_name = (void *)&peer->address,
                                     .msg_namelen = peer->size,
                                     .msg_iov = &bytes,
                                     .msg_iovlen = 1}};
  if (strcmp(how, "sendto") == 0)
    return sendto(fd, PING, sizeof PING - 1, MSG_FASTOPEN, &peer->address.any, peer->size);
  if (strcmp(how, "sendto-above") == 0)
    return syscall(SYS_sendto, fd, PING, sizeof PING - 1, MSG_FASTOPEN | ABOVE, &peer->address.any,
                   peer->size);
  if (strcmp(how, "sendmsg") == 0)
    return sendmsg(fd, &many.msg_hdr, MSG_FASTOPEN);
  if (strcmp(how, "sendmmsg") == 0)
    return sendmmsg(fd, &many, 1, MSG_FASTOPEN);
  if (strcmp(how, "scoped") == 0)
    take_interface(fd);
  int one = 1;
  if (strcmp(how, "option") == 0 &&
      setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one) != 0)
    return -1;
  if (connect(fd, &peer->address.any, peer->size) != 0)
    return -1;
  return write(fd, PING, sizeof PING - 1);
}

/* `redis HOW HOST PORT FAMILY TYPE PROTOCOL`: whether anything replies to a PING. */
static long do_redis(char **arguments) {
  struct peer peer = peer_of(arguments[1], arguments[2]);
  int fd = socket_of(arguments + 3);
  if (fd < 0)
    return -1;
  (void)fcntl(fd, F_SETFL, 0);
  be_impatient(fd);
  return sent_with(arguments[0], fd, &peer) > 0 ? answered(fd) : -1;
}

/* `connect HOW HOST PORT`: without waiting for a reply. */
static long do_connect(char **arguments) {
  struct peer peer = peer_of(arguments[1], arguments[2]);
  int fd = socket(peer.address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  be_impatient(fd);
  if (sent_with(arguments[0], fd, &peer) <= 0)
    return -1;
  /* With data in the first packet, the kernel reports the end of the attempt later. */
  struct pollfd polled = {.fd = fd, .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  (void)poll(&polled, 1, -1);
  (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  return error == 0 ? 0 : -1;
}

/* `disconnect HOST PORT`: an address without a family first. */
static long do_disconnect(char **arguments) {
  struct peer peer = peer_of(arguments[0], arguments[1]);
  struct sockaddr none = {.sa_family = AF_UNSPEC};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, &none, sizeof none) != 0)
    return -1;
  return connect(fd, &peer.address.any, peer.size);
}

/* `send HOST PORT`: a datagram. */
static long do_send(char **arguments) {
  struct peer peer = peer_of(arguments[0], arguments[1]);
  int fd = socket(peer.address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return fd >= 0 && sendto(fd, PING, sizeof PING - 1, 0, &peer.address.any, peer.size) > 0 ? 0 : -1;
}

/* `send-by HOST PORT INTERFACE`: a datagram that names its interface. */
static long do_send_by(char **arguments) {
  struct peer peer = peer_of(arguments[0], arguments[1]);
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
  } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(struct in_pktinfo)),
                          .cmsg_level = IPPROTO_IP,
                          .cmsg_type = IP_PKTINFO}};
  struct in_pktinfo by = {.ipi_ifindex = atoi(arguments[2])};
  memcpy(CMSG_DATA(&control.header), &by, sizeof by);
  struct iovec bytes = {PING, sizeof PING - 1};
  struct msghdr message = {.msg_name = &peer.address,
                           .msg_namelen = peer.size,
                           .msg_iov = &bytes,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  return fd >= 0 && sendmsg(fd, &message, 0) > 0 ? 0 : -1;
}

static int listener_at(const char *host, const char *port) {
  struct peer peer = peer_of(host, port);
  int fd = socket(peer.address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  if (fd < 0)
    return -1;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  return bind(fd, &peer.address.any, peer.size) == 0 && listen(fd, 8) == 0 ? fd : -1;
}

/* `bind HOST PORT` */
static long do_bind(char **arguments) {
  return opened(listener_at(arguments[0], arguments[1]));
}

/* Gets any free port. */
static long do_listen(char **arguments) {
  (void)arguments;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd >= 0 && listen(fd, 8) == 0 ? 0 : -1;
}

/* `serve HOST PORT READY`: writes the file READY, and answers one client. */
static long do_serve(char **arguments) {
  int fd = listener_at(arguments[0], arguments[1]);
  if (fd < 0 || do_create(arguments + 2) != 0)
    return -1;
  int client = accept(fd, NULL, NULL);
  return client >= 0 && write(client, PING, sizeof PING - 1) > 0 ? 0 : -1;
}

static void *connect_to(void *address) {
  struct peer *peer = address;
  int fd = socket(peer->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, &peer->address.any, peer->size) != 0 ||
      write(fd, PING, sizeof PING - 1) < 0)
    return (void *)(intptr_t)errno;
  close(fd);
  return NULL;
}

/* `talk BOUND HOST`: a server and its client in one process. */
static long do_talk(char **arguments) {
  int fd = listener_at(arguments[0], "0");
  struct peer peer = peer_of(arguments[1], "0"), bound = peer;
  if (fd < 0 || getsockname(fd, &bound.address.any, &bound.size) != 0)
    return -1;
  peer.address.v4.sin_port = bound.address.v4.sin_port; /* at the same place in both families */
  pthread_t thread;
  if (pthread_create(&thread, NULL, connect_to, &peer) != 0)
    return -1;
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  int client = poll(&polled, 1, 10000) == 1 ? accept(fd, NULL, NULL) : -1;
  char byte;
  if (client >= 0 && recv(client, &byte, 1, 0) == 1)
    return 0;
  void *error;
  (void)pthread_join(thread, &error);
  errno = error == NULL ? ETIMEDOUT : (int)(intptr_t)error;
  return -1;
}

/* Takes a socket off the interface to which it is bound: `unbind HOW`. */
static long do_unbind(char **arguments) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), none = 0;
  if (fd < 0)
    return -1;
  long level = strcmp(arguments[0], "above") == 0 ? SOL_SOCKET | ABOVE : SOL_SOCKET;
  if (strcmp(arguments[0], "index") == 0)
    return syscall(SYS_setsockopt, fd, level, SO_BINDTOIFINDEX, &none, sizeof none);
  return syscall(SYS_setsockopt, fd, level, SO_BINDTODEVICE, "", 0);
}

/* The flags of a socket are those that were asked for. */
static long do_flags(char **arguments) {
  (void)arguments;
  int plain = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
  int both = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (plain < 0 || both < 0 || other < 0)
    return -1;
  errno = EBADFD;
  return fcntl(plain, F_GETFD) == 0 && (fcntl(plain, F_GETFL) & O_NONBLOCK) == 0 &&
                 fcntl(both, F_GETFD) == FD_CLOEXEC && (fcntl(both, F_GETFL) & O_NONBLOCK) != 0
             ? 0
             : -1;
}

/* The errors of a socket that cannot be made are those of the kernel. */
static long do_no_descriptor(char **arguments) {
  (void)arguments;
  struct rlimit limit = {3, 3};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return -1;
  return socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EMFILE ? 0 : -1;
}

static void *make_sockets(void *failed) {
  for (int i = 0; i < 200; i++) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
      *(int *)failed = errno;
    close(fd);
  }
  return NULL;
}

static long do_many_sockets(char **arguments) {
  (void)arguments;
  pthread_t threads[8];
  int failed[8] = {0}, error = 0;
  for (int i = 0; i < 8; i++)
    (void)pthread_create(&threads[i], NULL, make_sockets, &failed[i]);
  for (int i = 0; i < 8; i++) {
    (void)pthread_join(threads[i], NULL);
    error = failed[i] != 0 ? failed[i] : error;
  }
  errno = error;
  return error == 0 ? 0 : -1;
}

/* Callers that are killed while they wait for their socket; then one that is not. */
static long do_killed_callers(char **arguments) {
  (void)arguments;
  for (int i = 0; i < 100; i++) {
    pid_t pid = fork();
    if (pid == 0)
      for (;;)
        close(socket(AF_INET, SOCK_STREAM, 0));
    (void)sched_yield();
    (void)kill(pid, SIGKILL);
    if (waitpid(pid, NULL, 0) != pid)
      return -1;
  }
  return opened(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* Runs on as a daemon of which nobody waits, and tries again then. */
static long do_orphan_socket(char **arguments) {
  (void)arguments;
  int ends[2];
  if (pipe(ends) != 0)
    return -1;
  if (fork() == 0) {
    if (fork() == 0) {
      (void)setsid();
      int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), error = fd < 0 ? errno : 0;
      _exit(write(ends[1], &error, sizeof error) < 0);
    }
    _exit(0);
  }
  int error;
  if (read(ends[0], &error, sizeof error) != sizeof error)
    return -1;
  errno = error;
  return error == 0 ? 0 : -1;
}

static struct sockaddr_un abstract(const char *name, socklen_t *size) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name);
  *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  return address;
}

/* `abstract TYPE NAME`: connects to a server of another process. */
static long do_abstract(char **arguments) {
  socklen_t size;
  struct sockaddr_un address = abstract(arguments[1], &size);
  int fd = socket(AF_UNIX, (int)value_of(types, arguments[0]) | SOCK_CLOEXEC, 0);
  if (strcmp(arguments[0], "dgram") == 0)
    return sendto(fd, "x", 1, 0, (const struct sockaddr *)&address, size) == 1 ? 0 : -1;
  return connect(fd, (const struct sockaddr *)&address, size);
}

/* The same for a server of its own. */
static long do_own_abstract(char **arguments) {
  socklen_t size;
  struct sockaddr_un address = abstract(arguments[0], &size);
  int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return bind(server, (const struct sockaddr *)&address, size) != 0 || listen(server, 1) != 0
             ? -1
             : connect(fd, (const struct sockaddr *)&address, size);
}

/* --- other ways into the kernel --- */

static long do_io_uring(char **arguments) {
  (void)arguments;
  char parameters[120] = {0};
  return opened((int)syscall(SYS_io_uring_setup, 1, parameters));
}

#if defined(__x86_64__)
/* The numbers and registers of the 32-bit system calls; pointers must fit into them. */
static long foreign(long number, long a, long b, long c, long d) {
  long result;
  __asm__ volatile("push %%rbx; mov %2, %%rbx; int $0x80; pop %%rbx"
                   : "=a"(result)
                   : "0"(number), "r"(a), "c"(b), "d"(c), "S"(d)
                   : "memory", "r8", "r9", "r10", "r11");
  errno = result < 0 ? (int)-result : 0;
  return result < 0 ? -1 : result;
}

static long do_foreign(char **arguments) {
  if (strcmp(arguments[0], "socketcall") == 0) {
    static int32_t call[3] = {AF_INET, SOCK_STREAM, 0};
    int32_t *low =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    memcpy(low, call, sizeof call);
    return opened((int)foreign(102, 1, (long)(intptr_t)low, 0, 0));
  }
  if (strcmp(arguments[0], "socket") == 0)
    return opened((int)foreign(359, AF_INET, SOCK_STREAM, 0, 0));
  if (strcmp(arguments[0], "limit") == 0)
    return foreign(340, process_of("agent"), RLIMIT_NOFILE, 0, 0);
  return foreign(20, 0, 0, 0, 0) > 0 ? 0 : -1; /* getpid */
}

static long do_x32(char **arguments) {
  (void)arguments;
  return opened((int)syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0));
}
#else
static long do_foreign(char **arguments) {
  (void)arguments;
  errno = ENOSYS;
  return -1;
}
#define do_x32 do_foreign
#endif

/* Lets the process do everything, above the filter that it has. */
static long do_allow_all(char **arguments) {
  struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {1, allow};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
    return -1;
  return do_socket(arguments);
}

/* --- what a step may do in each sandbox --- */

static long do_own_child(char **arguments) {
  (void)arguments;
  pid_t pid = fork();
  if (pid == 0)
    for (;;)
      pause();
  if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0 || kill(pid, SIGKILL) != 0)
    return -1;
  return waitpid(pid, NULL, __WALL) == pid ? 0 : -1;
}

static long do_own_limits(char **arguments) {
  (void)arguments;
  struct rlimit limit;
  return prlimit(0, RLIMIT_NOFILE, NULL, &limit) == 0 &&
                 prlimit(0, RLIMIT_NOFILE, &limit, NULL) == 0 &&
                 prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit) == 0 &&
                 setpriority(PRIO_PROCESS, 0, 19) == 0 &&
                 setpriority(PRIO_PROCESS, (id_t)getpid(), 19) == 0
             ? 0
             : -1;
}

static long do_terminal(char **arguments) {
  (void)arguments;
  struct winsize size = {24, 80, 0, 0};
  int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
    return -1;
  int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  return slave >= 0 && ioctl(slave, TIOCSWINSZ, &size) == 0 && isatty(slave) == 1 &&
                 write(slave, "x", 1) == 1
             ? 0
             : -1;
}

static const struct {
  const char *name;
  long (*run)(char **arguments);
} attacks[] = {
    {"signal", do_signal},
    {"kill-all", do_kill_all},
    {"sigio", do_sigio},
    {"ptrace", do_ptrace},
    {"vm-read", do_vm_read},
    {"proc-file", do_proc_file},
    {"proc-link", do_proc_link},
    {"steal-fd", do_steal_fd},
    {"compare", do_compare},
    {"limit", do_limit},
    {"limit-above", do_limit_above},
    {"write", do_write},
    {"read", do_read},
    {"create", do_create},
    {"unnamed", do_unnamed},
    {"cut", do_cut},
    {"truncate", do_truncate},
    {"unlink", do_unlink},
    {"mkdir", do_mkdir},
    {"rmdir", do_rmdir},
    {"rename", do_rename},
    {"exchange", do_exchange},
    {"link", do_link},
    {"symlink", do_symlink},
    {"mkfifo", do_mkfifo},
    {"device", do_device},
    {"socket-file", do_socket_file},
    {"relative", do_relative},
    {"reopen", do_reopen},
    {"handle", do_handle},
    {"chmod", do_chmod},
    {"stat", do_stat},
    {"list", do_list},
    {"exec", do_exec},
    {"load", do_load},
    {"exit", do_exit},
    {"mount", do_mount},
    {"socket", do_socket},
    {"redis", do_redis},
    {"connect", do_connect},
    {"disconnect", do_disconnect},
    {"send", do_send},
    {"send-by", do_send_by},
    {"bind", do_bind},
    {"listen", do_listen},
    {"serve", do_serve},
    {"talk", do_talk},
    {"unbind", do_unbind},
    {"flags", do_flags},
    {"no-descriptor", do_no_descriptor},
    {"many-sockets", do_many_sockets},
    {"killed-callers", do_killed_callers},
    {"orphan-socket", do_orphan_socket},
    {"abstract", do_abstract},
    {"own-abstract", do_own_abstract},
    {"io-uring", do_io_uring},
    {"foreign", do_foreign},
    {"x32", do_x32},
    {"allow-all", do_allow_all},
    {"own-child", do_own_child},
    {"own-limits", do_own_limits},
    {"terminal", do_terminal},
};

int main(int argc, char **argv) {
  static char *none[8] = {"", "", "", "", "", "", "", NULL};
  (void)signal(SIGPIPE, SIG_IGN);
  for (size_t i = 0; argc > 1 && i < sizeof attacks / sizeof *attacks; i++) {
    if (strcmp(argv[1], attacks[i].name) != 0)
      continue;
    long result = attacks[i].run(argc > 2 ? argv + 2 : none);
    printf("%s\n", result == 0 ? "done" : strerrorname_np(errno));
    return 0;
  }
  printf("no attack has this name\n");
  return 2;
}
