#ifndef TESTS_SUPPORT_PROXY_H
#define TESTS_SUPPORT_PROXY_H

#include <stdbool.h>

#include "tests/support/relay.h"

/*
 * Stands between an agent and its server on the loopback, in a process of its own that dies with
 * its maker, and breaks what it is told to break.
 *
 *   struct proxy *proxy = proxy_start(redis_server_port(server), &plan);
 *   … an agent with --redis-url redis://127.0.0.1:<proxy_port(proxy)>
 *   proxy_stop(proxy);
 *
 * Whatever it can not do itself fails the test. While the server is away, connections are refused
 * by closing them.
 */
struct proxy;

/* Faults that are known from the start: of the first, second … connection of each role. */
#define PROXY_FAULTS 2
struct proxy_plan {
  struct relay_fault faults[RELAY_ROLES][PROXY_FAULTS];
};

/* The plan is copied; NULL: no fault. */
struct proxy *proxy_start(int server_port, const struct proxy_plan *plan);
void proxy_stop(struct proxy *self);

int proxy_port(const struct proxy *self);

/* From now on all bytes arrive so much later, in each direction. */
void proxy_delay(struct proxy *self, int milliseconds);

/* From now on nothing goes through the connections that this role has now, and neither side is told
   of anything, not even of the other's end. New connections work. */
void proxy_deafen(struct proxy *self, enum relay_role role);

/* From now on nothing moves on them, not even their end; until the thaw, when all of it goes on. */
void proxy_freeze(struct proxy *self, enum relay_role role);
void proxy_thaw(struct proxy *self, enum relay_role role);

/* Connections so far; bytes that went through the first one; faults that have happened. */
long proxy_connections(const struct proxy *self, enum relay_role role);
long proxy_bytes(const struct proxy *self, enum relay_role role, enum relay_direction direction);
long proxy_cuts(const struct proxy *self);

#endif
