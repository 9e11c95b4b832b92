#ifndef AGENT_DOORS_REDIS_NET_DIALER_H
#define AGENT_DOORS_REDIS_NET_DIALER_H

#include <event2/event.h>

#include "agent/doors/redis/net/url.h"

/*
 * Where a server is -> a connected socket, without blocking the loop: resolves the name and tries
 * its addresses in turn, until one answers.
 */
#define DIALER_RESOLVE_MS 5000
#define DIALER_ADDRESS_MS 3000 /* for each address */

struct dialer;

/*
 * `done` is called once, from the loop: with a connected, non-blocking, close-on-exec socket that
 * is then the owner's, or with -1 and the reason. The url must outlive the dialer, which is freed
 * by itself after `done`.
 */
struct dialer *dialer_start(struct event_base *base, const struct redis_url *url,
                            void (*done)(void *owner, int fd, const char *why), void *owner);

/* Gives up and frees it: `done` is not called. */
void dialer_cancel(struct dialer *self);

#endif
