#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_URL_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct tls;

/*
 * Where a Redis server is and how to log in. Pure.
 *
 * Accepted connection strings:
 *   redis://[user:password@]host[:port][/db]       user and password percent-decoded
 *   rediss://…                                     the same by TLS
 *   unix://[user:password@]/path/to/socket[?db=n]
 *   redis+sentinel://[user:password@]host[:port],…/master-name[/db]   the hosts are sentinels
 *   rediss+sentinel://…                            the same by TLS, sentinels and servers
 *   host[:port],…[,password=…,user=…,defaultDatabase=n,ssl=true,sslHost=…,serviceName=…]
 *                                                  as StackExchange.Redis writes it: of several hosts
 *                                                  one is the primary; with serviceName they are
 *                                                  sentinels. With ssl the default port is 6380.
 *                                                  Its other options are ignored
 */
#define REDIS_URL_DEFAULT_PORT 6379
#define REDIS_URL_SENTINEL_PORT 26379

struct redis_address {
  char *host;    /* a name or an address, without brackets; or the path of a unix socket */
  unsigned port; /* 0: it is a path */
};

/* A port of `length` digits; -1 when it is not a number from 1 to 65535. */
int redis_address_parse_port(const char *text, size_t length, unsigned *port);

/* "host:port", as a node of a cluster writes it in a redirection: a v6 host has no brackets, and
   ":port" stands for `same_host`. On failure returns -1, and nothing is owned. */
int redis_address_parse_redirect(struct redis_address *self, const char *text,
                                 const char *same_host);

void redis_address_release(struct redis_address *self);

/* Writes "host:port", "[v6]:port" or the path for people; returns the length, as snprintf does. */
int redis_address_name(const struct redis_address *self, char *out, size_t size);

struct redis_url {
  /* The server; or several, of which one is the primary; or, with `master`, the sentinels. */
  struct redis_address *hosts;
  size_t host_count;
  char *master;   /* the name by which the sentinels know the server; NULL without sentinels */
  char *user;     /* NULL: the server's default user */
  char *password; /* NULL: no AUTH; never NULL with a user, never empty without one */
  unsigned database;
  bool secure;     /* by TLS */
  char *tls_name;  /* that the certificate must have; NULL: the host */
  char *ignored;   /* names of options that are ignored, ", " between them; NULL: none */
  struct tls *tls; /* for its connections (tls.h); borrowed. NULL: they are plain */
};

/* On failure returns -1, nothing is owned, and the error says what is wrong without repeating what
   was read: it may be a password. */
int redis_url_parse(struct redis_url *self, const char *text, struct error *error);

/* Overwrites the password before it frees it. */
void redis_url_release(struct redis_url *self);

/* Writes the names of the hosts for people: "host:port", or "master-name at host:port,…". */
void redis_url_name(const struct redis_url *self, char *out, size_t size);

/* Overwrites each byte of the text's password, if it has one, with '*': for memory that others can
   see, like the arguments of a process. Accepts text that begins with "--redis-url=", and malformed
   text, of which it may overwrite more. */
void redis_url_redact(char *text);

#endif
