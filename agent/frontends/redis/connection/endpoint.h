#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_ENDPOINT_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_ENDPOINT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/redis/connection/transport.h"
#include "agent/frontends/redis/connection/url.h"

/*
 * Connects to the server, wherever it is now: at the url's own address; at one of its hosts, the
 * next one at each dial until one has worked; at the master that the url's sentinels name at this
 * moment; or at the node of a cluster to which another node has redirected.
 *
 *   endpoint_dial           calls `done` once, from the loop
 *   endpoint_name           where that was, for people; the url's name when there was no dial
 *   endpoint_redirect       a node has redirected; dial again
 *   endpoint_has_untried    dial again at once: there is another host
 *   endpoint_mark_healthy   the server has done what it was asked: the next dial goes there, too
 *
 * An address that has not worked between two dials is dropped: after a redirection the next dial
 * goes to the url's own address again, and a sentinel whose master did not work is asked last.
 *
 * Sentinels are asked one after another until one knows the master, and that one first the next
 * time. One that requires a password is sent the url's, for its default user; another one never
 * sees it.
 */
#define ENDPOINT_SENTINEL_MS 2000 /* for each one, from resolving its name to its reply */

struct endpoint;

/* The url must outlive the endpoint. */
struct endpoint *endpoint_new(struct event_base *base, const struct redis_url *url);
void endpoint_free(struct endpoint *self);

void endpoint_dial(struct endpoint *self, transport_done *done, void *owner);

/* Stops a dial: `done` is not called. Idempotent. */
void endpoint_cancel(struct endpoint *self);

void endpoint_name(const struct endpoint *self, char *out, size_t size);

/* Sends the next dial to this "host:port". False when it is no address, or one of too many in a
   row, without endpoint_mark_healthy between them (two nodes may name each other): then the next
   dial goes to the url's own address. Sentinels are not redirected. */
#define ENDPOINT_REDIRECTS_MAX 5
bool endpoint_redirect(struct endpoint *self, const char *target);

/* Of several hosts, one was not dialed in this round, which begins with endpoint_mark_healthy, and
   when all were dialed. A node that was redirected to is none of them. */
bool endpoint_has_untried(const struct endpoint *self);

void endpoint_mark_healthy(struct endpoint *self);

#endif
