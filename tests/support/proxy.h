#ifndef TESTS_SUPPORT_PROXY_H
#define TESTS_SUPPORT_PROXY_H

#include <stdbool.h>

/*
 * A proxy between an agent and its server on the loopback that breaks connections as planned. It is
 * a process of its own, which dies with the test.
 *
 *   struct proxy *proxy = proxy_start(redis_server_port(server), &plan);
 *   … an agent with --redis-url redis://127.0.0.1:<proxy_port(proxy)>
 *   proxy_stop(proxy);
 *
 * An error of its own fails the test. While the server is away, it closes new connections.
 *
 * It forwards TLS as it is. Such a connection does not show its role: the proxy tells it from the
 * order in which an agent connects, and from which connection is missing.
 */
struct proxy;

enum relay_role {
  RELAY_INTAKE,
  RELAY_OUTBOX,
  RELAY_WORKERS, /* the number of roles that carry steps, events and results */
  RELAY_HEARTBEAT = RELAY_WORKERS,
  RELAY_ROLES,
  RELAY_UNKNOWN = RELAY_ROLES
};
enum relay_direction { RELAY_REQUEST, RELAY_REPLY, RELAY_DIRECTIONS };

/* A fault of a connection. Bytes count from its first one, in this direction. */
struct relay_fault {
  enum relay_direction direction;
  long byte;    /* the last one that is forwarded; 0: no fault */
  bool swallow; /* later bytes are discarded while the other direction stays open; the connection is
                   cut when the server has sent nothing for a while */
};

/* Faults of the first, second … connection of each role. */
#define PROXY_FAULTS 2
struct proxy_plan {
  struct relay_fault faults[RELAY_ROLES][PROXY_FAULTS];
};

/* The plan is copied; NULL: no fault. */
struct proxy *proxy_start(int server_port, const struct proxy_plan *plan);
void proxy_stop(struct proxy *self);

int proxy_port(const struct proxy *self);

/* From now on all bytes are delayed, in each direction. */
void proxy_delay(struct proxy *self, int milliseconds);

/* From now on nothing is forwarded on the present connections of this role, not even an end. New
   connections work. */
void proxy_deafen(struct proxy *self, enum relay_role role);

/* From now on nothing is forwarded on them, not even an end; until the thaw, which forwards all. */
void proxy_freeze(struct proxy *self, enum relay_role role);
void proxy_thaw(struct proxy *self, enum relay_role role);

/* The port from which the last connection of this role goes on to the server: CLIENT LIST has
   it. */
int proxy_server_side_port(const struct proxy *self, enum relay_role role);

/* Connections so far; faults that have happened. */
long proxy_connections(const struct proxy *self, enum relay_role role);
long proxy_cuts(const struct proxy *self);

#endif
