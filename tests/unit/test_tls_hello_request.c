/* TLS with openssl(1), which renegotiates, as redis-server does not. */

#include "agent/frontends/redis/connection/tls.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "agent/frontends/redis/connection/transport.h"
#include "tests/support/certificates.h"
#include "tests/support/redis_server.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define BOUND_MS 20000

/* More than a buffer of a socket that was told to be small. */
#define SMALL_BYTES 32768
#define RECORD_BYTES 16384

struct scene {
  struct certificates *certificates;
  pid_t server;
  int commands; /* its standard input */
  int output;   /* its standard output: what it receives, among words of its own */
  int port;
  struct tls *tls;
  struct transport *transport;
};

static void exec_server(const struct scene *self, const int commands[2], const int output[2]) {
  char port[32];
  (void)snprintf(port, sizeof port, "127.0.0.1:%d", self->port);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(commands[0], STDIN_FILENO);
  dup2(output[1], STDOUT_FILENO);
  dup2(output[1], STDERR_FILENO);
  execlp("openssl", "openssl", "s_server", "-tls1_2", "-accept", port, "-cert",
         certificates_path(self->certificates, "server.pem"), "-key",
         certificates_path(self->certificates, "server.key"), (char *)NULL);
  _exit(127);
}

static void start_server(struct scene *self) {
  int commands[2], output[2];
  assert_int_equal(pipe2(commands, O_CLOEXEC), 0);
  assert_int_equal(pipe2(output, O_CLOEXEC), 0);
  self->port = redis_server_free_port();
  self->server = fork();
  assert_true(self->server >= 0);
  if (self->server == 0)
    exec_server(self, commands, output);
  close(commands[0]);
  close(output[1]);
  self->commands = commands[1];
  self->output = output[0];
}

static bool is_connected(void *context) {
  const struct scene *self = context;
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)self->port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  return connect(self->transport->fd, (struct sockaddr *)&address, sizeof address) == 0;
}

static void wait_for_socket(const struct scene *self, short events) {
  assert_int_equal(poll(&(struct pollfd){self->transport->fd, events, 0}, 1, BOUND_MS), 1);
}

static int set_up(void **state) {
  struct scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->certificates = certificates_new();
  certificates_add_authority(self->certificates, "ca");
  certificates_add(self->certificates, &(struct certificate){.name = "server"});
  start_server(self);
  struct error error;
  char authority[256];
  (void)snprintf(authority, sizeof authority, "%s",
                 certificates_path(self->certificates, "ca.pem"));
  self->tls = tls_new(&(struct tls_options){.ca_file = authority}, &error);
  assert_non_null(self->tls);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int small = SMALL_BYTES;
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  self->transport = tls_transport_new(self->tls, fd, "127.0.0.1");
  assert_true(wait_until(is_connected, self, BOUND_MS));
  assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct scene *self = *state;
  self->transport->type->free(self->transport);
  tls_free(self->tls);
  kill(self->server, SIGKILL);
  waitpid(self->server, NULL, 0);
  close(self->commands);
  close(self->output);
  certificates_free(self->certificates);
  free(self);
  return 0;
}

static void shake_hands(const struct scene *self) {
  int result;
  while ((result = self->transport->type->handshake(self->transport)) == TRANSPORT_WAITS)
    wait_for_socket(self, POLLIN);
  assert_int_equal(result, 0);
}

/* Writes until a record is held, as the server does not read: nobody takes its output. */
static size_t fill(const struct scene *self) {
  static char bytes[RECORD_BYTES];
  memset(bytes, '#', sizeof bytes);
  size_t total = 0;
  while (!self->transport->wants_to_write ||
         poll(&(struct pollfd){self->transport->fd, POLLOUT, 0}, 1, 200) > 0) {
    ssize_t written =
        self->transport->type->write(self->transport, &(struct iovec){bytes, sizeof bytes}, 1);
    assert_true(written >= 0);
    total += (size_t)written;
  }
  return total;
}

struct received {
  size_t ours, others;
};

/* Reads its output until that is so, or with NULL up to a '~'. */
static void drain(const struct scene *self, bool (*done)(const struct scene *self),
                  struct received *received) {
  char bytes[4096];
  while (done == NULL || !done(self)) {
    struct pollfd polled = {self->output, POLLIN, 0};
    if (poll(&polled, 1, done == NULL ? BOUND_MS : 10) == 0)
      continue;
    ssize_t length = read(self->output, bytes, sizeof bytes);
    assert_true(length > 0);
    for (ssize_t i = 0; i < length; i++) {
      if (done == NULL && bytes[i] == '~')
        return;
      if (bytes[i] == '#')
        received->ours++;
      else
        received->others++;
    }
  }
}

static bool has_answer_and_capacity(const struct scene *self) {
  int unread = -1;
  assert_int_equal(ioctl(self->transport->fd, SIOCOUTQ, &unread), 0);
  return unread == 0 && poll(&(struct pollfd){self->transport->fd, POLLIN, 0}, 1, 0) == 1;
}

TEST_WITH(struct scene *scene, what_the_library_sends_by_itself_is_not_sent_again, set_up,
          tear_down) {
  struct transport *transport = scene->transport;
  struct received received = {0};
  char bytes[64];
  shake_hands(scene);
  size_t sent = fill(scene);
  assert_int_equal(write(scene->commands, "R\n", 2), 2);
  drain(scene, has_answer_and_capacity, &received);
  assert_int_equal(transport->type->read(transport, bytes, sizeof bytes), TRANSPORT_WAITS);
  ssize_t written;
  while ((written = transport->type->write(transport, &(struct iovec){"~", 1}, 1)) == 0)
    wait_for_socket(scene, POLLOUT);
  assert_int_equal(written, 1);
  drain(scene, NULL, &received);
  assert_int_equal(received.ours, sent);
  assert_in_range(received.others, 0, RECORD_BYTES / 2);
}
