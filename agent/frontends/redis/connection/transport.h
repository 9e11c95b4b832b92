#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "agent/frontends/redis/connection/connection_error.h"

/*
 * Moves the bytes of a connection: as they are, or over TLS (tls_transport_new). A transport owns a
 * connected socket that does not block. It knows no event loop: its owner calls it when the socket
 * is readable, and also when it is writable while the transport wants to write.
 */

/* Results that are not a number of bytes. */
enum {
  TRANSPORT_WAITS = -1, /* for the socket */
  TRANSPORT_FAILED = -2 /* for good; `error` says why */
};

struct transport;

struct transport_type {
  bool is_plain; /* it holds no bytes, and one read takes all that the socket has */

  /* Continues the handshake, which a plain transport does not have. Returns 0 when it is done, or
     one of the above. */
  int (*handshake)(struct transport *self);

  /* Returns the number of bytes, 0 if the server has closed the connection, or one of the above. It
     returns TRANSPORT_WAITS after a bounded number of bytes; the transport holds none then, so the
     socket reports any others. The same is true for the handshake. */
  ssize_t (*read)(struct transport *self, void *bytes, size_t size);

  /* Takes as many bytes as it can now and returns their number, or TRANSPORT_FAILED. Bytes that it
     has taken may still have to be sent; without pieces it only sends these. */
  ssize_t (*write)(struct transport *self, const struct iovec *pieces, int count);

  /* Also closes the socket. */
  void (*free)(struct transport *self);
};

struct transport {
  const struct transport_type *type;
  int fd;
  bool wants_to_write; /* it holds bytes that the socket has not taken */
  const char *error;   /* once it has failed; valid until it is freed */
  int code;            /* of the error: see connection_error.h */
};

/* Reports the end of an attempt to connect: a transport, which the owner frees, or NULL and the
   reason. */
typedef void transport_done(void *owner, struct transport *transport, struct connection_error why);

/* Takes ownership of the descriptor. */
struct transport *plain_transport_new(int fd);
