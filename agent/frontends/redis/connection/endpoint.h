#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_ENDPOINT_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_ENDPOINT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/redis/connection/transport.h"
#include "agent/frontends/redis/connection/url.h"

/*
 * Finds the server and connects to it. The server is at the URL's address; at one of several hosts,
 * of which each dial tries the next until one has worked; at the master that the sentinels name at
 * this moment; or at the node of a cluster to which another node has redirected.
 *
 * An address that has not worked between two dials is dropped: after a redirection the next dial
 * goes to the URL's own address again, and a sentinel whose master did not work is asked last.
 *
 * Sentinels are asked one after another until one knows the master; the next dial asks that one
 * first. The URL's password is sent only to a sentinel that requires one, for its default user.
 */
#define ENDPOINT_SENTINEL_MS 2000 /* for each one, from resolving its name to its reply */

struct endpoint;

/* The URL must outlive the endpoint. */
struct endpoint *endpoint_new(struct event_base *base, const struct redis_url *url);
void endpoint_free(struct endpoint *self);

/* Connects, and calls `done` once, from the loop. */
void endpoint_dial(struct endpoint *self, transport_done *done, void *owner);

/* Stops a dial without calling `done`. Idempotent. */
void endpoint_cancel(struct endpoint *self);

/* Writes the address that was dialed last, for people; before that, the URL's name. */
void endpoint_name(const struct endpoint *self, char *out, size_t size);

/* Sends the next dial to this "host:port". Returns false if that is no address, or after
   ENDPOINT_REDIRECTS_MAX in a row without endpoint_mark_healthy (two nodes may name each other):
   the next dial goes to the URL's own address then. Sentinels are not redirected. */
#define ENDPOINT_REDIRECTS_MAX 5
bool endpoint_redirect(struct endpoint *self, const char *target);

/* Returns true if one of several hosts was not dialed in this round. A round begins with
   endpoint_mark_healthy, and after all hosts were dialed. Redirections do not count. */
bool endpoint_has_untried(const struct endpoint *self);

/* The server works: the next dial goes to the same address. */
void endpoint_mark_healthy(struct endpoint *self);

#endif
