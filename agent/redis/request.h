#ifndef AGENT_REDIS_REQUEST_H
#define AGENT_REDIS_REQUEST_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/redis/hold.h"
#include "agent/redis/link.h"
#include "base/error.h"

/*
 * Commands that go out together, and their answers: what is sent so far, what is answered, and the
 * first of the answers that is an error.
 *
 *   request_init(&request)
 *   request_add(&request, …)              as often as it takes, also when some of it is sent
 *   request_send(&request, link)          now, and whenever the link is writable
 *   request_take(&request, reply)         true with the last answer
 *
 * A command EXEC is the first of its piece, and MULTI the first of all commands.
 */
#define REQUEST_PIECES (HOLD_WINDOW_PIECES + 4)

struct request {
  struct iovec pieces[REQUEST_PIECES];
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

void request_init(struct request *self);

/* A piece is so many whole commands, and must live as long as the request. */
void request_add(struct request *self, const char *text, size_t length, size_t commands);

/* The same for one that begins with EXEC. */
void request_add_exec(struct request *self, const char *text, size_t length, size_t commands);

/* Sends what the link takes now. */
void request_send(struct request *self, struct link *link);

bool request_is_sent(const struct request *self);

/* Takes the next answer; returns whether it was the last of those that are due so far. */
bool request_take(struct request *self, const redisReply *reply);

/* "redis refuses <command> <key>: <refusal>" */
void request_explain_refusal(const struct request *self, struct error *error);

#endif
