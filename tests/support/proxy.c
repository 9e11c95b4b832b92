#include "tests/support/proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/test.h"

/*
 * A relay is one connection through the proxy: the agent's socket, the server's socket, and the
 * bytes between them. Its role is known when the agent names the connection (CLIENT SETNAME), or
 * when it begins a TLS handshake, which hides the name; until then no byte is forwarded. A relay
 * never blocks.
 */

/* On a delayed connection: bytes up to this one, counted from the first, are forwarded at due_ms.
 */
struct relay_mark {
  long end;
  int64_t due_ms;
};

#define RELAY_MARKS 256

struct relay_flow {
  char bytes[262144];
  size_t length;
  struct relay_mark marks[RELAY_MARKS];
  size_t marks_count;
  long taken;
  long passed;
  bool ended; /* the sender has closed its side */
};

struct relay {
  int fd[RELAY_DIRECTIONS]; /* the source of each direction: the agent's socket, the server's */
  struct relay_flow flow[RELAY_DIRECTIONS];
  enum relay_role role;
  enum relay_role role_of_tls; /* its presumed role if it is TLS */
  long number;                 /* among the connections of its role, from 0 */
  bool counted;                /* whether its fault is counted as a cut */
  struct relay_fault fault;
  int delay_ms; /* for each direction */
  bool deaf;    /* bytes of both sides are discarded, and an end is not forwarded */
  bool frozen;  /* nothing is forwarded and nothing is lost */
  bool cut;     /* the fault has happened; the server still gets what was forwarded */
  long swallowed;
  int64_t swallowed_ms; /* when the last byte was */
  int64_t linger_ms;    /* the time until which a cut connection waits for the server to read */
};

#define RELAYS_MAX 32

/* Shared by both processes. */
struct shared {
  atomic_int delay_ms;
  atomic_int deafened[RELAY_ROLES]; /* the number of first connections of a role that are deaf */
  atomic_int frozen[RELAY_ROLES];   /* the same */
  atomic_long connections[RELAY_ROLES];
  atomic_int port[RELAY_ROLES]; /* of the last connection, as the server sees it */
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
};

/* A server that sends nothing for this time has sent all its replies. */
#define SILENCE_MS 20

/* How often a frozen connection checks whether it is still frozen. */
#define FROZEN_MS 10

/* How long a cut connection waits for the server to read what was forwarded. */
#define LINGER_MS 2000

/* The first byte of a handshake of TLS (RFC 8446, 5.1); a command begins with '*'. */
#define TLS_HANDSHAKE 22

static void close_side(struct relay *self, enum relay_direction side) {
  if (self->fd[side] >= 0)
    close(self->fd[side]);
  self->fd[side] = -1;
}

static void relay_release(struct relay *self) {
  close_side(self, RELAY_REQUEST);
  close_side(self, RELAY_REPLY);
}

static enum relay_direction other(enum relay_direction direction) {
  return direction == RELAY_REQUEST ? RELAY_REPLY : RELAY_REQUEST;
}

/* Closes the agent's side at once. The server's side closes after the bytes that were forwarded,
   and only when the server had time to read them. */
static void cut(struct relay *self) {
  self->cut = true;
  close_side(self, RELAY_REQUEST);
  self->flow[RELAY_REQUEST].length = 0;
  self->flow[RELAY_REPLY].length = 0;
  shutdown(self->fd[RELAY_REPLY], SHUT_WR);
  self->linger_ms = wait_now_ms() + LINGER_MS;
}

/* CLIENT SETNAME sandbox:<job>:in, :out or :heartbeat. Only the first one counts, because later
   texts are keys. */
static void recognise_by_name(struct relay *self) {
  static const char command[] = "SETNAME\r\n";
  const struct relay_flow *flow = &self->flow[RELAY_REQUEST];
  const char *at = memmem(flow->bytes, flow->length, command, sizeof command - 1);
  if (at == NULL)
    return;
  static const char *const ends[RELAY_ROLES] = {[RELAY_INTAKE] = ":in\r\n",
                                                [RELAY_OUTBOX] = ":out\r\n",
                                                [RELAY_HEARTBEAT] = ":heartbeat\r\n"};
  size_t left = flow->length - (size_t)(at - flow->bytes);
  const char *first = NULL;
  for (int i = 0; i < RELAY_ROLES; i++) {
    const char *end = memmem(at, left, ends[i], strlen(ends[i]));
    if (end == NULL || (first != NULL && first < end))
      continue;
    first = end;
    self->role = (enum relay_role)i;
  }
}

static int port_of(int fd) {
  struct sockaddr_in address = {0};
  socklen_t length = sizeof address;
  (void)getsockname(fd, (struct sockaddr *)&address, &length);
  return ntohs(address.sin_port);
}

static void recognise(struct proxy *proxy, struct relay *self) {
  const struct relay_flow *flow = &self->flow[RELAY_REQUEST];
  if (flow->length > 0 && flow->bytes[0] == TLS_HANDSHAKE)
    self->role = self->role_of_tls;
  else
    recognise_by_name(self);
  if (self->role == RELAY_UNKNOWN)
    return;
  atomic_store(&proxy->shared->port[self->role], port_of(self->fd[RELAY_REPLY]));
  self->number = atomic_fetch_add(&proxy->shared->connections[self->role], 1);
  if (self->number < PROXY_FAULTS)
    self->fault = proxy->plan.faults[self->role][self->number];
}

/* The number of bytes that may be forwarded now. */
static size_t count_ready(const struct relay *self, enum relay_direction direction) {
  const struct relay_flow *flow = &self->flow[direction];
  if (self->role == RELAY_UNKNOWN)
    return 0;
  if (flow->marks_count == 0)
    return flow->length;
  long end = 0;
  int64_t now = wait_now_ms();
  for (size_t i = 0; i < flow->marks_count && flow->marks[i].due_ms <= now; i++)
    end = flow->marks[i].end;
  long first = flow->taken - (long)flow->length;
  return end > first ? (size_t)(end - first) : 0;
}

static void drop_old_marks(struct relay_flow *flow) {
  size_t old = 0;
  while (old < flow->marks_count && flow->marks[old].end <= flow->taken - (long)flow->length)
    old++;
  flow->marks_count -= old;
  memmove(flow->marks, flow->marks + old, flow->marks_count * sizeof *flow->marks);
}

static bool has_capacity(const struct relay *self, enum relay_direction direction) {
  const struct relay_flow *flow = &self->flow[direction];
  return self->fd[direction] >= 0 && !flow->ended && flow->length < sizeof flow->bytes &&
         flow->marks_count < RELAY_MARKS;
}

static void take_in(struct relay *self, enum relay_direction direction) {
  struct relay_flow *flow = &self->flow[direction];
  if (!has_capacity(self, direction))
    return;
  ssize_t got = recv(self->fd[direction], flow->bytes + flow->length,
                     sizeof flow->bytes - flow->length, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (got <= 0)
    flow->ended = true;
  if (got <= 0 || self->deaf || self->cut)
    return;
  flow->length += (size_t)got;
  flow->taken += got;
  if (self->delay_ms > 0)
    flow->marks[flow->marks_count++] =
        (struct relay_mark){flow->taken, wait_now_ms() + self->delay_ms};
}

/* The number of bytes before the fault. */
static size_t allowance(const struct relay *self, enum relay_direction direction, size_t ready) {
  long left = self->fault.byte - self->flow[direction].passed;
  bool ends = self->fault.byte > 0 && self->fault.direction == direction && left < (long)ready;
  return ends ? (size_t)left : ready;
}

static void pass_on(struct relay *self, enum relay_direction direction) {
  struct relay_flow *flow = &self->flow[direction];
  size_t ready = count_ready(self, direction);
  if (self->cut || ready == 0)
    return;
  size_t allowed = allowance(self, direction, ready);
  ssize_t sent = 0;
  if (allowed > 0)
    sent = send(self->fd[other(direction)], flow->bytes, allowed, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) {
    flow->ended = flow->ended || (errno != EAGAIN && errno != EINTR);
    return;
  }
  flow->passed += sent;
  flow->length -= (size_t)sent;
  memmove(flow->bytes, flow->bytes + sent, flow->length);
  drop_old_marks(flow);
  bool reached = self->fault.byte > 0 && self->fault.direction == direction &&
                 flow->passed >= self->fault.byte;
  if (reached && !self->fault.swallow) {
    cut(self);
  } else if (reached && flow->length > 0) {
    self->swallowed += (long)flow->length;
    self->swallowed_ms = wait_now_ms();
    flow->length = 0;
  }
}

/* An end is forwarded after all bytes, except on a deaf connection. */
static void end(struct relay *self) {
  int64_t now = wait_now_ms();
  if (self->cut) {
    if (self->flow[RELAY_REPLY].ended || now >= self->linger_ms)
      close_side(self, RELAY_REPLY);
    return;
  }
  if (self->swallowed > 0 && now - self->swallowed_ms >= SILENCE_MS) {
    cut(self);
    return;
  }
  for (enum relay_direction i = RELAY_REQUEST; i <= RELAY_REPLY && !self->deaf; i++) {
    bool unnamed = self->role == RELAY_UNKNOWN;
    if (self->flow[i].ended && (self->flow[i].length == 0 || unnamed)) {
      relay_release(self);
      return;
    }
  }
}

/* Forwards what can be forwarded. */
static void relay_move(struct proxy *proxy, struct relay *self) {
  if (self->frozen)
    return;
  take_in(self, RELAY_REQUEST);
  take_in(self, RELAY_REPLY);
  if (self->role == RELAY_UNKNOWN)
    recognise(proxy, self);
  pass_on(self, RELAY_REQUEST);
  pass_on(self, RELAY_REPLY);
  end(self);
}

static void earlier(int64_t *when, int64_t other_time) {
  if (*when < 0 || other_time < *when)
    *when = other_time;
}

/* Sets the events for poll. Returns the time (wait_now_ms) at which to call relay_move without an
   event, or -1. */
static int64_t relay_interest(const struct relay *self, struct pollfd out[RELAY_DIRECTIONS]) {
  int64_t when = -1;
  int64_t now = wait_now_ms();
  out[RELAY_REQUEST].fd = out[RELAY_REPLY].fd = -1;
  if (self->frozen)
    return now + FROZEN_MS;
  for (enum relay_direction i = RELAY_REQUEST; i <= RELAY_REPLY; i++) {
    bool sends = !self->cut && count_ready(self, other(i)) > 0;
    out[i].fd = self->fd[i];
    out[i].events = (short)((has_capacity(self, i) ? POLLIN : 0) | (sends ? POLLOUT : 0));
    if (out[i].events == 0)
      out[i].fd = -1; /* otherwise poll would report the same end again and again */
    for (size_t mark = 0; mark < self->flow[i].marks_count; mark++)
      if (self->flow[i].marks[mark].due_ms > now)
        earlier(&when, self->flow[i].marks[mark].due_ms);
  }
  if (self->cut)
    earlier(&when, self->linger_ms);
  else if (self->swallowed > 0)
    earlier(&when, self->swallowed_ms + SILENCE_MS);
  return when;
}

/* --- the proxy -------------------------------------------------------------------------------- */

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

/* Whether the agent has not closed it; that is known before the last bytes are read. */
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
  *relay = (struct relay){
      .fd = {agent, server}, .role = RELAY_UNKNOWN, .role_of_tls = missing_role(self)};
  self->relays[place] = relay;
}

static void move_relay(struct proxy *self, size_t place) {
  struct relay *relay = self->relays[place];
  relay->delay_ms = atomic_load(&self->shared->delay_ms);
  if (relay->role != RELAY_UNKNOWN) {
    relay->deaf = relay->number < atomic_load(&self->shared->deafened[relay->role]);
    relay->frozen = relay->number < atomic_load(&self->shared->frozen[relay->role]);
  }
  relay_move(self, relay);
  if (relay->cut && !relay->counted) {
    relay->counted = true;
    atomic_fetch_add(&self->shared->cuts, 1);
  }
  if (relay->fd[RELAY_REPLY] >= 0)
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
      int64_t wanted = relay_interest(self->relays[i], polled + count);
      count += RELAY_DIRECTIONS;
      if (wanted >= 0 && (when < 0 || wanted < when))
        when = wanted;
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
