#ifndef AGENT_DOORS_REDIS_NET_URL_H
#define AGENT_DOORS_REDIS_NET_URL_H

#include <stddef.h>

#include "agent/doors/redis/net/address.h"
#include "base/error.h"

/*
 * Where a Redis server is and how to log in, from one of
 *   redis://[user:password@]host[:port][/db]       user, password percent-decoded
 *   unix://[user:password@]/path/to/socket[?db=n]
 *   host[:port][,password=…,user=…,defaultDatabase=n]   as StackExchange.Redis writes it; what
 *                                                       options it has beyond these is ignored
 *   redis+sentinel://[user:password@]host[:port],…/master-name[/db]   the sentinels, who know
 *                                                       where the server is
 * Pure.
 */
#define REDIS_URL_DEFAULT_PORT 6379
#define REDIS_URL_SENTINEL_PORT 26379

struct redis_url {
  char *host; /* a name or an address, without brackets; NULL with a socket or sentinels */
  unsigned port;
  char *path;     /* of a unix socket; else NULL */
  char *user;     /* NULL: the server's default user */
  char *password; /* NULL: do not log in; never NULL with a user, never empty without one */
  unsigned database;
  char *master; /* what the sentinels call the server; NULL without sentinels */
  struct redis_address *sentinels;
  size_t sentinel_count;
};

/* On failure the text says what is wrong, never with the password in it, and nothing is owned. */
int redis_url_parse(struct redis_url *self, const char *text, struct error *error);

/* Overwrites the password before it frees it. */
void redis_url_release(struct redis_url *self);

/* "host:port", the socket's path, or "master-name at host:port,…", for people. */
void redis_url_name(const struct redis_url *self, char *out, size_t size);

/* The same text with every byte of its password, if it has one, made a '*', in place: for memory
   that others can see. Also for a text that begins with "--redis-url=" or is malformed; of such a
   one it may cover more. */
void redis_url_redact(char *text);

#endif
