#ifndef AGENT_DOORS_REDIS_NET_TLS_CIPHERS_H
#define AGENT_DOORS_REDIS_NET_TLS_CIPHERS_H

/* The cipher suites of TLS that are offered, the fastest first: AES-GCM where the processor has
   instructions for it, else ChaCha20-Poly1305. Ends with 0; never freed. */
const int *tls_ciphers(void);

#endif
