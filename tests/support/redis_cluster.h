#pragma once

#include <stdbool.h>

#include "tests/support/redis_server.h"

/*
 * A Redis Cluster of one test: three masters that share all slots, without replicas. An error fails
 * the test.
 *
 *   struct redis_cluster *cluster = redis_cluster_start();
 *   int owner = redis_cluster_owner(cluster, "{pipe-42}");
 *   redis_cluster_begin_move(cluster, "{pipe-42}", to);
 *   while (redis_cluster_move_key(cluster, NULL)) …
 *   redis_cluster_end_move(cluster);
 *   redis_cluster_stop(cluster);
 */
enum { REDIS_CLUSTER_NODES = 3 };

struct redis_cluster;

/* Starts the cluster and waits until each node reports that all is well. */
struct redis_cluster *redis_cluster_start(void);
void redis_cluster_stop(struct redis_cluster *self);

/* Owned by the cluster. */
struct redis_server *redis_cluster_node(const struct redis_cluster *self, int number);

/* Waits until each node reports that all is well. */
void redis_cluster_wait(const struct redis_cluster *self);

/* The number of the node that has the slot of this key. */
int redis_cluster_owner(const struct redis_cluster *self, const char *key);

/* Moves a slot as redis-cli does: opens it at both nodes, moves its keys one by one (this key, or
   any with NULL; returns false if none is left), and closes it at all nodes. */
void redis_cluster_begin_move(struct redis_cluster *self, const char *key, int to);
bool redis_cluster_move_key(struct redis_cluster *self, const char *key);
void redis_cluster_end_move(struct redis_cluster *self);
