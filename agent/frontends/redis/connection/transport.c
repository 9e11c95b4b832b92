#include "agent/frontends/redis/connection/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"

struct plain {
  struct transport transport; /* first */
  bool has_read;
};

static ssize_t waits_or_fails(struct transport *self) {
  if (errno == EAGAIN || errno == EINTR)
    return TRANSPORT_WAITS;
  if (self->error == NULL) {
    self->code = errno;
    self->error = strerror(errno);
  }
  return TRANSPORT_FAILED;
}

/* A TLS server answers a plain client with an alert, or closes the connection. */
static ssize_t check_first(struct plain *self, const unsigned char *bytes, ssize_t length) {
  bool is_alert = length >= 2 && bytes[0] == 21 && bytes[1] == 3;
  bool is_closed = length == 0 || (length < 0 && errno == ECONNRESET);
  self->has_read = length > 0;
  if (is_alert || is_closed)
    self->transport.code = is_alert ? CONNECTION_ERROR_SPEAKS_TLS : CONNECTION_ERROR_CLOSED;
  if (is_alert)
    self->transport.error = "this port speaks TLS: use rediss://, or ssl=true";
  else if (is_closed)
    self->transport.error = "closed by the server before its first answer: if this port speaks "
                            "TLS, use rediss://, or ssl=true";
  return is_alert || is_closed ? TRANSPORT_FAILED : length;
}

static ssize_t read_plain(struct transport *transport, void *bytes, size_t size) {
  struct plain *self = (struct plain *)transport;
  ssize_t length = recv(transport->fd, bytes, size, 0);
  if (!self->has_read)
    length = check_first(self, bytes, length);
  return length == -1 ? waits_or_fails(transport) : length;
}

static ssize_t write_plain(struct transport *self, const struct iovec *pieces, int count) {
  ssize_t written = count > 0 ? writev(self->fd, pieces, count) : 0;
  if (written < 0)
    written = waits_or_fails(self);
  return written == TRANSPORT_WAITS ? 0 : written;
}

static void free_plain(struct transport *self) {
  close(self->fd);
  free(self);
}

static const struct transport_type plain_type = {
    .is_plain = true, .read = read_plain, .write = write_plain, .free = free_plain};

struct transport *plain_transport_new(int fd) {
  struct plain *self = memory_allocate(sizeof *self);
  *self = (struct plain){.transport = {.type = &plain_type, .fd = fd}};
  return &self->transport;
}
