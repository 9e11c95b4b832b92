#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Parses a connection string: where Redis is, and how to log in. The agent and the client do so at
 * startup. The hard part is that the text has a password, which no error may repeat. Pure. The
 * forms are
 *
 *   redis://[user:password@]host[:port][/db]       user and password are percent-decoded
 *   rediss://…                                     the same over TLS
 *   unix://[user:password@]/path/to/socket[?db=n]
 *   redis+sentinel://[user:password@]host[:port],…/master-name[/db]   the hosts are sentinels
 *   rediss+sentinel://…                            the same over TLS, sentinels and servers
 *   host[:port],…[,password=…,user=…,defaultDatabase=n,ssl=true,sslHost=…,serviceName=…]
 *
 * The last one is that of StackExchange.Redis: one of several hosts is the primary; with
 * serviceName they are sentinels. With ssl the default port is 6380. Its other options are ignored.
 */
#define REDIS_URL_DEFAULT_PORT 6379
#define REDIS_URL_SENTINEL_PORT 26379

struct tls;

struct redis_address {
  char *host;    /* a name or an address, without brackets; or the path of a Unix socket */
  unsigned port; /* 0: the host is a path */
};

/* Returns 0, or -1 unless the text is a number from 1 to 65535. */
int redis_address_parse_port(const char *text, size_t length, unsigned *port);

/* Parses "host:port" of a cluster's redirection: an IPv6 host has no brackets, and ":port" stands
   for `same_host`. Returns 0, or -1, when nothing is owned. */
int redis_address_parse_redirect(struct redis_address *self, const char *text,
                                 const char *same_host);

void redis_address_release(struct redis_address *self);

/* Writes "host:port", "[v6]:port" or the path for people. Returns the length, as snprintf does. */
int redis_address_name(const struct redis_address *self, char *out, size_t size);

struct redis_url {
  /* The server; or several servers, one of them the primary; or, with `master`, the sentinels. */
  struct redis_address *hosts;
  size_t host_count;
  char *master;   /* the server's name at the sentinels; NULL without sentinels */
  char *user;     /* NULL: the server's default user */
  char *password; /* NULL: no AUTH; never NULL with a user, never empty without one */
  unsigned database;
  bool secure;     /* over TLS */
  char *tls_name;  /* the name that the certificate must have; NULL: the host */
  char *ignored;   /* names of ignored options, separated by ", "; NULL: none */
  struct tls *tls; /* for the connections (tls.h); borrowed. NULL: they are plain */
};

/* Returns 0, or -1 and an error that does not repeat the text, which may be a password. Nothing is
   owned then. */
int redis_url_parse(struct redis_url *self, const char *text, struct error *error);

/* Overwrites the password before it frees it. */
void redis_url_release(struct redis_url *self);

/* Writes for people "host:port", or "master-name at host:port,…". */
void redis_url_name(const struct redis_url *self, char *out, size_t size);

/* Overwrites each byte of the text's password with '*', in memory that others can see, such as the
   arguments of a process. Accepts text that begins with "--redis-url=", and malformed text, of
   which it may overwrite more. */
void redis_url_redact(char *text);
