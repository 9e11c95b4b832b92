#ifndef AGENT_DOORS_REDIS_NET_RESOLVER_H
#define AGENT_DOORS_REDIS_NET_RESOLVER_H

#include <event2/event.h>
#include <event2/util.h>

/*
 * Resolves a host name to its addresses without blocking the loop: by /etc/hosts, then by the name
 * servers and search domains of /etc/resolv.conf. Both files are read for every look-up, since
 * those of a container may change; nothing is cached.
 */
struct resolver;

/*
 * Calls `done` once, from the loop: with addresses, which the owner frees with evutil_freeaddrinfo,
 * or with NULL and the reason. The resolver is valid until then. It has no deadline of its own.
 */
struct resolver *resolver_start(struct event_base *base, const char *host, unsigned port,
                                void (*done)(void *owner, struct evutil_addrinfo *addresses,
                                             const char *why),
                                void *owner);

/* `done` is not called. The loop frees the resolver a little later. */
void resolver_cancel(struct resolver *self);

#endif
