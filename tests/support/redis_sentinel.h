#ifndef TESTS_SUPPORT_REDIS_SENTINEL_H
#define TESTS_SUPPORT_REDIS_SENTINEL_H

#include "tests/support/redis_server.h"

/*
 * A sentinel of a test's own, which decides alone. To be stopped as any server is.
 *
 *   master = redis_server_start(NULL);
 *   replica = redis_sentinel_replica(master);
 *   sentinel = redis_sentinel_start(master, 1, NULL);
 *   …
 *   redis_sentinel_catch_up(master, 1);
 *   redis_server_kill(master);
 *   redis_sentinel_fail_over(sentinel, replica);
 */
#define REDIS_SENTINEL_MASTER "pipes"

/* Starts it and waits until it knows the master's replicas. `password`: what it wants of who asks
   it, or NULL. */
struct redis_server *redis_sentinel_start(const struct redis_server *master, int replicas,
                                          const char *password);

/* A replica of it, which has caught up. */
struct redis_server *redis_sentinel_replica(const struct redis_server *master);

/* Waits until all that the master has acknowledged is at its replicas. */
void redis_sentinel_catch_up(const struct redis_server *master, int replicas);

/* The master was killed: the sentinel, which until now was patient enough for a busy machine, takes
   half a second of silence for its end. Waits until the replica is promoted. */
void redis_sentinel_fail_over(const struct redis_server *self, const struct redis_server *replica);

#endif
