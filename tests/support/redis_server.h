#ifndef TESTS_SUPPORT_REDIS_SERVER_H
#define TESTS_SUPPORT_REDIS_SERVER_H

#include <hiredis/hiredis.h>

#include "tests/support/certificates.h"

/*
 * A redis-server of a test's own (REDIS_SERVER, else `redis-server` from PATH): a free loopback
 * port and a unix socket, a directory of its own under TMPDIR, nothing on disk, and it dies with
 * the test. Whatever fails fails the test, with the server's log.
 *
 *   struct redis_server *server = redis_server_start(NULL);
 *   redisContext *redis = redis_server_connect(server);
 *   …
 *   redisFree(redis);
 *   redis_server_stop(server);
 */
struct redis_server;

/* Starts it and waits until it answers. `extra` are more arguments, NULL-terminated, or NULL; they
   must live as long as the server. */
struct redis_server *redis_server_start(const char *const *extra);

/* The same with a configuration file of this text, which the server may rewrite: what a sentinel
   needs. A `config` of NULL is none. */
struct redis_server *redis_server_start_configured(const char *config, const char *const *extra);

/* The same without a configuration, but with TLS on a port of its own, too, by "server.pem" and
   "server.key" of these certificates; they must live as long as the server. */
struct redis_server *redis_server_start_tls(const struct certificates *certificates,
                                            const char *const *extra);

/* A port of the loopback that was free a moment ago. */
int redis_server_free_port(void);

/* Ends it, removes its directory, frees self; NULL is fine. */
void redis_server_stop(struct redis_server *self);

/* Ends it as a power cut would: all connections break, all keys are lost. */
void redis_server_kill(struct redis_server *self);

/* Starts a killed server again at the same port and socket, and waits until it answers. */
void redis_server_restart(struct redis_server *self);

/* Stops it from answering, while its connections stay; and lets it go on. */
void redis_server_freeze(struct redis_server *self);
void redis_server_thaw(struct redis_server *self);

/* A new connection, with a bound on every answer; the caller frees it. */
redisContext *redis_server_connect(const struct redis_server *self);

/* "redis", or with TEST_REDIS_TLS "rediss": every server speaks TLS then, and nothing else, by the
   certificate of that directory (ca.pem, server.pem, server.key), for localhost and 127.0.0.1. */
const char *redis_server_scheme(void);

/* The file of the authority of all of them; NULL: there is none. */
const char *redis_server_authority(void);

/* What an agent puts before the host: "", or with TEST_REDIS_ACL=1 "user:password@" of the user of
   docs/redis.md (redis_user.h), which every server but a sentinel has then. */
const char *redis_server_login(void);

int redis_server_port(const struct redis_server *self);
int redis_server_tls_port(const struct redis_server *self); /* 0: it has none */
const char *redis_server_directory(const struct redis_server *self);
const char *redis_server_socket(const struct redis_server *self);

#endif
