#ifndef AGENT_DOORS_REDIS_NET_ADDRESS_H
#define AGENT_DOORS_REDIS_NET_ADDRESS_H

#include <stddef.h>

#include "base/error.h"

/*
 * A host and a port: as people write them in a connection string, and as a server of a cluster
 * writes them. Pure.
 */
struct redis_address {
  char *host; /* a name or an address, without brackets */
  unsigned port;
};

/* "host", "host:port" or "[v6]:port": `length` bytes, all of them. On failure nothing is owned, and
   the text says what is wrong without repeating what was read: it may be a password. */
int redis_address_parse(struct redis_address *self, const char *text, size_t length,
                        unsigned default_port, struct error *error);

/* "host:port" up to its end, where a v6 host has no brackets; ":port" is `same_host`. -1, with
   nothing owned, when it is anything else. */
int redis_address_parse_redirect(struct redis_address *self, const char *text,
                                 const char *same_host);

void redis_address_release(struct redis_address *self);

/* For people; returns the length, as snprintf does. */
int redis_address_name(const char *host, unsigned port, char *out, size_t size);

#endif
