#ifndef AGENT_DOORS_REDIS_NET_SENTINEL_H
#define AGENT_DOORS_REDIS_NET_SENTINEL_H

#include <event2/event.h>

#include "agent/doors/redis/net/url.h"

/*
 * Asks the sentinels of a url for the address of the master, one after another until one knows it,
 * without blocking the loop. The one that knew is asked first the next time.
 *
 * A sentinel that requires a password is sent the url's, for its default user; another one never
 * sees it.
 */
#define SENTINEL_ANSWER_MS 2000 /* for each one, from resolving its name to its reply */

struct sentinel;

/* The url has sentinels and must outlive this. */
struct sentinel *sentinel_new(struct event_base *base, const struct redis_url *url);
void sentinel_free(struct sentinel *self);

/* Calls `done` once, from the loop: with the master's address, valid during the call, or with NULL
   and the reason. */
void sentinel_ask(struct sentinel *self,
                  void (*done)(void *owner, const struct redis_address *master, const char *why),
                  void *owner);

/* Stops a query: `done` is not called. Idempotent. */
void sentinel_cancel(struct sentinel *self);

/* The last reply did not lead to a working master: the next query starts at another sentinel. */
void sentinel_doubt(struct sentinel *self);

#endif
