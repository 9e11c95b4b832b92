/* Nothing of ours: its size is that of the libraries that are linked into it. */
#include <psa/crypto.h>
#include <string.h>

/* The program's part of the library of TLS (MBEDTLS_PSA_CRYPTO_EXTERNAL_RNG), which does not link
   without it. */
psa_status_t mbedtls_psa_external_get_random(mbedtls_psa_external_random_context_t *context,
                                             uint8_t *output, size_t size, size_t *length) {
  (void)context;
  memset(output, 0, size);
  *length = 0;
  return PSA_ERROR_NOT_SUPPORTED;
}

int main(void) {
  return 0;
}
