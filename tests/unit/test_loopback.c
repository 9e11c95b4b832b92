#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_tun.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "agent/confinement/filter.h"
#include "agent/confinement/loopback.h"
#include "tests/support/proc.h"
#include "tests/test.h"

/* In each test, a child has the filter and plays the step, and the test is its supervisor. */

/* --- the step and its supervisor -------------------------------------------------------------- */

struct step {
  pid_t pid;
  int listener;
};

static const struct filter_rules tcp_rules = {.network = POLICY_NETWORK_LOOPBACK};
static const struct filter_rules udp_rules = {.network = POLICY_NETWORK_LOOPBACK,
                                              .lets_udp_through = true};

/* Fails a step, whose exit code is the result of its function. */
#define NEED(CONDITION)                                                                            \
  if (!(CONDITION)) {                                                                              \
    fprintf(stderr, "line %d: %s: %s\n", __LINE__, #CONDITION, strerror(errno));                   \
    return 1;                                                                                      \
  }

static void send_listener(int channel, int listener) {
  char control[CMSG_SPACE(sizeof listener)] = {0};
  struct iovec byte = {(char[]){'x'}, 1};
  struct msghdr message = {
      .msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof listener);
  memcpy(CMSG_DATA(header), &listener, sizeof listener);
  if (sendmsg(channel, &message, 0) != 1)
    _exit(255);
}

static int receive_listener(int channel) {
  int listener = -1;
  char control[CMSG_SPACE(sizeof listener)], byte[1];
  struct iovec vector = {byte, 1};
  struct msghdr message = {.msg_iov = &vector,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
  assert_int_equal(recvmsg(channel, &message, MSG_CMSG_CLOEXEC), 1);
  const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header != NULL)
    memcpy(&listener, CMSG_DATA(header), sizeof listener);
  assert_true(listener >= 0);
  return listener;
}

static void become_step(int channel, const struct sock_fprog *program, int (*body)(void)) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    _exit(255);
  long listener =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, program);
  if (listener < 0)
    _exit(255);
  send_listener(channel, (int)listener);
  close((int)listener);
  close(channel);
  _exit(body());
}

static struct step start_with(const struct sock_fprog *program, int (*body)(void)) {
  struct step step;
  int channel[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
  step.pid = fork();
  assert_true(step.pid >= 0);
  if (step.pid == 0) {
    close(channel[0]);
    become_step(channel[1], program, body);
  }
  close(channel[1]);
  step.listener = receive_listener(channel[0]);
  close(channel[0]);
  return step;
}

static struct step start(const struct filter_rules *rules, int (*body)(void)) {
  struct filter_program program;
  filter_write(&program, rules);
  return start_with(&(struct sock_fprog){(unsigned short)program.count,
                                         (struct sock_filter *)program.instructions},
                    body);
}

/* Waits for a request, or for the end of the last process with the filter. */
static void wait_for_request(const struct step *step) {
  struct pollfd waiting = {.fd = step->listener, .events = POLLIN};
  assert_int_equal(poll(&waiting, 1, WAIT_BOUND_MS), 1);
}

/* Answers until the last process of the step has ended. */
static void serve(const struct step *step, bool lets_udp_through) {
  int status;
  do
    wait_for_request(step);
  while (loopback_answer(step->listener, lets_udp_through));
  close(step->listener);
  assert_int_equal(waitpid(step->pid, &status, 0), step->pid);
  assert_int_equal(status, 0);
}

static void run(const struct filter_rules *rules, int (*body)(void)) {
  struct step step = start(rules, body);
  serve(&step, rules->lets_udp_through);
}

#define SUPPORTED_TEST(NAME) TEST_IF(loopback_lacks() == NULL, NAME)

/* --- sockets of a step ------------------------------------------------------------------------ */

union address {
  struct sockaddr any;
  struct sockaddr_in v4;
};

static socklen_t make_address(union address *self, const char *text, in_port_t port) {
  *self = (union address){.v4 = {.sin_family = AF_INET, .sin_port = port}};
  return inet_pton(AF_INET, text, &self->v4.sin_addr) == 1 ? sizeof self->v4 : 0;
}

static in_port_t port_of(int fd) {
  union address address = {.v4 = {0}};
  socklen_t length = sizeof address;
  return getsockname(fd, &address.any, &length) == 0 ? address.v4.sin_port : 0;
}

/* A server at one address and a client that connects to another one. */
static int talk(const char *server_address, const char *client_address) {
  union address address;
  char byte = 0;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  NEED(listener >= 0);
  NEED(bind(listener, &address.any, make_address(&address, server_address, 0)) == 0);
  NEED(listen(listener, 1) == 0);
  int client = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
  NEED(client >= 0);
  NEED(connect(client, &address.any, make_address(&address, client_address, port_of(listener))) ==
       0);
  int server = accept(listener, NULL, NULL);
  NEED(server >= 0);
  NEED(send(client, "x", 1, 0) == 1 && recv(server, &byte, 1, 0) == 1 && byte == 'x');
  NEED(send(server, "y", 1, 0) == 1 && recv(client, &byte, 1, 0) == 1 && byte == 'y');
  char device[IFNAMSIZ] = "";
  socklen_t length = sizeof device;
  NEED(getsockopt(server, SOL_SOCKET, SO_BINDTODEVICE, device, &length) == 0);
  NEED(strcmp(device, "lo") == 0); /* of a socket that was accepted */
  close(server);
  close(client);
  close(listener);
  return 0;
}

static int talk_everywhere(void) {
  return talk("127.0.0.1", "127.0.0.1") || talk("0.0.0.0", "127.0.0.2");
}

SUPPORTED_TEST(server_and_client_of_a_step_meet_over_loopback) {
  run(&tcp_rules, talk_everywhere);
}

static int check_flags(void) {
  static const int flags[] = {0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    int fd = socket(AF_INET, SOCK_STREAM | flags[i], 0);
    NEED(fd >= 0);
    NEED(((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0) == ((flags[i] & SOCK_CLOEXEC) != 0));
    NEED(((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0) == ((flags[i] & SOCK_NONBLOCK) != 0));
    close(fd);
  }
  return 0;
}

SUPPORTED_TEST(a_socket_has_the_flags_that_were_asked_for) {
  run(&tcp_rules, check_flags);
}

static int is_refused(int family, int type, int protocol) {
  int fd = socket(family, type, protocol);
  NEED(fd < 0 && errno == EACCES);
  return 0;
}

static int refuse_others(void) {
  return is_refused(AF_INET, SOCK_STREAM, IPPROTO_MPTCP) || is_refused(AF_INET, SOCK_RAW, 1) ||
         is_refused(AF_INET, SOCK_DGRAM, IPPROTO_ICMP) ||
         is_refused(AF_INET, SOCK_STREAM | 0x100, 0) || is_refused(AF_PACKET, SOCK_RAW, 0);
}

static int refuse_udp(void) {
  return refuse_others() || is_refused(AF_INET, SOCK_DGRAM, 0);
}

SUPPORTED_TEST(other_sockets_are_refused) {
  run(&tcp_rules, refuse_udp);
}

static int lack_ipv6(void) {
  static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_STREAM | SOCK_CLOEXEC, SOCK_RAW};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    NEED(socket(AF_INET6, types[i], 0) < 0 && errno == EAFNOSUPPORT);
  return 0;
}

/* Binding to a link-local address would undo the binding to the interface. */
SUPPORTED_TEST(there_is_no_ipv6) {
  run(&tcp_rules, lack_ipv6);
  run(&udp_rules, lack_ipv6);
}

static int refuse_ipv6(void) {
  return is_refused(AF_INET6, SOCK_STREAM, 0) || is_refused(AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
}

/* A filter that asks for every socket. */
SUPPORTED_TEST(the_supervisor_refuses_what_the_filter_let_through) {
  struct sock_filter all[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof all / sizeof *all, all};
  struct step step = start_with(&program, refuse_udp);
  serve(&step, false);
  step = start_with(&program, refuse_others);
  serve(&step, true);
  step = start_with(&program, refuse_ipv6);
  serve(&step, true);
}

static int talk_udp(void) {
  union address address;
  char byte = 0;
  int server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
  NEED(server >= 0);
  NEED(bind(server, &address.any, make_address(&address, "127.0.0.1", 0)) == 0);
  int client = socket(AF_INET, SOCK_DGRAM, 0);
  NEED(client >= 0);
  NEED(sendto(client, "x", 1, 0, &address.any,
              make_address(&address, "127.0.0.1", port_of(server))) == 1);
  NEED(recv(server, &byte, 1, 0) == 1 && byte == 'x');
  return refuse_others();
}

SUPPORTED_TEST(udp_sockets_are_made_if_they_are_let_through) {
  run(&udp_rules, talk_udp);
}

static int stay_bound(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), second = 2;
  NEED(fd >= 0);
  NEED(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 4) < 0 && errno == EPERM);
  NEED(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "", 0) < 0 && errno == EPERM);
  NEED(setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &second, sizeof second) < 0 && errno == EPERM);
  NEED(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &second, sizeof second) == 0);
  return 0;
}

SUPPORTED_TEST(no_socket_can_be_bound_to_another_interface) {
  run(&tcp_rules, stay_bound);
}

static int exhaust_descriptors(void) {
  int next = dup(0);
  NEED(next >= 0);
  close(next);
  NEED(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, (rlim_t)next}) == 0);
  NEED(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EMFILE);
  return 0;
}

SUPPORTED_TEST(a_step_without_a_free_descriptor_gets_the_error) {
  run(&tcp_rules, exhaust_descriptors);
}

/* --- the life of requests --------------------------------------------------------------------- */

static int make_one(void) {
  NEED(socket(AF_INET, SOCK_STREAM, 0) >= 0);
  return 0;
}

SUPPORTED_TEST(a_step_that_is_killed_while_it_waits_ends_the_listener) {
  struct step step = start(&tcp_rules, make_one);
  wait_for_request(&step);
  kill(step.pid, SIGKILL);
  assert_int_equal(waitpid(step.pid, NULL, 0), step.pid);
  assert_false(loopback_answer(step.listener, false));
  close(step.listener);
}

static int make_one_after_another(void) {
  int status;
  pid_t child = fork();
  if (child == 0)
    _exit(make_one());
  NEED(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  return make_one();
}

SUPPORTED_TEST(a_process_that_is_killed_while_it_waits_is_no_error) {
  struct step step = start(&tcp_rules, make_one_after_another);
  wait_for_request(&step);
  kill(proc_child_of(step.pid, 0), SIGKILL);
  serve(&step, false);
}

SUPPORTED_TEST(without_a_request_the_answer_does_not_wait) {
  struct step step = start(&tcp_rules, make_one);
  wait_for_request(&step);
  kill(step.pid, SIGSTOP); /* which takes the request back */
  while (proc_state(step.pid) != 'T')
    sched_yield();
  assert_true(loopback_answer(step.listener, false));
  kill(step.pid, SIGCONT);
  serve(&step, false);
}

enum { MANY = LOOPBACK_ANSWERS_MAX + 4 };

static pid_t *askers; /* in shared memory */

static int make_many(void) {
  int status, failed = 0;
  for (int i = 0; i < MANY; i++) {
    pid_t child = fork();
    if (child == 0)
      _exit(make_one());
    askers[i] = child;
  }
  while (wait(&status) > 0)
    failed |= status;
  return failed != 0;
}

static bool as_many_wait(void *count) {
  int waiting = 0;
  for (int i = 0; i < MANY; i++)
    waiting += askers[i] > 0 && proc_sleeps_in(askers[i], SYS_socket);
  return waiting == *(const int *)count;
}

SUPPORTED_TEST(one_call_answers_a_bounded_number_of_requests) {
  askers =
      mmap(NULL, MANY * sizeof *askers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(askers, MAP_FAILED);
  struct step step = start(&tcp_rules, make_many);
  assert_true(wait_until(as_many_wait, &(int){MANY}, WAIT_BOUND_MS));
  assert_true(loopback_answer(step.listener, false));
  assert_true(wait_until(as_many_wait, &(int){MANY - LOOPBACK_ANSWERS_MAX}, WAIT_BOUND_MS));
  serve(&step, false);
  munmap(askers, MANY * sizeof *askers);
}

static int without_supervisor(void) {
  NEED(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == ENOSYS);
  return 0;
}

SUPPORTED_TEST(without_a_supervisor_no_socket_is_made) {
  int status;
  struct step step = start(&tcp_rules, without_supervisor);
  close(step.listener);
  assert_int_equal(waitpid(step.pid, &status, 0), step.pid);
  assert_int_equal(status, 0);
}

/* --- another network -------------------------------------------------------------------------- */

static int bound_socket(const char *host) {
  union address address;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(fd, &address.any, make_address(&address, host, 0)) == 0)
    return fd;
  close(fd);
  return -1;
}

/* A network namespace in which every packet to 10.9.9.0/24, except to the first address, comes out
   of a descriptor. Returns -1 if this process cannot have it. */
static int open_network(void) {
  struct ifreq interface = {.ifr_name = "other0", .ifr_flags = IFF_TUN | IFF_NO_PI};
  struct sockaddr_in *address = (struct sockaddr_in *)&interface.ifr_addr;
  if (unshare(CLONE_NEWNET) != 0)
    return -1;
  int tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (tun < 0 || ioctl(tun, TUNSETIFF, &interface) != 0)
    return -1;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  bool works = ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(0x0a090901)}};
  works = works && ioctl(fd, SIOCSIFADDR, &interface) == 0;
  address->sin_addr.s_addr = htonl(0xffffff00);
  works = works && ioctl(fd, SIOCSIFNETMASK, &interface) == 0;
  interface.ifr_flags = IFF_UP;
  works = works && ioctl(fd, SIOCSIFFLAGS, &interface) == 0;
  close(fd);
  return works ? tun : -1;
}

static bool can_open_network(void) {
  int status;
  pid_t pid = fork();
  if (pid == 0)
    _exit(open_network() >= 0 ? 0 : 1);
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

enum { PORT = 80 };

/* Sends a packet to another host if the socket can. */
static int knock(int fd, const char *host) {
  union address address;
  int flags = fcntl(fd, F_GETFL);
  NEED(fd >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
  (void)connect(fd, &address.any, make_address(&address, host, htons(PORT)));
  (void)!send(fd, "x", 1, MSG_NOSIGNAL);
  close(fd);
  return 0;
}

static int socket_with(int level, int option, const void *value, socklen_t length) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd >= 0) /* may fail */
    (void)setsockopt(fd, level, option, value, length);
  return fd;
}

static int disconnected_socket(void) {
  union address address;
  int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
  if (listen(listener, 1) != 0 ||
      connect(fd, &address.any, make_address(&address, "127.0.0.1", port_of(listener))) != 0)
    return -1;
  address.any.sa_family = AF_UNSPEC;
  return connect(fd, &address.any, sizeof address.any) == 0 ? fd : -1;
}

static int break_out(void) {
  const int one = 1, interface = (int)if_nametoindex("other0");
  const unsigned network_interface = htonl((unsigned)interface);
  /* By way of this host: no operation, loose source route, length, pointer, the next host. */
  static const unsigned char route[] = {1, 131, 7, 4, 10, 9, 9, 2};
  return knock(socket(AF_INET, SOCK_STREAM, 0), "10.9.9.2") ||
         knock(bound_socket("10.9.9.1"), "10.9.9.2") || knock(disconnected_socket(), "10.9.9.2") ||
         knock(socket_with(SOL_SOCKET, SO_BINDTODEVICE, "other0", 6), "10.9.9.2") ||
         knock(socket_with(SOL_SOCKET, SO_DONTROUTE, &one, 4), "10.9.9.2") ||
         knock(socket_with(IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, 4), "10.9.9.2") ||
         knock(socket_with(IPPROTO_IP, IP_UNICAST_IF, &network_interface, 4), "10.9.9.2") ||
         knock(socket_with(IPPROTO_IP, IP_OPTIONS, route, sizeof route), "127.0.0.1") ||
         knock(socket_with(IPPROTO_IP, IP_OPTIONS, route, sizeof route), "10.9.9.1");
}

/* Whether a packet is sent to 10.9.9.<host>. */
static bool is_for(const unsigned char *packet, ssize_t length, unsigned char host) {
  static const unsigned char network[] = {10, 9, 9};
  return length >= 20 && packet[0] >> 4 == 4 && packet[19] == host &&
         memcmp(packet + 16, network, sizeof network) == 0;
}

/* Reads packets until one for the other host, whose last byte is `until`. Returns the number of
   those for the host 2. */
static int count_packets(int tun, unsigned char until) {
  unsigned char packet[2048];
  for (int count = 0;;) {
    struct pollfd waiting = {.fd = tun, .events = POLLIN};
    assert_int_equal(poll(&waiting, 1, WAIT_BOUND_MS), 1);
    ssize_t length = read(tun, packet, sizeof packet);
    if (is_for(packet, length, until))
      return count;
    count += is_for(packet, length, 2);
  }
}

static void write_setting(const char *path, const char *value) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  assert_true(fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value));
  close(fd);
}

/* Runs in a child, which has the network namespace. */
static void look_outside(void) {
  int tun = open_network();
  assert_true(tun >= 0);
  /* As in the containers of many hosts. */
  write_setting("/proc/sys/net/ipv4/ip_forward", "1");
  write_setting("/proc/sys/net/ipv4/conf/all/accept_source_route", "1");
  write_setting("/proc/sys/net/ipv4/conf/lo/accept_source_route", "1");
  run(&tcp_rules, break_out);
  assert_int_equal(knock(socket(AF_INET, SOCK_STREAM, 0), "10.9.9.3"), 0); /* of this process */
  assert_int_equal(count_packets(tun, 3), 0);
  close(tun);
}

static int server_to_test[2]; /* a socket pair */

/* Serves all addresses. */
static int serve_all(void) {
  union address address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  NEED(fd >= 0);
  NEED(bind(fd, &address.any, make_address(&address, "0.0.0.0", htons(PORT))) == 0);
  NEED(listen(fd, 1) == 0);
  return 0;
}

/* Until the test closes the other end. */
static int serve_for_a_while(void) {
  char byte = 'x';
  close(server_to_test[0]);
  return serve_all() || write(server_to_test[1], &byte, 1) != 1 ||
         read(server_to_test[1], &byte, 1) != 0;
}

/* Lets host 2 send a SYN to this host. Returns the flags of the answer. The kernel itself writes
   the packet, to host 2: the exchange of both addresses does not change the checksums. */
static int call_from_outside(int tun) {
  unsigned char packet[2048], exchanged[4];
  unsigned char *from = packet + 12, *to = packet + 16, *tcp = packet + 20;
  assert_int_equal(knock(socket(AF_INET, SOCK_STREAM, 0), "10.9.9.2"), 0);
  for (bool is_sent = false;;) {
    struct pollfd waiting = {.fd = tun, .events = POLLIN};
    assert_int_equal(poll(&waiting, 1, WAIT_BOUND_MS), 1);
    ssize_t length = read(tun, packet, sizeof packet);
    if (!is_for(packet, length, 2))
      continue;
    if ((tcp[0] << 8 | tcp[1]) == PORT)
      return tcp[13];
    if (is_sent)
      continue;
    memcpy(exchanged, from, sizeof exchanged);
    memcpy(from, to, sizeof exchanged);
    memcpy(to, exchanged, sizeof exchanged);
    assert_int_equal(write(tun, packet, (size_t)length), length);
    is_sent = true;
  }
}

/* Runs in a child, which has the network namespace. */
static void call_in(void) {
  char byte;
  int tun = open_network();
  assert_true(tun >= 0);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, server_to_test), 0);
  struct step step = start(&tcp_rules, serve_for_a_while);
  close(server_to_test[1]);
  struct pollfd waiting[] = {{.fd = step.listener, .events = POLLIN},
                             {.fd = server_to_test[0], .events = POLLIN}};
  do {
    assert_true(poll(waiting, 2, WAIT_BOUND_MS) > 0);
    assert_true(loopback_answer(step.listener, false));
  } while (waiting[1].revents == 0);
  assert_int_equal(read(server_to_test[0], &byte, 1), 1);
  assert_int_equal(call_from_outside(tun) & (TH_SYN | TH_RST), TH_RST);
  close(server_to_test[0]);
  serve(&step, false);
  assert_int_equal(serve_all(), 0); /* of this process */
  assert_int_equal(call_from_outside(tun) & (TH_SYN | TH_RST), TH_SYN);
  close(tun);
}

static void in_a_child(void (*body)(void)) {
  int status;
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    body();
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

TEST_IF(loopback_lacks() == NULL && can_open_network(), nothing_reaches_another_network) {
  in_a_child(look_outside);
}

TEST_IF(loopback_lacks() == NULL && can_open_network(), another_network_reaches_no_server) {
  in_a_child(call_in);
}

/* --- support ---------------------------------------------------------------------------------- */

static void pretend_to_be_old(void) {
  assert_true(personality(0x0020000) >= 0); /* UNAME26: Linux 2.6 */
  assert_non_null(loopback_lacks());
}

static void filter_call(long number, uint32_t action, unsigned flags) {
  struct sock_filter all[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof all / sizeof *all, all};
  assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  assert_true(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) >= 0);
}

static void reject_seccomp(void) {
  filter_call(SYS_seccomp, SECCOMP_RET_ERRNO | EINVAL, 0);
  assert_non_null(loopback_lacks());
}

TEST(an_old_kernel_or_an_emulator_is_not_supported) {
  in_a_child(pretend_to_be_old);
  in_a_child(reject_seccomp);
}

static void reject_close_range(void) {
  filter_call(SYS_close_range, SECCOMP_RET_ERRNO | EPERM, 0);
  assert_non_null(strstr(loopback_lacks(), "close_range"));
}

static void have_a_listener(void) {
  filter_call(SYS_acct, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
  assert_non_null(strstr(loopback_lacks(), "EBUSY"));
}

SUPPORTED_TEST(what_the_container_lacks_is_named) {
  in_a_child(reject_close_range);
  in_a_child(have_a_listener);
}
