#ifndef AGENT_DOORS_REDIS_NET_ENDPOINT_H
#define AGENT_DOORS_REDIS_NET_ENDPOINT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/net/transport.h"
#include "agent/doors/redis/net/url.h"

/*
 * Connects to the server, wherever it is now: at the url's own address; at one of its hosts, the next
 * one at each dial until one has worked; at the master that the url's sentinels name at this moment;
 * or at the node of a cluster to which another node has redirected.
 *
 *   endpoint_dial           calls done(transport) or done(NULL, why)
 *   endpoint_name           where that was
 *   endpoint_redirect       a node has redirected; dial again
 *   endpoint_has_untried    dial again at once: there is another host
 *   endpoint_mark_healthy   the server has done what it was asked
 *
 * An address that has not worked between two dials is dropped: after a redirection the next dial
 * goes to the url's own address again, and a sentinel whose master did not work is asked last.
 */

/* Redirections in a row, without endpoint_mark_healthy between them: two nodes may name each other. */
#define ENDPOINT_REDIRECTS_MAX 5

struct endpoint;

/* The url must outlive the endpoint. */
struct endpoint *endpoint_new(struct event_base *base, const struct redis_url *url);
void endpoint_free(struct endpoint *self);

/* Calls `done` once, from the loop, as dialer_start does. */
void endpoint_dial(struct endpoint *self,
                   void (*done)(void *owner, struct transport *transport, const char *why),
                   void *owner);

/* Stops a dial: `done` is not called. Idempotent. */
void endpoint_cancel(struct endpoint *self);

/* Writes the address of the last dial for people; the url's name when there is none. */
void endpoint_name(const struct endpoint *self, char *out, size_t size);

/* Sends the next dial to this "host:port". False when it is no address, or one of too many in a
   row: then the next dial goes to the url's own address. Sentinels are not redirected. */
bool endpoint_redirect(struct endpoint *self, const char *target);

/* Of several hosts, one was not dialed in this round. A round begins when the server has done what it
   was asked, and when all were dialed. A node that was redirected to is none of them. */
bool endpoint_has_untried(const struct endpoint *self);

/* The server has done what it was asked: the address is kept for the next dial. */
void endpoint_mark_healthy(struct endpoint *self);

#endif
