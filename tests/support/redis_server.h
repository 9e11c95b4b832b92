#pragma once

#include <hiredis/hiredis.h>
#include <stddef.h>

#include "tests/support/certificates.h"

/*
 * A redis-server of one test (REDIS_SERVER, else `redis-server` from PATH) with a free loopback
 * port, a unix socket and a directory below TMPDIR. It saves nothing by itself and dies with the
 * test. An error fails the test and prints the server's log.
 *
 *   struct redis_server *server = redis_server_start(NULL);
 *   redisContext *redis = redis_server_connect(server);
 *   …
 *   redisFree(redis);
 *   redis_server_stop(server);
 */
struct redis_server;

/* Starts a server and waits until it answers. `extra` has more arguments, NULL-terminated, or is
   NULL; they must live as long as the server. */
struct redis_server *redis_server_start(const char *const *extra);

/* The same with a configuration file of this text, which the server may rewrite, as a sentinel
   does. NULL: none. */
struct redis_server *redis_server_start_configured(const char *config, const char *const *extra);

/* The same with TLS on a separate port and "server.pem" and "server.key" of these certificates,
   which must live as long as the server. */
struct redis_server *redis_server_start_tls(const struct certificates *certificates,
                                            const char *const *extra);

/* A loopback port that was free a moment ago. */
int redis_server_free_port(void);

/* Stops the server, removes its directory and frees self; NULL is fine. */
void redis_server_stop(struct redis_server *self);

/* Kills the server: all connections break, and all keys that were not saved are lost. */
void redis_server_kill(struct redis_server *self);

/* Starts a killed server again with the same port and socket, and waits until it answers. */
void redis_server_restart(struct redis_server *self);

/* Stops the process, so that its connections stay but nothing is answered; continues it. */
void redis_server_freeze(struct redis_server *self);
void redis_server_thaw(struct redis_server *self);

/* A new connection, with a timeout for each reply; the caller frees it. */
redisContext *redis_server_connect(const struct redis_server *self);

/* "redis", or "rediss" if TEST_REDIS_TLS names a directory with ca.pem, server.pem and server.key
   for localhost and 127.0.0.1: each server then speaks only TLS. */
const char *redis_server_scheme(void);

/* The authority of these servers; NULL: none. */
const char *redis_server_authority(void);

/* The login part of an agent's URL: "", or with TEST_REDIS_ACL=1 "user:password@" of the user of
   docs/redis.md, which each server except a sentinel then has. */
const char *redis_server_login(void);

int redis_server_port(const struct redis_server *self);
int redis_server_tls_port(const struct redis_server *self); /* 0: it has none */
const char *redis_server_directory(const struct redis_server *self);
const char *redis_server_socket(const struct redis_server *self);

/* The Redis user of docs/redis.md. Its line `ACL SETUSER …` is read from there, so that
   documentation and tests cannot differ. */
#define REDIS_USER "sandbox-agent"
#define REDIS_USER_LOGIN "sandbox-agent:PASSWORD@"

/* The words of the line after the user's name and their count; freed by redis_server_free_rules. */
char **redis_server_user_rules(size_t *count);
void redis_server_free_rules(char **rules, size_t count);

/* Makes a user of this name with that line, except the rule `without` (NULL: with all). */
void redis_server_make_user(redisContext *redis, const char *name, const char *without);
