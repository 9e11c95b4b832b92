#pragma once

#include <stdbool.h>

#include "agent/frontends/redis/connection/transport.h"
#include "base/error.h"

/*
 * Connects to Redis over TLS 1.2 or 1.3, with mbedTLS. A `tls` holds the trusted authorities and
 * the client's own certificate; it makes a transport for each connection. The server's certificate
 * chain, its dates and its name or address are checked.
 *
 *   tls = tls_new(&options, &error)                 NULL: the error names the flag to change
 *   transport = tls_transport_new(tls, fd, host)    for each connection
 *   tls_free(tls)                                   after the last transport was freed
 */
struct tls_options {
  /* If ca_file and ca_directory are both NULL, the system's authorities are trusted. */
  const char *ca_file;      /* a PEM file */
  const char *ca_directory; /* of PEM files */
  const char *certificate;  /* a PEM file; NULL: none, and no key */
  const char *key;
  const char *name; /* for SNI, and expected in the certificate; NULL: the host */
  bool insecure;    /* the server's certificate is not checked */
};

struct tls;

/* Only one may exist at a time, because the library's random number state is global. */
struct tls *tls_new(const struct tls_options *options, struct error *error);
void tls_free(struct tls *self);

/* Takes ownership of the descriptor. The host is a name or an address, and is copied. */
struct transport *tls_transport_new(struct tls *self, int fd, const char *host);

/* The bundle of authorities that --inject copies, beside the program. */
#define TLS_BUNDLE "ca-certificates.crt"

/* Returns the library's name and version, such as "mbedTLS 3.6.6". */
const char *tls_library(void);
