#ifndef TESTS_SUPPORT_REDIS_SERVER_H
#define TESTS_SUPPORT_REDIS_SERVER_H

#include <hiredis/hiredis.h>
#include <stddef.h>

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
   docs/redis.md, which every server but a sentinel has then. */
const char *redis_server_login(void);

int redis_server_port(const struct redis_server *self);
int redis_server_tls_port(const struct redis_server *self); /* 0: it has none */
const char *redis_server_directory(const struct redis_server *self);
const char *redis_server_socket(const struct redis_server *self);

/*
 * The Redis user of docs/redis.md: its line `ACL SETUSER …`, taken from there, so that what is
 * promised and what is tested cannot differ.
 */
#define REDIS_USER "sandbox-agent"
#define REDIS_USER_LOGIN "sandbox-agent:PASSWORD@"

/* The line's words behind the user's name, how many there are; owned by nobody else, to be freed
   with redis_server_free_rules. */
char **redis_server_user_rules(size_t *count);
void redis_server_free_rules(char **rules, size_t count);

/* Makes a user of this name by that line, all but the rule `without` (NULL: all). */
void redis_server_make_user(redisContext *redis, const char *name, const char *without);

#endif
