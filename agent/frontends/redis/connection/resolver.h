#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_RESOLVER_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_RESOLVER_H

#include <event2/event.h>
#include <netdb.h>
#include <stdbool.h>

/*
 * Resolves a host name to its addresses, in the order in which they are to be tried, as the C
 * library does: by /etc/hosts, then by the name servers and search domains of /etc/resolv.conf. It
 * asks in a thread of its own, since getaddrinfo(3) blocks. A name with a dot at its end is found
 * in /etc/hosts without it; no search domain is added to it. Both files are read for every look-up,
 * since those of a container may change; nothing is cached.
 */
struct resolver;

/* Addresses, which the owner frees with freeaddrinfo, or NULL and the reason. */
typedef void resolver_done(void *owner, struct addrinfo *addresses, const char *why);

/* Calls `done` once, from the loop; the resolver is valid until then. It has no deadline of its
   own: the C library gives name servers that do not answer 5 s, or as /etc/resolv.conf says, for
   each name that it tries. The host is copied. */
struct resolver *resolver_start(struct event_base *base, const char *host, unsigned port,
                                resolver_done *done, void *owner);

/* `done` is not called. The thread ends, and frees what it has, when the C library returns. */
void resolver_cancel(struct resolver *self);

/* True when this file (hosts(5)) has the name, whose dot at the end does not count; `name` is then
   as it stands there. */
bool resolver_find_in_hosts(const char *path, char *name);

/* Writes the addresses of the name servers of this file (resolv.conf(5)) into `out`, with a comma
   between them, as far as there is room: for a person who looks for one that is dead. */
void resolver_name_servers(const char *path, char *out, size_t size);

#endif
