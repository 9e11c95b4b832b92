#ifndef BENCH_ENDPOINT_H
#define BENCH_ENDPOINT_H

#include <limits.h>

#include "agent/frontends/redis/connection/tls.h"
#include "tests/support/certificates.h"
#include "tests/support/redis_server.h"

/*
 * Where agents and bare senders reach the server: its port of plain TCP, or a second one of TLS,
 * for which there is an authority of its own with a certificate for the loopback.
 *
 *   server = endpoint_start(&endpoint, is_tls)
 *   endpoint.url, endpoint.authority
 *   struct transport *transport = endpoint_connect(&endpoint)
 *   endpoint_release(&endpoint)
 */
struct endpoint {
  int port;
  char url[64];
  struct certificates *certificates; /* these and what follows: NULL or empty without TLS */
  char authority[PATH_MAX];          /* a file, for --cacert */
  struct tls *tls;                   /* of the bare senders */
};

/* The server is the caller's to stop, before the endpoint is released. */
struct redis_server *endpoint_start(struct endpoint *self, bool is_tls);
void endpoint_release(struct endpoint *self);

/* A connected transport after its handshake, which does not block and does not delay. Its caller
   frees it. */
struct transport *endpoint_connect(const struct endpoint *self);

#endif
