#ifndef AGENT_DOORS_REDIS_NET_SENTINEL_H
#define AGENT_DOORS_REDIS_NET_SENTINEL_H

#include <event2/event.h>

#include "agent/doors/redis/net/url.h"

/*
 * Asks sentinels where the master is, one after the other until one knows, without blocking the
 * loop. The one that knew is asked first the next time.
 *
 * A sentinel that wants a password is given the url's, as that of its default user; one that wants
 * none is not told it.
 */
#define SENTINEL_ANSWER_MS 2000 /* for each, from the look-up of its name to its answer */

struct sentinel;

/* The url has sentinels and must outlive it. */
struct sentinel *sentinel_new(struct event_base *base, const struct redis_url *url);
void sentinel_free(struct sentinel *self);

/*
 * `done` is called once, from the loop: with the master's address, valid during the call, or with
 * NULL and the reason.
 */
void sentinel_ask(struct sentinel *self,
                  void (*done)(void *owner, const struct redis_address *master, const char *why),
                  void *owner);

/* `done` will not be called. */
void sentinel_cancel(struct sentinel *self);

/* What the last answer led to was no working master: another sentinel is asked first. */
void sentinel_doubt(struct sentinel *self);

#endif
