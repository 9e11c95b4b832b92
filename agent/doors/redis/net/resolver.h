#ifndef AGENT_DOORS_REDIS_NET_RESOLVER_H
#define AGENT_DOORS_REDIS_NET_RESOLVER_H

#include <event2/event.h>
#include <event2/util.h>

/*
 * A host name -> its addresses, without blocking the loop: /etc/hosts, then the name servers and
 * search domains of /etc/resolv.conf, both read anew for every look-up, since a container's files
 * may change. Nothing is kept between look-ups.
 */
struct resolver;

/*
 * `done` is called once from the loop: with addresses (the owner frees them with
 * evutil_freeaddrinfo), or with NULL and the reason. The handle is valid until then.
 */
struct resolver *resolver_start(struct event_base *base, const char *host, unsigned port,
                                void (*done)(void *owner, struct evutil_addrinfo *addresses,
                                             const char *why),
                                void *owner);

/* `done` will not be called. What is left is freed by the loop a little later. */
void resolver_cancel(struct resolver *self);

#endif
