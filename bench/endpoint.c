#include "bench/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/support/wait.h"
#include "tests/test.h"

static void make_certificates(struct endpoint *self) {
  struct error error = {.text = ""};
  self->certificates = certificates_new();
  certificates_add_authority(self->certificates, "ca");
  certificates_add(self->certificates, &(struct certificate){.name = "server"});
  (void)snprintf(self->authority, sizeof self->authority, "%s",
                 certificates_path(self->certificates, "ca.pem"));
  self->tls = tls_new(&(struct tls_options){.ca_file = self->authority}, &error);
  if (self->tls == NULL)
    fail_msg("%s", error.text);
}

struct redis_server *endpoint_start(struct endpoint *self, bool is_tls) {
  struct redis_server *server;
  *self = (struct endpoint){0};
  if (is_tls) {
    make_certificates(self);
    server = redis_server_start_tls(self->certificates, NULL);
    self->port = redis_server_tls_port(server);
  } else {
    server = redis_server_start(NULL);
    self->port = redis_server_port(server);
  }
  (void)snprintf(self->url, sizeof self->url, "%s://127.0.0.1:%d", is_tls ? "rediss" : "redis",
                 self->port);
  return server;
}

void endpoint_release(struct endpoint *self) {
  tls_free(self->tls);
  certificates_free(self->certificates);
}

static int open_socket(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) != 0 ||
      fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
    fail_msg("connect: %s", strerror(errno));
  return fd;
}

struct transport *endpoint_connect(const struct endpoint *self) {
  int fd = open_socket(self->port), result = 0;
  struct transport *transport =
      self->tls == NULL ? plain_transport_new(fd) : tls_transport_new(self->tls, fd, "127.0.0.1");
  const struct transport_type *type = transport->type;
  while (!type->is_plain && (result = type->handshake(transport)) == TRANSPORT_WAITS) {
    short events = (short)(POLLIN | (transport->wants_to_write ? POLLOUT : 0));
    if (poll(&(struct pollfd){.fd = fd, .events = events}, 1, WAIT_BOUND_MS) <= 0)
      fail_msg("redis does not answer a handshake");
  }
  if (result != 0)
    fail_msg("handshake: %s", transport->error);
  return transport;
}
