#include "tests/support/relay.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/wait.h"

/* A server that sends nothing for this time has sent all its replies. */
#define SILENCE_MS 20

/* How often a frozen connection checks whether it still is. */
#define FROZEN_MS 10

/* How long a cut connection waits for the server to read what was forwarded. */
#define LINGER_MS 2000

/* The first byte of a handshake of TLS (RFC 8446, 5.1); a command begins with '*'. */
#define TLS_HANDSHAKE 22

void relay_init(struct relay *self, int agent_fd, int server_fd) {
  *self = (struct relay){
      .fd = {agent_fd, server_fd}, .role = RELAY_UNKNOWN, .role_of_tls = RELAY_UNKNOWN};
}

static void close_side(struct relay *self, enum relay_direction side) {
  if (self->fd[side] >= 0)
    close(self->fd[side]);
  self->fd[side] = -1;
}

void relay_release(struct relay *self) {
  close_side(self, RELAY_REQUEST);
  close_side(self, RELAY_REPLY);
}

bool relay_is_over(const struct relay *self) {
  return self->fd[RELAY_REPLY] < 0;
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

/* CLIENT SETNAME sandbox:<job>:in, :out or :heartbeat, the first of them: what follows are keys. */
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

static void recognise(struct relay *self, void (*named)(void *context, struct relay *relay),
                      void *context) {
  const struct relay_flow *flow = &self->flow[RELAY_REQUEST];
  if (flow->length > 0 && flow->bytes[0] == TLS_HANDSHAKE)
    self->role = self->role_of_tls;
  else
    recognise_by_name(self);
  if (self->role != RELAY_UNKNOWN)
    named(context, self);
}

/* How many bytes may be forwarded now. */
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

static bool has_room(const struct relay *self, enum relay_direction direction) {
  const struct relay_flow *flow = &self->flow[direction];
  return self->fd[direction] >= 0 && !flow->ended && flow->length < sizeof flow->bytes &&
         flow->marks_count < RELAY_MARKS;
}

static void take_in(struct relay *self, enum relay_direction direction) {
  struct relay_flow *flow = &self->flow[direction];
  if (!has_room(self, direction))
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

/* How many of them before the fault. */
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

/* An end is forwarded after all bytes; not by a deaf connection. */
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

void relay_move(struct relay *self, void (*named)(void *context, struct relay *relay),
                void *context) {
  if (self->frozen)
    return;
  take_in(self, RELAY_REQUEST);
  take_in(self, RELAY_REPLY);
  if (self->role == RELAY_UNKNOWN)
    recognise(self, named, context);
  pass_on(self, RELAY_REQUEST);
  pass_on(self, RELAY_REPLY);
  end(self);
}

static void earlier(int64_t *when, int64_t other_time) {
  if (*when < 0 || other_time < *when)
    *when = other_time;
}

int64_t relay_interest(const struct relay *self, struct pollfd out[RELAY_DIRECTIONS]) {
  int64_t when = -1;
  int64_t now = wait_now_ms();
  out[RELAY_REQUEST].fd = out[RELAY_REPLY].fd = -1;
  if (self->frozen)
    return now + FROZEN_MS;
  for (enum relay_direction i = RELAY_REQUEST; i <= RELAY_REPLY; i++) {
    bool sends = !self->cut && count_ready(self, other(i)) > 0;
    out[i].fd = self->fd[i];
    out[i].events = (short)((has_room(self, i) ? POLLIN : 0) | (sends ? POLLOUT : 0));
    if (out[i].events == 0)
      out[i].fd = -1; /* poll would report an end that was seen again and again */
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
