#ifndef AGENT_DOORS_REDIS_OUT_EXCHANGE_H
#define AGENT_DOORS_REDIS_OUT_EXCHANGE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/doors/redis/client/client.h"
#include "agent/doors/redis/out/send_queue.h"
#include "base/error.h"

/*
 * Commands that go out together, and their answers: what is sent so far, what is answered, and the
 * first of the answers that is an error.
 *
 *   exchange_init(&request)
 *   exchange_add(&request, …)              as often as it takes, also when some of it is sent
 *   exchange_send(&request, link)          now, and whenever the link is writable
 *   exchange_take(&request, reply)         true with the last answer
 *
 * A command EXEC is the first of its piece, and MULTI the first of all commands.
 */
#define EXCHANGE_PIECES (BATCH_PIECES + 4)

struct exchange {
  struct iovec pieces[EXCHANGE_PIECES];
  int count;
  size_t sent; /* bytes */
  size_t commands;
  size_t exec; /* its number; 0: there is none */
  size_t look; /* as many commands end with the look at `committed`; 0: there is none */
  size_t answered;
  bool executed;     /* the transaction was */
  char refusal[160]; /* the first error among the answers; empty for none */
  size_t refused;    /* the number of the command that it answers, from 0 */
};

void exchange_init(struct exchange *self);

/* A piece is so many whole commands, and must live as long as the request. */
void exchange_add(struct exchange *self, const char *text, size_t length, size_t commands);

/* The same for one that begins with EXEC. */
void exchange_add_exec(struct exchange *self, const char *text, size_t length, size_t commands);

/* Sends what the link takes now. */
void exchange_send(struct exchange *self, struct client *client);

bool exchange_is_sent(const struct exchange *self);

/* Takes the next answer; returns whether it was the last of those that are due so far. */
bool exchange_take(struct exchange *self, const redisReply *reply);

/* "redis refuses <command> <key>: <refusal>" */
void exchange_explain_refusal(const struct exchange *self, struct error *error);

#endif
