#ifndef AGENT_DOORS_REDIS_DELIVERY_PIPELINE_H
#define AGENT_DOORS_REDIS_DELIVERY_PIPELINE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent/doors/redis/client/client.h"
#include "agent/doors/redis/delivery/exchange.h"
#include "agent/doors/redis/delivery/ownership.h"
#include "agent/doors/redis/delivery/send_queue.h"
#include "agent/doors/redis/keys.h"

/*
 * The requests of one connection, one at a time. Between two of them a transaction is open, and
 * nothing is in it: a request begins inside it, and its last command opens the next one.
 *
 *   … the batch's commands …   \
 *   SET committed <value>       > pipeline_execute; in its place DISCARD: pipeline_probe
 *   EXEC                       /
 *   WATCH committed            \  the probe
 *   GET committed              /
 *   … a query …
 *   MULTI
 *
 * MULTI may be refused: by a proxy, by a user's rights, which can change while the connection is in
 * use, or for a moment. Commands that follow it would then be executed one by one: in part, and also
 * when the job is another agent's. So none leaves before MULTI is replied to. Sent at the end of the
 * request before, it costs no round trip. What opens the first transaction is the handshake
 * (preflight.h).
 *
 * Whatever else is refused, nothing of a request is executed that must not be. A command of the
 * batch, or EXEC: Redis drops the transaction. DISCARD: what follows is queued or refused. WATCH,
 * GET or MULTI: the request is refused, and nothing is sent after it on this connection.
 *
 * A transaction is executed only after the one before it was, and only after its owner knows that it
 * was, since it leaves after the replies to it. WATCH precedes GET: if anybody writes `committed`
 * after this GET was executed, or between the two, the next EXEC does nothing. So a value that was
 * read stays true for the transaction that follows it. (EXEC and DISCARD end a watch, hence a new
 * WATCH after each; inside MULTI it is not allowed.)
 *
 *   pipeline_send           now, and whenever the client is writable
 *   pipeline_take           with each reply
 *   pipeline_reset          the connection is lost, and with it what was under way
 *
 *   idle -> busy            pipeline_execute, pipeline_probe
 *   busy -> idle            pipeline_take, with the last reply, if none is refused
 *   any  -> idle            pipeline_reset
 */
struct pipeline {
  const char *key;     /* `committed` */
  char ttl[24];        /* its time to live in seconds; empty: it does not expire */
  char *probe;         /* WATCH and GET */
  char *set;           /* of the transaction that was executed last; NULL: none was */
  struct exchange now; /* the request whose replies are due, or were due last */
  bool is_busy;        /* replies are due, or one was a refusal */
};

/* The keys must outlive the pipeline. `key_ttl_seconds` 0: the key does not expire. */
void pipeline_init(struct pipeline *self, const struct keys *keys,
                   unsigned long long key_ttl_seconds);
void pipeline_release(struct pipeline *self);

/* The key expires so soon, at the latest, after each transaction that begins from here on. */
void pipeline_shorten_ttl(struct pipeline *self, unsigned long long seconds);

/* Begin the next request, with the query behind its probe (NULL, or an empty one: without); only
   when the pipeline is not busy. `value` is what `committed` will hold. The batch's bytes must stay
   in place until it is replied to or the pipeline is reset. */
void pipeline_execute(struct pipeline *self, const struct batch *batch,
                      const char value[OWNERSHIP_TEXT_SIZE], struct query *query);
void pipeline_probe(struct pipeline *self, struct query *query);

/* Sends what the client takes now. */
void pipeline_send(struct pipeline *self, struct client *client);

enum pipeline_reply {
  PIPELINE_PROGRESS,   /* nothing to do: "QUEUED" and the like, or a reply after a refusal */
  PIPELINE_COMMITTED,  /* the value of `committed`; now.executed: the transaction before it was */
  PIPELINE_QUERY,      /* a reply to a command of the query */
  PIPELINE_DONE,       /* the last reply: the next transaction is open */
  PIPELINE_REFUSED,    /* the last reply; now.refusal is the first error among them */
  PIPELINE_UNEXPECTED, /* no reply is due, its command is not sent, or Redis does not answer it so:
                          drop the connection */
};

/* Takes the next reply. After PIPELINE_DONE the pipeline is not busy any more. */
enum pipeline_reply pipeline_take(struct pipeline *self, const redisReply *reply);

/* Forgets the request. */
void pipeline_reset(struct pipeline *self);

#endif
