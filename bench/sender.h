#pragma once

#include <stddef.h>

#include "bench/endpoint.h"
#include "bench/xadds.h"

/*
 * The bare pipelined sender. It only sends bytes that were encoded before, and counts replies, so
 * that at most `depth` commands are unanswered at any time. Its transport is the agent's own, over
 * TLS too. Returns the seconds from the first byte to the last reply, without the handshake. A
 * failure, such as an error reply, ends the process with its reason.
 */
double sender_run(const struct endpoint *endpoint, const struct xadds *xadds, size_t depth);
