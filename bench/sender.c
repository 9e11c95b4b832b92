#include "bench/sender.h"

#include <poll.h>

#include "bench/latency.h"
#include "tests/test.h"

struct sender {
  const struct xadds *xadds;
  size_t depth;
  struct transport *transport;
  size_t sent;     /* bytes */
  size_t answered; /* commands */
};

/* Sends as much as the depth allows and the socket accepts. Returns whether the socket is full. */
static bool send_more(struct sender *self) {
  const struct transport_type *type = self->transport->type;
  size_t last = self->answered + self->depth;
  if (last > self->xadds->count)
    last = self->xadds->count;
  size_t end = self->xadds->ends[last - 1];
  while (self->sent < end || self->transport->wants_to_write) {
    struct iovec piece = {self->xadds->bytes + self->sent, end - self->sent};
    ssize_t n = type->write(self->transport, &piece, 1);
    if (n < 0)
      fail_msg("send: %s", self->transport->error);
    self->sent += (size_t)n;
    if (self->transport->wants_to_write || (n == 0 && self->sent < end))
      return true;
  }
  return false;
}

/* A reply is "$<length>\r\n<ms>-<seq>\r\n": it has one '$' and no letters; an error has letters. */
static void count_answers(struct sender *self, const char *bytes, size_t length) {
  size_t letters = 0;
  for (size_t i = 0; i < length; i++) {
    self->answered += bytes[i] == '$';
    letters += bytes[i] >= 'A';
  }
  if (letters > 0)
    fail_msg("redis rejects: %.*s", (int)length, bytes);
}

/* Reads what the socket has. With a plain transport, poll() reports what is left. */
static void read_answers(struct sender *self) {
  static char answers[64 * 1024];
  const struct transport_type *type = self->transport->type;
  ssize_t n;
  do {
    n = type->read(self->transport, answers, sizeof answers);
    if (n == TRANSPORT_FAILED)
      fail_msg("receive: %s", self->transport->error);
    if (n == 0)
      fail_msg("redis has closed the connection");
    if (n > 0)
      count_answers(self, answers, (size_t)n);
  } while (n > 0 && !type->is_plain);
}

double sender_run(const struct endpoint *endpoint, const struct xadds *xadds, size_t depth) {
  struct sender self = {.xadds = xadds, .depth = depth, .transport = endpoint_connect(endpoint)};
  double begin_ms = latency_now_ms();
  while (self.answered < xadds->count) {
    short events = (short)(POLLIN | (send_more(&self) ? POLLOUT : 0));
    struct pollfd ready = {.fd = self.transport->fd, .events = events};
    if (poll(&ready, 1, 20000) <= 0)
      fail_msg("redis does not answer");
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0)
      read_answers(&self);
  }
  double seconds = (latency_now_ms() - begin_ms) / 1e3;
  self.transport->type->free(self.transport);
  return seconds;
}
