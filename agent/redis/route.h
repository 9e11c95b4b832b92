#ifndef AGENT_REDIS_ROUTE_H
#define AGENT_REDIS_ROUTE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/redis/url.h"

/*
 * The way to the server, which may move: to the url's own address, to the master that its sentinels
 * name at this moment, or to the node of a cluster that another node has named.
 *
 *   route_dial          done(fd) or done(-1, why)
 *   route_name          where that was
 *   route_redirect      the server has said that it is another one; dial again
 *   route_works         the server does what it is asked
 *
 * A node that was named, and with which nothing worked, is forgotten at the next dial; then it is
 * the url's own address again. A sentinel whose master did not work is asked last.
 */

/* Redirections without anything that worked between them: two nodes that name each other. */
#define ROUTE_REDIRECTS_MAX 5

struct route;

/* The url must outlive it. */
struct route *route_new(struct event_base *base, const struct redis_url *url);
void route_free(struct route *self);

/* `done` is called once, from the loop, as dialer_start has it. */
void route_dial(struct route *self, void (*done)(void *owner, int fd, const char *why),
                void *owner);

/* `done` will not be called. */
void route_cancel(struct route *self);

/* Where the last dial went, for people; the url's name when it went nowhere. */
void route_name(const struct route *self, char *out, size_t size);

/* The next dial goes to this "host:port". False when it cannot: it is no address, or one of too
   many in a row; then the next dial goes to the url's own. */
bool route_redirect(struct route *self, const char *target);

void route_works(struct route *self);

#endif
