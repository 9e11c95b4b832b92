#pragma once

#include <event2/event.h>

#include "agent/frontends/redis/connection/transport.h"
#include "agent/frontends/redis/connection/url.h"

/*
 * Connects a socket to a server without blocking the loop. It resolves the name and tries its
 * addresses in turn until one accepts. Deadlines, in milliseconds:
 */
#define DIALER_RESOLVE_MS 15000 /* musl gives up after 5 s, and is asked twice */
#define DIALER_ADDRESS_MS 3000  /* for each address */

struct dialer;

/* Calls `done` once, from the loop, and then frees the dialer. `tls` is NULL for a plain transport.
   The address must outlive the dialer. */
struct dialer *dialer_start(struct event_base *base, const struct redis_address *to,
                            struct tls *tls, transport_done *done, void *owner);

/* Frees the dialer without calling `done`. */
void dialer_cancel(struct dialer *self);
