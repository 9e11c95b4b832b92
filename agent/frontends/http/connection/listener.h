#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "agent/frontends/http/connection/address.h"
#include "base/error.h"

/*
 * The listening sockets of an address. A frontend makes them in two steps: it binds before the
 * agent starts any other process, so that no step can take the port, and listens once it can serve
 * connections, so that a refused connection means "not yet".
 *
 *   http_listener_bind(&listener, &address, &error)
 *   http_listener_listen(&listener, &error)
 *   accept4(listener.fds[i], …)          which the caller does when one of them is readable
 *   http_listener_close(&listener)
 *
 * The hard part is the socket file: no other user may connect to it at any moment, and the socket
 * of another agent must never be taken away.
 */
struct http_listener {
  const struct http_address *address; /* borrowed */
  int fds[HTTP_SOCKETS_MAX];          /* do not block, and are close-on-exec */
  size_t count;                       /* 0: it is closed, which all zeros are, too */
  dev_t device;                       /* of the socket file; only with one */
  ino_t inode;
};

/* Binds the sockets, and makes the socket file with the mode 0600. Returns 0; or -1 with
   "cannot listen on …: …", and nothing is owned then. */
int http_listener_bind(struct http_listener *self, const struct http_address *address,
                       struct error *error);

/* From now on the kernel accepts connections. Returns 0; or -1 with an error, because another
   process may listen on a port that two have bound. The caller closes the listener in both cases.
 */
int http_listener_listen(const struct http_listener *self, struct error *error);

/* Closes the sockets, and removes the socket file if it is still this one. */
void http_listener_close(struct http_listener *self);
