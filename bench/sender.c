#include "bench/sender.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/latency.h"
#include "tests/test.h"

struct sender {
  const struct xadds *xadds;
  size_t depth;
  int fd;
  size_t sent;     /* bytes */
  size_t answered; /* commands */
};

static int open_connection(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) != 0)
    fail_msg("connect: %s", strerror(errno));
  return fd;
}

/* All that the depth allows, or that the socket takes; whether the latter was less. */
static bool send_more(struct sender *self) {
  size_t last = self->answered + self->depth;
  if (last > self->xadds->count)
    last = self->xadds->count;
  size_t end = self->xadds->ends[last - 1];
  while (self->sent < end) {
    ssize_t n = send(self->fd, self->xadds->bytes + self->sent, end - self->sent, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
      return true;
    if (n < 0)
      fail_msg("send: %s", strerror(errno));
    self->sent += (size_t)n;
  }
  return false;
}

/* An answer is "$<length>\r\n<ms>-<seq>\r\n": one '$', and no letter, which an error has. */
static void count_answers(struct sender *self, const char *bytes, size_t length) {
  size_t letters = 0;
  for (size_t i = 0; i < length; i++) {
    self->answered += bytes[i] == '$';
    letters += bytes[i] >= 'A';
  }
  if (letters > 0)
    fail_msg("redis refuses: %.*s", (int)length, bytes);
}

double sender_run(int port, const struct xadds *xadds, size_t depth) {
  struct sender self = {.xadds = xadds, .depth = depth, .fd = open_connection(port)};
  static char answers[64 * 1024];
  double begin_ms = latency_now_ms();
  while (self.answered < xadds->count) {
    bool blocked = send_more(&self);
    struct pollfd ready = {.fd = self.fd, .events = (short)(POLLIN | (blocked ? POLLOUT : 0))};
    if (poll(&ready, 1, 20000) <= 0)
      fail_msg("redis does not answer");
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) == 0)
      continue;
    ssize_t n = recv(self.fd, answers, sizeof answers, 0);
    if (n <= 0)
      fail_msg("redis has closed the connection");
    count_answers(&self, answers, (size_t)n);
  }
  double seconds = (latency_now_ms() - begin_ms) / 1e3;
  close(self.fd);
  return seconds;
}
