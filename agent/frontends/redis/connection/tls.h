#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_TLS_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_TLS_H

#include <stdbool.h>

#include "agent/frontends/redis/connection/transport.h"
#include "base/error.h"

/*
 * TLS 1.2 and 1.3 towards Redis, by mbedTLS: what is trusted, and who this client is. The server's
 * chain, its dates and its name or address are checked.
 *
 *   tls = tls_new(&options, &error)                 NULL: the error says what, and which flag helps
 *   transport = tls_transport_new(tls, fd, host)    for each connection
 *   tls_free(tls)                                   after all transports
 */
struct tls_options {
  const char *ca_file;      /* authorities, in PEM; with NULL here and below, those of the system */
  const char *ca_directory; /* files of such */
  const char *certificate;  /* a file in PEM; with its key, or neither */
  const char *key;
  const char *name; /* to ask for, and to expect in the certificate; NULL: the host */
  bool insecure;    /* nothing is checked */
};

struct tls;

/* One at a time: the library's state is the program's. */
struct tls *tls_new(const struct tls_options *options, struct error *error);
void tls_free(struct tls *self);

/* Takes the descriptor over. The host is a name or an address, and is copied. */
struct transport *tls_transport_new(struct tls *self, int fd, const char *host);

/* The bundle of authorities that --inject brings along, beside the program. */
#define TLS_BUNDLE "ca-certificates.crt"

/* "mbedTLS 3.6.6": the library this program was compiled with. */
const char *tls_library(void);

#endif
