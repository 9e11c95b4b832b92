#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_RESOLVER_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_RESOLVER_H

#include <event2/event.h>
#include <netdb.h>

/*
 * Resolves a host name to its addresses, as the C library does: with /etc/hosts, then with the name
 * servers and search domains of /etc/resolv.conf. getaddrinfo(3) blocks, so it runs in a thread of
 * its own. A name with a dot at its end is found in /etc/hosts without the dot, and gets no search
 * domain. Nothing is cached, because the files of a container may change.
 */
struct resolver;

/* Gets the addresses, which the owner frees with freeaddrinfo, or NULL and the reason. */
typedef void resolver_done(void *owner, struct addrinfo *addresses, const char *why);

/* Calls `done` once, from the loop; the resolver is valid until then. There is no deadline: the C
   library waits 5 s, or as /etc/resolv.conf says, for each name that it tries. The host is
   copied. */
struct resolver *resolver_start(struct event_base *base, const char *host, unsigned port,
                                resolver_done *done, void *owner);

/* Drops the look-up without calling `done`. The thread ends, and frees its memory, when the C
   library returns. */
void resolver_cancel(struct resolver *self);

#endif
