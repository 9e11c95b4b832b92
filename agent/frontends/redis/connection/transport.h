#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_TRANSPORT_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "agent/frontends/redis/connection/connection_error.h"

/*
 * How the bytes of a connection travel: as they are (plain_transport_new), or within TLS
 * (tls_transport_new). It owns a connected socket that does not block, and knows no event loop:
 * whoever has it calls it when the socket is readable, and, as long as it wants to write, when it
 * is writable.
 */

/* In place of a number of bytes. */
enum {
  TRANSPORT_WAITS = -1, /* for the socket */
  TRANSPORT_FAILED = -2 /* for good: `error` says why */
};

struct transport;

struct transport_type {
  /* All that the socket has is read at once, and no byte is held: a low-water mark of the socket is
     one of what is read. */
  bool is_plain;

  /* Goes on with the handshake, which a plain one has not. Returns 0 when it is done, or one of the
     above. */
  int (*handshake)(struct transport *self);

  /* Returns the number of bytes, 0 when the server has closed, or one of the above. TRANSPORT_WAITS
     comes after a bounded number of bytes, and then it holds none: the socket tells of more. The
     same holds for the handshake. */
  ssize_t (*read)(struct transport *self, void *bytes, size_t size);

  /* Writes what it takes now and returns the number of bytes, or TRANSPORT_FAILED. What it has
     taken may still have to be sent. With no pieces it sends only that. */
  ssize_t (*write)(struct transport *self, const struct iovec *pieces, int count);

  /* Closes the socket, too. */
  void (*free)(struct transport *self);
};

struct transport {
  const struct transport_type *type;
  int fd;
  bool wants_to_write; /* the socket has not taken all that it was given */
  const char *error;   /* once it has failed; valid as long as the transport */
  int code;            /* beside it: trouble.h */
};

/* What is told of an attempt to connect: a transport, which the owner frees, or NULL and the
   reason. */
typedef void transport_done(void *owner, struct transport *transport, struct connection_error why);

/* Takes the descriptor over. */
struct transport *plain_transport_new(int fd);

#endif
