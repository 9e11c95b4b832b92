/* Another network namespace, which stands for another machine: no packet of a step with `network:
   loopback` or `none` arrives there, and it reaches no server of such a step. */

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include "tests/support/fence_trial.h"
#include "tests/test.h"

#define HERE "10.99.0.1"
#define THERE "10.99.0.2"
#define HERE_6 "fd99::1"
#define THERE_6 "fd99::2"
enum { PORT = 23456, SENTINEL_PORT = 9 };

static struct {
  int here, there; /* namespaces */
  int packets;     /* all that arrive there */
  int servers[2];  /* there, at PORT */
} net = {.here = -1};

static void run(const char *command) {
  if (system(command) != 0)
    fail_msg("`%s` failed", command);
}

static void enter(int namespace) {
  assert_int_equal(setns(namespace, CLONE_NEWNET), 0);
}

static socklen_t address_of(const char *host, int port, struct sockaddr_storage *out) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  bool is_4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
  assert_true(is_4 || inet_pton(AF_INET6, host, &v6.sin6_addr) == 1);
  memcpy(out, is_4 ? (const void *)&v4 : (const void *)&v6, is_4 ? sizeof v4 : sizeof v6);
  return is_4 ? sizeof v4 : sizeof v6;
}

static int serve(const char *host) {
  struct sockaddr_storage address;
  socklen_t size = address_of(host, PORT, &address);
  int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (const struct sockaddr *)&address, size), 0);
  assert_int_equal(listen(fd, 64), 0);
  return fd;
}

static int begin(void **state) {
  (void)fence_trial_begin(state);
  net.here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  assert_int_equal(unshare(CLONE_NEWNET), 0);
  net.there = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  net.packets = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL));
  assert_true(net.packets >= 0);
  enter(net.here);
  run(formatted("ip link add name fence0 type veth peer name fence1 && "
                "ip link set fence1 netns /proc/%d/fd/%d && ip address add " HERE
                "/24 dev fence0 && "
                "ip address add " HERE_6 "/64 dev fence0 nodad && ip link set fence0 up",
                (int)getpid(), net.there));
  enter(net.there);
  run("ip link set lo up && ip address add " THERE "/24 dev fence1 && "
      "ip address add " THERE_6 "/64 dev fence1 nodad && ip link set fence1 up");
  net.servers[0] = serve(THERE);
  net.servers[1] = serve(THERE_6);
  enter(net.here);
  return 0;
}

static int end(void **state) {
  (void)fence_trial_end(state);
  return 0;
}

TEST_GROUP(begin, end)

static void send_sentinel(void) {
  struct sockaddr_storage address;
  socklen_t size = address_of(THERE, SENTINEL_PORT, &address);
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_int_equal(sendto(fd, "x", 1, 0, (const struct sockaddr *)&address, size), 1);
  close(fd);
}

/* The protocol of an IP packet, without ICMPv6, which the kernels themselves send. */
static int protocol_of(const unsigned char *packet, ssize_t length) {
  int protocol = length < 40           ? length >= 20 && packet[0] >> 4 == 4 ? packet[9] : 0
                 : packet[0] >> 4 == 4 ? packet[9]
                 : packet[0] >> 4 == 6 ? packet[6]
                                       : 0;
  return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_ICMP ? protocol
                                                                                        : 0;
}

static bool is_sentinel(const unsigned char *packet, int protocol) {
  return protocol == IPPROTO_UDP && packet[0] >> 4 == 4 && packet[22] == 0 &&
         packet[23] == SENTINEL_PORT;
}

/* How many packets have arrived there since the last call. The kernel delivers packets in order, so
   all earlier ones are there when the sentinel is. */
static int count_packets(void) {
  send_sentinel();
  for (int count = 0;;) {
    unsigned char packet[2048] = {0};
    struct sockaddr_ll from = {0};
    socklen_t size = sizeof from;
    ssize_t length =
        recvfrom(net.packets, packet, sizeof packet, 0, (struct sockaddr *)&from, &size);
    assert_true(length > 0);
    int protocol = protocol_of(packet, length);
    if (is_sentinel(packet, protocol))
      return count;
    count += protocol != 0 && from.sll_pkttype != PACKET_OUTGOING;
  }
}

#define FENCE_LOOPBACK "{'network':'loopback'}"

/* With a fence, returns the number of packets that have arrived. */
static int packets_of(struct fence_trial *trial, const char *command, const char *fence,
                      enum fence_place place, struct fence_outcome *outcome) {
  (void)count_packets();
  fence_trial_run(trial, &(struct fence_step){.place = place, .command = command, .fence = fence},
                  outcome);
  return count_packets();
}

static void expect_nothing_arrives(struct fence_trial *trial, const char *command,
                                   const char *fence) {
  struct fence_outcome outcome;
  for (int place = 0; place < FENCE_PLACES; place++) {
    enum fence_place at = (enum fence_place)place;
    if (packets_of(trial, command, NULL, at, &outcome) == 0)
      fail_msg("`%s` without a policy, %s: nothing arrives: %s", command, fence_place_name(at),
               outcome.answer);
    assert_string_equal(outcome.answer, "done");
    int count = packets_of(trial, command, fence, at, &outcome);
    if (count != 0 || strcmp(outcome.answer, "done") == 0)
      fail_msg("`%s` with %s, %s: %d packets: %s", command, fence, fence_place_name(at), count,
               outcome.answer);
  }
}

static const char *const ways[] = {
    "connect connect " THERE " 23456",
    "connect sendto " THERE " 23456",
    "connect sendmsg " THERE " 23456",
    "connect option " THERE " 23456",
    "connect connect " THERE_6 " 23456",
    "connect sendto " THERE_6 " 23456",
    "connect connect ::ffff:" THERE " 23456",
    "connect scoped " THERE_6 " 23456",
    "connect scoped ::ffff:" THERE " 23456",
    "send " THERE " 23456",
    "send " THERE_6 " 23456",
};

FENCE_TEST(nothing_of_a_step_with_network_loopback_arrives_elsewhere) {
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    expect_nothing_arrives(trial, ways[i], FENCE_LOOPBACK);
}

FENCE_TEST(nothing_of_a_step_with_network_none_arrives_elsewhere) {
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    expect_nothing_arrives(trial, ways[i], "{'network':'none'}");
}

/* Returns what a server answers to a client in the namespace; "" if it cannot be reached. */
static const char *ask(int namespace, const char *host) {
  enter(namespace);
  struct sockaddr_storage address;
  socklen_t size = address_of(host, PORT, &address);
  int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  enter(net.here);
  assert_true(fd >= 0);
  char text[64] = "";
  if (connect(fd, (const struct sockaddr *)&address, size) == 0) {
    ssize_t length = recv(fd, text, sizeof text - 1, 0);
    text[length < 0 ? 0 : length] = '\0';
  } else {
    assert_int_equal(errno, ECONNREFUSED);
  }
  close(fd);
  return formatted("%s", text);
}

static bool is_ready(void *path) {
  return access(path, F_OK) == 0;
}

/* A server at all addresses, which exits after its first client. */
static struct agent_process *serve_in_step(struct fence_trial *trial, const char *host,
                                           const char *fence, enum fence_place place) {
  struct agent_process *agent = fence_trial_start(
      trial, &(struct fence_step){.place = place,
                                  .command = formatted("serve %s %d @/in/new", host, PORT),
                                  .fence = fence});
  if (!wait_until(is_ready, (void *)(uintptr_t)fence_trial_text(trial, "@/in/new"), WAIT_BOUND_MS))
    agent_process_fail(agent, "the server of the step does not listen");
  return agent;
}

static void expect_unreachable(struct fence_trial *trial, const char *host, const char *from_there,
                               const char *from_here) {
  for (int place = 0; place < FENCE_PLACES; place++) {
    struct fence_outcome outcome;
    struct agent_process *agent = serve_in_step(trial, host, NULL, (enum fence_place)place);
    assert_string_equal(ask(net.there, from_there), "PING\r\n");
    fence_trial_finish(trial, agent, &outcome);
    agent = serve_in_step(trial, host, FENCE_LOOPBACK, (enum fence_place)place);
    assert_string_equal(ask(net.there, from_there), "");
    if (*ask(net.here, from_here) == '\0')
      agent_process_fail(agent, "%s: a server at %s is not reached from %s",
                         fence_place_name((enum fence_place)place), host, from_here);
    fence_trial_finish(trial, agent, &outcome);
    assert_string_equal(outcome.answer, "done");
  }
}

FENCE_TEST(a_server_of_a_step_with_network_loopback_is_reached_only_from_the_same_machine) {
  expect_unreachable(trial, "0.0.0.0", HERE, "127.0.0.1");
}

/* Only from the step itself: the kernel takes packets of other processes to that address as those
   of its interface. */
FENCE_TEST(a_step_with_network_loopback_reaches_itself_by_the_address_of_the_machine) {
  static const char *const talks[] = {"talk 0.0.0.0 " HERE, "talk " HERE " " HERE};
  for (size_t i = 0; i < sizeof talks / sizeof *talks; i++)
    for (int place = 0; place < FENCE_PLACES; place++)
      fence_trial_expect(trial,
                         &(struct fence_step){.place = (enum fence_place)place,
                                              .command = talks[i],
                                              .fence = FENCE_LOOPBACK},
                         "done");
}

/* They could leave the interface by IP_PKTINFO. */
FENCE_TEST(udp_of_network_loopback_is_given_by_best_effort_and_reported) {
  struct fence_outcome outcome;
  struct fence_step step = {.command = "send 127.0.0.1 9",
                            .fence = "{'network':'loopback','bestEffort':true}"};
  fence_trial_run(trial, &step, &outcome);
  assert_string_equal(outcome.answer, "done");
  assert_true(fence_outcome_lists(&outcome, "missing", "udp"));
  assert_int_not_equal(packets_of(trial, "send " THERE " 23456", NULL, FENCE_PLAIN, &outcome), 0);
  assert_int_equal(packets_of(trial, "send " THERE " 23456", step.fence, FENCE_PLAIN, &outcome), 0);
}

TEST_OVERLAP(4)
