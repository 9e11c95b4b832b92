#ifndef AGENT_DOORS_REDIS_DELIVERY_EXCHANGE_H
#define AGENT_DOORS_REDIS_DELIVERY_EXCHANGE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/doors/redis/client/client.h"
#include "agent/doors/redis/delivery/send_queue.h"
#include "base/error.h"

/*
 * Commands that leave together, and their replies: how much of them is sent, how many are replied
 * to, and the first reply that is an error.
 *
 *   exchange_init(&request)
 *   exchange_add(&request, …)              any number of times
 *   exchange_add_exec(&request)            after the commands of a transaction that is open
 *   exchange_send(&request, client)        now, and whenever the client is writable
 *   exchange_take(&request, reply)         returns true with the last reply
 *
 * Nothing is to be released: all texts are borrowed.
 */

/* A batch, the SET, EXEC, the probe, MULTI; a query leaves only with a batch of one piece or none. */
#define EXCHANGE_PIECES (BATCH_PIECES + 4)

struct exchange {
  struct iovec pieces[EXCHANGE_PIECES];
  size_t counts[EXCHANGE_PIECES]; /* of the commands that begin with a piece */
  int count;
  size_t length;    /* bytes in all pieces */
  size_t sent;      /* bytes */
  size_t commands;  /* in all pieces */
  size_t exec;      /* index of EXEC among the commands; 0: there is none, as none is the first */
  size_t probe_end; /* number of commands up to the end of the probe (pipeline.h) */
  size_t probe_length; /* bytes up to there */
  size_t replied;      /* number of replies that came */
  bool executed;       /* EXEC was replied to with the replies of the transaction */
  char refusal[160];   /* the first error among the replies, cut; empty: none */
  size_t refused;      /* index of the command that it is the reply to */
  bool is_odd;         /* a reply was none that Redis gives to such a command */
};

void exchange_init(struct exchange *self);

/* Appends `commands` whole commands, `length` bytes; where they go on in the pieces after it, those
   are appended with 0. The text must stay in place until the commands are replied to, and where one
   of them is refused, until that is explained. At most EXCHANGE_PIECES pieces. */
void exchange_add(struct exchange *self, const char *text, size_t length, size_t commands);

/* Appends EXEC, once, and not as the first. */
void exchange_add_exec(struct exchange *self);

/* Sends what the client takes now. */
void exchange_send(struct exchange *self, struct client *client);

bool exchange_is_sent(const struct exchange *self);

/* Takes the next reply; returns true when none is due after it. */
bool exchange_take(struct exchange *self, const redisReply *reply);

/* Fills in "redis refuses <command> <key>: <why>", of the first refusal. */
void exchange_explain_refusal(const struct exchange *self, const char *why, struct error *error);

/*
 * A query: commands that change nothing, one or several, which are sent again on the next
 * connection until all of them are replied to.
 *
 *   query_put       replaces the query before it
 *   query_add       appends it to an exchange, each time that it is sent
 *     ask()         the first time: what is asked
 *   query_take      with each reply; calls the owner's function with it
 *   query_release
 */
struct query {
  char *(*ask)(void *owner); /* NULL: there is no query */
  char *commands;            /* owned, encoded; NULL: it was not sent yet */
  const char *unanswered;    /* inside `commands`: the first command that is not replied to */
  void (*answer)(void *owner, const redisReply *reply, bool whole);
  void *owner;
};

/* What `ask` returns is freed; `answer` is called once for each command of it, in order. `whole` is
   false when the reply is only the beginning of a string (client_reply_is_truncated). */
void query_put(struct query *self, char *(*ask)(void *owner),
               void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner);
void query_release(struct query *self);

/* Appends the commands that are not replied to. Their text is valid until the last answer() has
   returned, or until query_put or query_release. There must be a query. */
void query_add(struct query *self, struct exchange *request);

/* The next query may be put from inside the last answer(). */
void query_take(struct query *self, const redisReply *reply, bool whole);

#endif
