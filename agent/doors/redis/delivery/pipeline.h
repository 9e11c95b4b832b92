#ifndef AGENT_DOORS_REDIS_DELIVERY_PIPELINE_H
#define AGENT_DOORS_REDIS_DELIVERY_PIPELINE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent/doors/redis/delivery/ownership.h"
#include "agent/doors/redis/delivery/send_queue.h"
#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/link/client.h"
#include "base/error.h"

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
 * (pipeline_preflight).
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

/* A batch, the SET, EXEC, the probe, MULTI; a query leaves only with a batch of one piece or none. */
#define EXCHANGE_PIECES (BATCH_PIECES + 4)

/* Commands that leave together, and their replies. All texts are borrowed. */
struct exchange {
  struct iovec pieces[EXCHANGE_PIECES];
  size_t counts[EXCHANGE_PIECES]; /* of the commands that begin with a piece */
  int count;
  size_t length;       /* bytes in all pieces */
  size_t sent;         /* bytes */
  size_t commands;     /* in all pieces */
  size_t exec;         /* index of EXEC among the commands; 0: there is none */
  size_t probe_end;    /* number of commands up to the end of the probe */
  size_t probe_length; /* bytes up to there */
  size_t replied;      /* number of replies that came */
  bool executed;       /* EXEC was replied to with the replies of the transaction */
  char refusal[160];   /* the first error among the replies, cut; empty: none */
  size_t refused;      /* index of the command that it is the reply to */
  bool is_odd;         /* a reply was none that Redis gives to such a command */
};

struct pipeline {
  const char *key;     /* `committed` */
  char ttl[24];        /* its time to live in seconds; empty: it does not expire */
  char *preflight;     /* see pipeline_preflight */
  const char *probe;   /* WATCH and GET, inside of it */
  size_t probe_bytes;  /* their length */
  char *set;           /* of the transaction that was executed last; NULL: none was */
  struct exchange now; /* the request whose replies are due, or were due last */
  bool is_busy;        /* replies are due, or one was a refusal */
};

/* The keys must outlive the pipeline. `trims`: XTRIM is among what is sent. `key_ttl_seconds` 0: the
   key does not expire. */
void pipeline_init(struct pipeline *self, const struct keys *keys, bool trims,
                   unsigned long long key_ttl_seconds);
void pipeline_release(struct pipeline *self);

/*
 * The commands that end the handshake: they check that each key has the expected type and that each
 * command of the agent is permitted, and change nothing. So a wrong key or a missing permission fails
 * at boot, with an error that names command and key, and not with the first result. What would write
 * leaves when the MULTI before it is accepted: where MULTI is refused it would be executed. The last
 * three are the first probe and the first MULTI; the handshake's value is that of `committed`.
 */
#define PREFLIGHT_COMMANDS 27
struct handshake_probe pipeline_preflight(const struct pipeline *self);

/* The key expires so soon, at the latest, after each transaction that begins from here on. */
void pipeline_shorten_ttl(struct pipeline *self, unsigned long long seconds);

/*
 * A query: commands that change nothing, one or several. Those that are not replied to leave again
 * with the next request that is given the query. When the last one is answered it is empty.
 */
typedef char *query_ask(void *owner); /* returns encoded commands, to be freed */
typedef void query_answer(void *owner, const redisReply *reply, bool whole);

struct query {
  query_ask *ask;         /* returns what is asked, when it is sent first; NULL: empty */
  char *commands;         /* owned, encoded; NULL: it was not sent yet */
  const char *unanswered; /* inside `commands`: the first command that is not replied to */
  query_answer *answer;
  void *owner;
};

/* Replaces the query before it. */
void query_put(struct query *self, query_ask *ask, query_answer *answer, void *owner);
void query_release(struct query *self);

/* Calls answer() with the reply to the next command. The next query may be put from inside the last
   answer(). */
void query_take(struct query *self, const redisReply *reply, bool whole);

/* Begin the next request, with the query behind its probe (NULL, or an empty one: without); only
   when the pipeline is not busy. `value` is what `committed` will hold. The batch's bytes must stay
   in place until it is replied to or the pipeline is reset. */
void pipeline_execute(struct pipeline *self, const struct batch *batch, const char *value,
                      struct query *query);
void pipeline_probe(struct pipeline *self, struct query *query);

/* Sends what the client takes now. */
void pipeline_send(struct pipeline *self, struct client *client);

enum pipeline_reply {
  PIPELINE_PROGRESS,   /* nothing to do: "QUEUED" and the like, or a reply after a refusal */
  PIPELINE_COMMITTED,  /* the value of `committed`; now.executed: the transaction before it was */
  PIPELINE_QUERY,      /* a reply to a command of the query: query_take */
  PIPELINE_DONE,       /* the last reply: the next transaction is open */
  PIPELINE_REFUSED,    /* the last reply; now.refusal is the first error among them */
  PIPELINE_UNEXPECTED, /* no reply is due, its command is not sent, or Redis does not answer it so:
                          drop the connection */
};

/* Takes the next reply. After PIPELINE_DONE the pipeline is not busy any more. */
enum pipeline_reply pipeline_take(struct pipeline *self, const redisReply *reply);

/* Fills in "redis refuses <command> <key>: <why>", of the first refusal. */
void pipeline_explain_refusal(const struct pipeline *self, const char *why, struct error *error);

/* Forgets the request. */
void pipeline_reset(struct pipeline *self);

#endif
