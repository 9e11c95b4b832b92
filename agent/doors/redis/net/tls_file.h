#ifndef AGENT_DOORS_REDIS_NET_TLS_FILE_H
#define AGENT_DOORS_REDIS_NET_TLS_FILE_H

#include "base/error.h"

/*
 * The files that TLS is given, before and after mbedTLS reads them. `source` is the flag or the
 * variable that named one.
 */

/* A regular file that can be read: the library would wait for a FIFO. Returns 0, or -1 with what is
   wrong. */
int tls_file_check(const char *source, const char *path, struct error *error);

/* Says that the library has not taken its certificates. Returns -1. */
int tls_file_refuse(const char *source, const char *path, struct error *error);

#endif
