#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/redis/connection/url.h"

/*
 * Chooses the address to dial. The server is at the URL's address; at one of several hosts, of
 * which each dial tries the next until one has worked; at the master that a sentinel has just
 * named; or at the node of a cluster to which another node has redirected. Pure.
 *
 * An address that has not worked between two dials is dropped: after a redirection the next dial
 * goes to the URL's own address again, and a sentinel whose master did not work is asked last.
 * Sentinels are asked one after another until one knows the master; the next dial asks that one
 * first.
 */
struct endpoint {
  const struct redis_url *url;
  size_t host;                 /* the index of the server, or sentinel, whose turn it is */
  size_t tried;                /* how many of several hosts, in this round */
  struct redis_address target; /* a node or master; without a host, the URL's own address */
  struct redis_address at;     /* the address of the last dial; borrowed */
  bool is_redirected;          /* the target was set after the last dial */
  bool unproven;               /* nothing has worked since the last dial */
  unsigned redirects;          /* to nodes, since something worked */
};

/* An endpoint with only a URL, which must outlive it, is ready. */
void endpoint_release(struct endpoint *self);

/* Returns the address to dial next, which is valid until the next call of any function. */
const struct redis_address *endpoint_next(struct endpoint *self);

/* Returns true if the address that was dialed last is that of a sentinel. */
bool endpoint_is_sentinel(const struct endpoint *self);

/* Writes the address that was dialed last, for people; before that and for a sentinel, the URL's
   name. */
void endpoint_name(const struct endpoint *self, char *out, size_t size);

/* Sends the next dial to this "host:port". Returns false if that is no address, or after
   ENDPOINT_REDIRECTS_MAX in a row without endpoint_mark_healthy (two nodes may name each other):
   the next dial goes to the URL's own address then. Masters of sentinels do not redirect. */
#define ENDPOINT_REDIRECTS_MAX 5
bool endpoint_redirect(struct endpoint *self, const char *target);

/* Sends the next dial to the master that a sentinel has named. Takes ownership of the address. */
void endpoint_set_master(struct endpoint *self, struct redis_address master);

/* Returns true if one of several hosts was not dialed in this round. A round begins with
   endpoint_mark_healthy or endpoint_set_master, and after all hosts were dialed. Redirections do
   not count, and the master of a sentinel has no other host. */
bool endpoint_has_untried(const struct endpoint *self);

/* Notes that the server works: the next dial goes to the same address, or asks the same
   sentinel. */
void endpoint_mark_healthy(struct endpoint *self);
