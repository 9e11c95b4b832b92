#ifndef AGENT_DOORS_REDIS_LINK_TLS_TRUST_H
#define AGENT_DOORS_REDIS_LINK_TLS_TRUST_H

#include <mbedtls/x509_crt.h>

#include "base/error.h"

/*
 * The authorities that are trusted. Where neither a file nor a directory is given: SSL_CERT_FILE and
 * SSL_CERT_DIR of the environment, as OpenSSL has them; else the first of the places where
 * distributions keep their bundle; else ca-certificates.crt beside this program.
 *
 * Adds them to the chain. Returns 0, or -1 with what was looked for. Certificates that cannot be
 * parsed are passed over, as long as there is one that can.
 */
int tls_trust_load(mbedtls_x509_crt *chain, const char *file, const char *directory,
                   struct error *error);

/* Of a file that the flag or variable `source` has named: says unless it is a regular file
   that can be read (the library would wait for a FIFO); says that the library has not taken its
   certificates. The first returns 0 or -1, the second -1. */
int tls_trust_check_file(const char *source, const char *path, struct error *error);
int tls_trust_refuse_file(const char *source, const char *path, struct error *error);

#endif
