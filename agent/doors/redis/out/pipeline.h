#ifndef AGENT_DOORS_REDIS_OUT_PIPELINE_H
#define AGENT_DOORS_REDIS_OUT_PIPELINE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent/doors/redis/client/client.h"
#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/out/exchange.h"
#include "agent/doors/redis/out/ownership.h"
#include "agent/doors/redis/out/send_queue.h"

/*
 * The requests of one connection: at most one whose replies are due (`now`), and the beginning of
 * the transaction after it (`next`). A request is a transaction and a probe, or a probe alone, and
 * may end with a query:
 *
 *   MULTI                      \
 *   … the batch's commands …    > pipeline_open
 *   SET committed <value>      /
 *   EXEC                       \
 *   WATCH committed             > pipeline_execute; the last two alone: pipeline_probe
 *   GET committed              /
 *   … a query …
 *
 * EXEC is sent only when no reply is due: so a transaction is executed only after the one before it
 * was, and only after its owner knows that it was. To wait for this with all of it would cost one
 * round trip per batch. So the next transaction is opened while the one before is under way: Redis
 * reads and queues its commands meanwhile, and they have no effect until the EXEC. If the
 * connection is lost, Redis drops them.
 *
 * The probe ends every request and prepares the next one. WATCH precedes GET: if anybody writes
 * `committed` after this GET was executed, or between the two, the next EXEC does nothing. So a
 * value that was read stays true for the transaction that follows it. (EXEC ends a watch, hence a
 * new WATCH after each. WATCH is not allowed inside MULTI: `next` is opened on the same connection
 * after the WATCH of `now`, never before it.)
 *
 *   pipeline_send           now, and whenever the client is writable
 *   pipeline_take           with each reply
 *   pipeline_settle         when that reply was used
 *   pipeline_reset          the connection is lost, and with it all that was under way
 *
 *   idle -> open            pipeline_open
 *   open -> busy            pipeline_execute
 *   idle -> busy            pipeline_probe
 *   busy -> busy, open      pipeline_open, while there is room
 *   busy -> idle, or open   pipeline_settle after the last reply
 *   any  -> idle            pipeline_reset
 */
struct pipeline {
  const char *key;      /* `committed` */
  char ttl[24];         /* its time to live in seconds; empty: it does not expire */
  char *probe;          /* WATCH and GET */
  struct exchange now;  /* the request whose replies are due, or were due last */
  char *now_set;        /* its SET; NULL: it is a probe alone */
  struct exchange next; /* the transaction that is open, without its EXEC; empty: none is */
  char *next_set;
  bool is_busy; /* replies are due, or the last one is not settled */
};

/* The keys must outlive the pipeline. `key_ttl_seconds` 0: the key does not expire. */
void pipeline_init(struct pipeline *self, const struct keys *keys,
                   unsigned long long key_ttl_seconds);
void pipeline_release(struct pipeline *self);

/* The key expires so soon, at the latest, after each transaction that is opened from here on. */
void pipeline_shorten_ttl(struct pipeline *self, unsigned long long seconds);

/* True when a transaction may be opened while another one is under way: none is open yet, and the
   probe of the first one is not replied to. */
bool pipeline_has_room(const struct pipeline *self);

/* Opens a transaction; only when none is open. `value` is what `committed` will hold. The batch's
   bytes must stay in place until it is replied to or the pipeline is reset. */
void pipeline_open(struct pipeline *self, const struct batch *batch,
                   const char value[OWNERSHIP_TEXT_SIZE]);
bool pipeline_is_open(const struct pipeline *self);

/* Begin the next request, with the query at its end (NULL, or an empty one: without); only when the
   pipeline is not busy. pipeline_execute: the transaction, which must be open. pipeline_probe: none
   must be open. */
void pipeline_execute(struct pipeline *self, const struct query *query);
void pipeline_probe(struct pipeline *self, const struct query *query);

/* Sends what the client takes now. */
void pipeline_send(struct pipeline *self, struct client *client);

enum pipeline_reply {
  PIPELINE_PROGRESS,   /* nothing to do: "QUEUED" and the like, or a reply after a refusal */
  PIPELINE_COMMITTED,  /* the value of `committed`; now.executed: the transaction before it was */
  PIPELINE_QUERY,      /* a reply to a command of the query */
  PIPELINE_REFUSED,    /* the last reply; now.refusal is the first error among them */
  PIPELINE_UNEXPECTED, /* no reply is due, or its command is not sent: drop the connection */
};

/* Takes the next reply; *last: it ends the request. */
enum pipeline_reply pipeline_take(struct pipeline *self, const redisReply *reply, bool *last);

/* The reply was used. After the last one the pipeline is not busy any more. */
void pipeline_settle(struct pipeline *self);

/* Forgets both requests. */
void pipeline_reset(struct pipeline *self);

#endif
