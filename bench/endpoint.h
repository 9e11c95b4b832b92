#pragma once

#include <limits.h>

#include "agent/frontends/redis/connection/tls.h"
#include "tests/support/certificates.h"
#include "tests/support/redis_server.h"

/*
 * Tells where agents and bare senders reach the server: its port for plain TCP, or a second one
 * for TLS, with an authority of the bench's own and a certificate for the loopback.
 *
 *   server = endpoint_start(&endpoint, is_tls)
 *   endpoint.url, endpoint.authority
 *   struct transport *transport = endpoint_connect(&endpoint)
 *   endpoint_release(&endpoint)
 */
struct endpoint {
  int port;
  char url[64];
  struct certificates *certificates; /* from here on: NULL or empty without TLS */
  char authority[PATH_MAX];          /* a file, for --cacert */
  struct tls *tls;                   /* for the bare senders */
};

/* The caller stops the server before it releases the endpoint. */
struct redis_server *endpoint_start(struct endpoint *self, bool is_tls);
void endpoint_release(struct endpoint *self);

/* Returns a connected, non-blocking transport after its handshake. The caller frees it. */
struct transport *endpoint_connect(const struct endpoint *self);
