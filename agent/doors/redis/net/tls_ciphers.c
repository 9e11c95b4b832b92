#include "agent/doors/redis/net/tls_ciphers.h"

#include <stdbool.h>

#include <mbedtls/ssl_ciphersuites.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define AES_SUITES                                                                                 \
  MBEDTLS_TLS1_3_AES_128_GCM_SHA256, MBEDTLS_TLS1_3_AES_256_GCM_SHA384,                            \
      MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,                                             \
      MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,                                               \
      MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,                                             \
      MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384

#define CHACHA_SUITES                                                                              \
  MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256, MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,  \
      MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256

static const int aes_first[] = {AES_SUITES, CHACHA_SUITES, 0};
static const int chacha_first[] = {CHACHA_SUITES, AES_SUITES, 0};

/* For the blocks and for the multiplication of GCM. */
static bool has_instructions(void) {
#if defined(__x86_64__)
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_AES) != 0 &&
         (ecx & bit_PCLMUL) != 0;
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & HWCAP_AES) != 0 && (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0;
#else
  return false;
#endif
}

const int *tls_ciphers(void) {
  return has_instructions() ? aes_first : chacha_first;
}
