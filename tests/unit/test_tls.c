/* TLS between a transport and a real server, whose bytes are cut and delayed. */

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include "agent/frontends/redis/connection/tls.h"
#include "tests/support/certificates.h"
#include "tests/support/redis_server.h"
#include "tests/test.h"

/* How the server is dialed, and what happens to the bytes that it sends. */
struct plan {
  const char *host; /* NULL: localhost */
  size_t chunk;     /* passed on at a time; 0: as they arrive */
  size_t cut;       /* bytes after which the connection ends; 0: it does not */
};

struct scene {
  struct certificates *certificates;
  struct redis_server *server;
  int port;
  struct tls *tls;
  struct transport *transport;
  struct plan plan;
  int near, far; /* the other end of the transport's socket, and the server's; -1: closed */
  size_t sent;   /* to the transport */
};

static int set_up_version(void **state, const char *version) {
  struct scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  *state = self;
  self->near = self->far = -1;
  self->certificates = certificates_new();
  certificates_add_authority(self->certificates, "ca");
  certificates_add(self->certificates, &(struct certificate){.name = "server"});
  static const char *extra[] = {"--tls-protocols", NULL, NULL};
  extra[1] = version;
  self->server = redis_server_start_tls(self->certificates, extra);
  self->port = redis_server_tls_port(self->server);
  struct error error;
  char *ca = strdup(certificates_path(self->certificates, "ca.pem"));
  self->tls = tls_new(&(struct tls_options){.ca_file = ca}, &error);
  free(ca);
  if (self->tls == NULL)
    fail_msg("%s", error.text);
  return 0;
}

static int set_up(void **state) {
  return set_up_version(state, "TLSv1.3");
}

static int set_up_1_2(void **state) {
  return set_up_version(state, "TLSv1.2");
}

static void close_far(struct scene *self) {
  if (self->far >= 0)
    close(self->far);
  if (self->near >= 0)
    close(self->near);
  self->near = self->far = -1;
}

static void disconnect(struct scene *self) {
  if (self->transport != NULL)
    self->transport->type->free(self->transport);
  self->transport = NULL;
  close_far(self);
}

static int tear_down(void **state) {
  struct scene *self = *state;
  disconnect(self);
  tls_free(self->tls);
  redis_server_stop(self->server);
  certificates_free(self->certificates);
  free(self);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)
#define SCENE_TEST_1_2(NAME) TEST_WITH(struct scene *scene, NAME, set_up_1_2, tear_down)

static void dial(struct scene *self, const struct plan *plan) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)self->port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int ends[2], small = 4096;
  disconnect(self);
  self->plan = *plan;
  self->sent = 0;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  self->near = ends[1];
  self->far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(self->far, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(fcntl(self->far, F_SETFL, O_NONBLOCK), 0);
  assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  const char *host = plan->host != NULL ? plan->host : "localhost";
  self->transport = tls_transport_new(self->tls, ends[0], host);
}

/* Passes bytes on in one direction. Returns their number, 0 at the end, -1 if there are none. */
static ssize_t pass(int from, int to, char *bytes, size_t size) {
  struct pollfd capacity = {.fd = to, .events = POLLOUT};
  ssize_t length = poll(&capacity, 1, 0) == 1 ? recv(from, bytes, size, 0) : -1;
  for (ssize_t done = 0; done < length;) {
    ssize_t sent = send(to, bytes + done, (size_t)(length - done), MSG_NOSIGNAL);
    if (sent < 0 && poll(&capacity, 1, WAIT_BOUND_MS) != 1)
      return 0;
    done += sent > 0 ? sent : 0;
  }
  return length;
}

static void pass_reply(struct scene *self) {
  char bytes[4096];
  const struct plan *plan = &self->plan;
  struct pollfd capacity = {.fd = self->near, .events = POLLOUT};
  size_t size = plan->chunk > 0 ? plan->chunk : sizeof bytes;
  if (plan->cut > 0 && plan->cut - self->sent < size)
    size = plan->cut - self->sent;
  ssize_t length = poll(&capacity, 1, 0) == 1 ? recv(self->far, bytes, size, 0) : -1;
  if (length == 0) {
    close_far(self);
    return;
  }
  if (length > 0) {
    assert_int_equal(send(self->near, bytes, (size_t)length, MSG_NOSIGNAL), length);
    self->sent += (size_t)length;
  }
  if (plan->cut > 0 && self->sent == plan->cut)
    close_far(self);
}

/* Passes bytes on, and waits for some unless the transport has left any in its socket. */
static void move(struct scene *self) {
  char bytes[65536];
  if (self->far < 0)
    return;
  struct pollfd sides[3] = {{.fd = self->near, .events = POLLIN},
                            {.fd = self->far, .events = POLLIN},
                            {.fd = self->transport->fd, .events = POLLIN}};
  assert_true(poll(sides, 3, WAIT_BOUND_MS) > 0);
  if (sides[0].revents != 0 && pass(self->near, self->far, bytes, sizeof bytes) == 0) {
    close_far(self);
    return;
  }
  if (sides[1].revents != 0)
    pass_reply(self);
}

/* Returns 0 when the handshake is done, or TRANSPORT_FAILED. */
static int shake_hands(struct scene *self) {
  int result;
  while ((result = self->transport->type->handshake(self->transport)) == TRANSPORT_WAITS)
    move(self);
  if (result == TRANSPORT_FAILED)
    assert_true(strlen(self->transport->error) > 10);
  return result;
}

/* Writes the whole text unless the connection ends. */
static bool write_all(struct scene *self, const char *text, size_t length) {
  const struct transport_type *type = self->transport->type;
  size_t done = 0;
  while (done < length || self->transport->wants_to_write) {
    size_t part = (length - done) / 2;
    struct iovec pieces[] = {{(char *)(uintptr_t)text + done, part},
                             {(char *)(uintptr_t)text + done + part, length - done - part}};
    ssize_t written = type->write(self->transport, pieces, done < length ? 2 : 0);
    if (written < 0)
      return false;
    done += (size_t)written;
    if (self->far < 0)
      return false;
    if (self->transport->wants_to_write)
      move(self);
  }
  return true;
}

/* Reads `size` bytes. Returns how many arrived before the connection ended. */
static size_t read_all(struct scene *self, char *out, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t length = self->transport->type->read(self->transport, out + done, size - done);
    if (length == TRANSPORT_WAITS) {
      move(self);
      continue;
    }
    if (length == TRANSPORT_FAILED)
      assert_true(strlen(self->transport->error) > 10);
    if (length <= 0)
      break;
    done += (size_t)length;
  }
  return done;
}

/* Returns true if the whole conversation took place. A part of the answer must be correct. */
static bool talks(struct scene *self, const struct plan *plan) {
  static const char ping[] = "PING\r\n", pong[] = "+PONG\r\n";
  char answer[sizeof pong - 1];
  dial(self, plan);
  if (shake_hands(self) != 0 || !write_all(self, ping, sizeof ping - 1))
    return false;
  size_t length = read_all(self, answer, sizeof answer);
  assert_memory_equal(answer, pong, length);
  return length == sizeof answer;
}

static void bytes_one_by_one(struct scene *self) {
  for (size_t chunk = 1; chunk < 8; chunk++)
    assert_true(talks(self, &(struct plan){.chunk = chunk}));
}

/* Cuts at each byte of both ends, and at some between. */
static size_t next(size_t at, size_t total) {
  return at < 64 || at + 64 >= total ? at + 1 : at + 37;
}

/* A signature may be some bytes shorter than another. */
static void cut_at_any_byte(struct scene *self) {
  assert_true(talks(self, &(struct plan){0}));
  size_t total = self->sent - 8;
  for (size_t cut = 1; cut < total; cut = next(cut, total))
    assert_false(talks(self, &(struct plan){.cut = cut}));
}

SCENE_TEST(bytes_may_come_one_by_one) {
  bytes_one_by_one(scene);
}

SCENE_TEST_1_2(bytes_may_come_one_by_one_in_1_2) {
  bytes_one_by_one(scene);
}

SCENE_TEST(a_connection_that_is_cut_at_any_byte_is_lost) {
  cut_at_any_byte(scene);
}

SCENE_TEST_1_2(a_cut_at_any_byte_is_a_loss_in_1_2) {
  cut_at_any_byte(scene);
}

SCENE_TEST(a_stream_may_end_without_close_notify) {
  char byte;
  assert_true(talks(scene, &(struct plan){0}));
  redis_server_kill(scene->server);
  assert_int_equal(read_all(scene, &byte, 1), 0);
}

/* The certificate does not have the zone. */
SCENE_TEST(an_address_may_have_a_zone) {
  assert_true(talks(scene, &(struct plan){.host = "127.0.0.1%lo"}));
  assert_false(talks(scene, &(struct plan){.host = "127.0.0.2%lo"}));
  assert_string_equal(scene->transport->error,
                      "the certificate is for localhost, 127.0.0.1, not for 127.0.0.2%lo as a "
                      "subjectAltName: connect by a name that it has, or pass that with --sni");
}

SCENE_TEST(garbage_is_reported) {
  dial(scene, &(struct plan){0});
  static const char text[] = "-ERR unknown command\r\n";
  assert_int_equal(send(scene->near, text, sizeof text - 1, 0), sizeof text - 1);
  assert_int_equal(shake_hands(scene), TRANSPORT_FAILED);
  assert_string_equal(scene->transport->error,
                      "this port does not speak TLS: use redis://, or ssl=false");
}
