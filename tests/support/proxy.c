#include "tests/support/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/wait.h"
#include "tests/test.h"

#define RELAYS_MAX 32

/* Shared by both processes. */
struct shared {
  atomic_int delay_ms;
  atomic_int deafened[RELAY_ROLES]; /* the first so many connections of a role are deaf */
  atomic_int frozen[RELAY_ROLES];   /* the same */
  atomic_long connections[RELAY_ROLES];
  atomic_int port[RELAY_ROLES]; /* of the last one, as the server sees it */
  atomic_long cuts;
};

struct proxy {
  struct proxy_plan plan;
  struct shared *shared;
  int port;
  int server_port;
  int listener;
  pid_t pid;
  struct relay *relays[RELAYS_MAX]; /* from here on: used by the proxy's process only */
  long number[RELAYS_MAX];          /* among the connections of its role, from 0 */
  bool counted[RELAYS_MAX];         /* its fault is counted as a cut */
};

static int listen_on_loopback(int *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, 64) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &length) != 0)
    fail_msg("the proxy has no port");
  *port = ntohs(address.sin_port);
  return fd;
}

static int connect_to_server(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    close(fd);
    fd = -1;
  }
  return fd;
}

/* An agent's connections in the order in which it makes them. */
static const enum relay_role start_order[RELAY_ROLES] = {RELAY_OUTBOX, RELAY_INTAKE,
                                                         RELAY_HEARTBEAT};

/* The agent has not closed it, which can be known before the last bytes are read. */
static bool is_alive(const struct relay *relay) {
  if (relay == NULL || relay->cut || relay->flow[RELAY_REQUEST].ended)
    return false;
  struct pollfd polled = {relay->fd[RELAY_REQUEST], POLLRDHUP, 0};
  return poll(&polled, 1, 0) == 0;
}

/* A new connection of TLS replaces the one that is missing: exact for the first of each role, and
   while no two are missing. */
static enum relay_role missing_role(const struct proxy *self) {
  int alive[RELAY_ROLES + 1] = {0};
  for (size_t i = 0; i < RELAYS_MAX; i++)
    if (is_alive(self->relays[i]))
      alive[self->relays[i]->role_of_tls]++;
  enum relay_role missing = start_order[0];
  for (size_t i = 1; i < RELAY_ROLES; i++)
    if (alive[start_order[i]] < alive[missing])
      missing = start_order[i];
  return missing;
}

static int port_of(int fd) {
  struct sockaddr_in address = {0};
  socklen_t length = sizeof address;
  (void)getsockname(fd, (struct sockaddr *)&address, &length);
  return ntohs(address.sin_port);
}

static void take_connection(struct proxy *self) {
  int on = 1;
  int agent = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC);
  if (agent < 0)
    return;
  size_t place = 0;
  while (place < RELAYS_MAX && self->relays[place] != NULL)
    place++;
  int server = place < RELAYS_MAX ? connect_to_server(self->server_port) : -1;
  struct relay *relay = server >= 0 ? malloc(sizeof *relay) : NULL;
  if (relay == NULL) {
    close(agent);
    return;
  }
  (void)setsockopt(agent, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  relay_init(relay, agent, server);
  relay->role_of_tls = missing_role(self);
  self->relays[place] = relay;
  self->counted[place] = false;
}

static void on_named(void *context, struct relay *relay) {
  struct proxy *self = context;
  size_t place = 0;
  while (self->relays[place] != relay)
    place++;
  atomic_store(&self->shared->port[relay->role], port_of(relay->fd[RELAY_REPLY]));
  long number = atomic_fetch_add(&self->shared->connections[relay->role], 1);
  self->number[place] = number;
  if (number < PROXY_FAULTS)
    relay->fault = self->plan.faults[relay->role][number];
}

static void move_relay(struct proxy *self, size_t place) {
  struct relay *relay = self->relays[place];
  relay->delay_ms = atomic_load(&self->shared->delay_ms);
  if (relay->role != RELAY_UNKNOWN) {
    relay->deaf = self->number[place] < atomic_load(&self->shared->deafened[relay->role]);
    relay->frozen = self->number[place] < atomic_load(&self->shared->frozen[relay->role]);
  }
  relay_move(relay, on_named, self);
  if (relay->cut && !self->counted[place]) {
    self->counted[place] = true;
    atomic_fetch_add(&self->shared->cuts, 1);
  }
  if (!relay_is_over(relay))
    return;
  relay_release(relay);
  free(relay);
  self->relays[place] = NULL;
}

/* The timeout of poll; -1: none. */
static int pause_until(int64_t when) {
  if (when < 0)
    return -1;
  int64_t left = when - wait_now_ms();
  return left < 0 ? 0 : (int)left;
}

static _Noreturn void serve(struct proxy *self) {
  for (;;) {
    struct pollfd polled[1 + RELAYS_MAX * RELAY_DIRECTIONS] = {{self->listener, POLLIN, 0}};
    nfds_t count = 1;
    int64_t when = -1;
    for (size_t i = 0; i < RELAYS_MAX; i++) {
      if (self->relays[i] == NULL)
        continue;
      int64_t wish = relay_interest(self->relays[i], polled + count);
      count += RELAY_DIRECTIONS;
      if (wish >= 0 && (when < 0 || wish < when))
        when = wish;
    }
    if (poll(polled, count, pause_until(when)) < 0 && errno != EINTR)
      _exit(1);
    for (size_t i = 0; i < RELAYS_MAX; i++) {
      if (self->relays[i] != NULL)
        move_relay(self, i);
    }
    if (polled[0].revents != 0)
      take_connection(self);
  }
}

struct proxy *proxy_start(int server_port, const struct proxy_plan *plan) {
  struct proxy *self = calloc(1, sizeof *self);
  assert_non_null(self);
  if (plan != NULL)
    self->plan = *plan;
  self->server_port = server_port;
  self->listener = listen_on_loopback(&self->port);
  self->shared =
      mmap(NULL, sizeof *self->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(self->shared != MAP_FAILED);
  pid_t maker = getpid();
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == maker)
      serve(self);
    _exit(1);
  }
  close(self->listener);
  return self;
}

void proxy_stop(struct proxy *self) {
  if (self == NULL)
    return;
  kill(self->pid, SIGKILL);
  waitpid(self->pid, NULL, 0);
  munmap(self->shared, sizeof *self->shared);
  free(self);
}

int proxy_port(const struct proxy *self) {
  return self->port;
}

void proxy_delay(struct proxy *self, int milliseconds) {
  atomic_store(&self->shared->delay_ms, milliseconds);
}

void proxy_deafen(struct proxy *self, enum relay_role role) {
  atomic_store(&self->shared->deafened[role], (int)atomic_load(&self->shared->connections[role]));
}

void proxy_freeze(struct proxy *self, enum relay_role role) {
  atomic_store(&self->shared->frozen[role], (int)atomic_load(&self->shared->connections[role]));
}

void proxy_thaw(struct proxy *self, enum relay_role role) {
  atomic_store(&self->shared->frozen[role], 0);
}

long proxy_connections(const struct proxy *self, enum relay_role role) {
  return atomic_load(&self->shared->connections[role]);
}

int proxy_server_side_port(const struct proxy *self, enum relay_role role) {
  return atomic_load(&self->shared->port[role]);
}

long proxy_cuts(const struct proxy *self) {
  return atomic_load(&self->shared->cuts);
}
