#pragma once

#include <stdbool.h>

/*
 * A proxy between an agent and its server on the loopback that breaks connections as planned. It is
 * a separate process, which dies with the test.
 *
 *   struct proxy *proxy = proxy_start(redis_server_port(server), &plan);
 *   … an agent with --redis-url redis://127.0.0.1:<proxy_port(proxy)>
 *   proxy_stop(proxy);
 *
 * An error of the proxy fails the test. While the server is unreachable, it closes new connections.
 *
 * It forwards TLS unchanged. Such a connection hides its role, which the proxy infers from the
 * order in which an agent connects, and from the connection that is missing.
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
  long byte;    /* the last byte that is forwarded; 0: no fault */
  bool swallow; /* later bytes are discarded while the other direction stays open; the
                     connection is cut when the server is silent for a while */
};

/* Faults of the first, second … connection of each role. */
#define PROXY_FAULTS 2
struct proxy_plan {
  struct relay_fault faults[RELAY_ROLES][PROXY_FAULTS];
};

/* The plan is copied; NULL: no faults. */
struct proxy *proxy_start(int server_port, const struct proxy_plan *plan);
void proxy_stop(struct proxy *self);

int proxy_port(const struct proxy *self);

/* From now on all bytes are delayed, in each direction. */
void proxy_delay(struct proxy *self, int milliseconds);

/* From now on nothing is forwarded on the present connections of this role, not even an end. New
   connections work. */
void proxy_deafen(struct proxy *self, enum relay_role role);

/* From now on nothing is forwarded on them, not even an end, until proxy_thaw, which forwards
   everything. */
void proxy_freeze(struct proxy *self, enum relay_role role);
void proxy_thaw(struct proxy *self, enum relay_role role);

/* The port of the last connection of this role at the server, as in CLIENT LIST. */
int proxy_server_side_port(const struct proxy *self, enum relay_role role);

/* The numbers of connections and of faults so far. */
long proxy_connections(const struct proxy *self, enum relay_role role);
long proxy_cuts(const struct proxy *self);
