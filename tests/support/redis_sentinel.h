#ifndef TESTS_SUPPORT_REDIS_SENTINEL_H
#define TESTS_SUPPORT_REDIS_SENTINEL_H

#include "tests/support/redis_server.h"

/*
 * A sentinel of one test, which decides alone. It is stopped like any server.
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

/* Starts a sentinel and waits until it knows the master's replicas. `password`: its password, or
   NULL. */
struct redis_server *redis_sentinel_start(const struct redis_server *master, int replicas,
                                          const char *password);

/* A replica of the master, which has caught up. */
struct redis_server *redis_sentinel_replica(const struct redis_server *master);

/* Waits until the replicas have all acknowledged writes of the master. */
void redis_sentinel_catch_up(const struct redis_server *master, int replicas);

/* After the master was killed: shortens the sentinel's timeout, which is long enough for a busy
   machine, to half a second. Waits until the replica is promoted. */
void redis_sentinel_fail_over(const struct redis_server *self, const struct redis_server *replica);

#endif
