#ifndef BENCH_SENDER_H
#define BENCH_SENDER_H

#include <stddef.h>

#include "bench/endpoint.h"
#include "bench/xadds.h"

/*
 * The bare pipelined sender: it does nothing but send bytes that were encoded before, and count
 * answers, so that at most `depth` commands are not answered at any time. Its transport is the
 * agent's own, by TLS too. Returns the seconds from the first byte to the last answer, the
 * handshake not included. Whatever goes wrong, an error for an answer too, ends the process with
 * the reason.
 */
double sender_run(const struct endpoint *endpoint, const struct xadds *xadds, size_t depth);

#endif
