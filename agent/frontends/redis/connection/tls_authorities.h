#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_TLS_AUTHORITIES_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_TLS_AUTHORITIES_H

#include <mbedtls/x509_crt.h>

#include "base/error.h"

/*
 * Reads the certificate authorities that `tls` trusts. The hard part is that every distribution
 * keeps them somewhere else, and that this library cannot parse all of them.
 */

/* Adds the authorities of a file and a directory to the chain. If both are NULL, reads
   SSL_CERT_FILE and SSL_CERT_DIR of the environment, as OpenSSL does; if these are not set either,
   the first bundle of a distribution that exists, or TLS_BUNDLE (tls.h). Certificates that cannot
   be parsed are skipped as long as one can. Returns 0, or -1 and the error. */
int tls_authorities_load(mbedtls_x509_crt *chain, const char *file, const char *directory,
                         struct error *error);

/* Returns 0 if the file that a flag or variable (`source`) names is a regular file that can be
   read, else -1 and the error. The library itself would block on a FIFO. */
int tls_authorities_check_file(const char *source, const char *path, struct error *error);

/* Sets the error for a file without a usable certificate. Returns -1. */
int tls_authorities_reject_file(const char *source, const char *path, struct error *error);

#endif
