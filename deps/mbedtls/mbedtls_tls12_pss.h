/*
 * A client that offers RSA-PSS accepts it from a server of TLS 1.2, too (RFC 8446, 4.2.3); OpenSSL
 * signs with it. mbedTLS 3.6.6 offers it and then refuses it, by mistake: Mbed-TLS/mbedtls pull
 * request 10672. This is included before ssl_tls12_client.c; remove it with the first version that
 * has that change.
 */
#ifndef DEPS_MBEDTLS_TLS12_PSS_H
#define DEPS_MBEDTLS_TLS12_PSS_H

#include "common.h"

#include "ssl_misc.h"

static inline int is_supported_or_pss(const mbedtls_ssl_context *ssl, uint16_t sig_alg) {
  return sig_alg == MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA256 ||
         sig_alg == MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA384 ||
         sig_alg == MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA512 ||
         mbedtls_ssl_sig_alg_is_supported(ssl, sig_alg);
}

#define mbedtls_ssl_sig_alg_is_supported is_supported_or_pss

#endif
