#ifndef AGENT_DOORS_REDIS_NET_ENDPOINT_H
#define AGENT_DOORS_REDIS_NET_ENDPOINT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/net/url.h"

/*
 * The way to the server, which may move: to the url's own address, to the master that its sentinels
 * name at this moment, or to the node of a cluster that another node has named.
 *
 *   endpoint_dial          done(fd) or done(-1, why)
 *   endpoint_name          where that was
 *   endpoint_redirect      the server has said that it is another one; dial again
 *   endpoint_works         the server does what it is asked
 *
 * A node that was named, and with which nothing worked, is forgotten at the next dial; then it is
 * the url's own address again. A sentinel whose master did not work is asked last.
 */

/* Redirections without anything that worked between them: two nodes that name each other. */
#define ENDPOINT_REDIRECTS_MAX 5

struct endpoint;

/* The url must outlive it. */
struct endpoint *endpoint_new(struct event_base *base, const struct redis_url *url);
void endpoint_free(struct endpoint *self);

/* `done` is called once, from the loop, as dialer_start has it. */
void endpoint_dial(struct endpoint *self, void (*done)(void *owner, int fd, const char *why),
                   void *owner);

/* `done` will not be called. */
void endpoint_cancel(struct endpoint *self);

/* Where the last dial went, for people; the url's name when it went nowhere. */
void endpoint_name(const struct endpoint *self, char *out, size_t size);

/* The next dial goes to this "host:port". False when it cannot: it is no address, or one of too
   many in a row; then the next dial goes to the url's own. */
bool endpoint_redirect(struct endpoint *self, const char *target);

void endpoint_works(struct endpoint *self);

#endif
