#ifndef AGENT_REDIS_REQUEST_H
#define AGENT_REDIS_REQUEST_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/redis/link.h"
#include "wire/error.h"

/*
 * Commands that go out together, and their answers: what is sent so far, what is answered, and the
 * first of the answers that is an error.
 *
 *   request_begin(&request, …)
 *   request_send(&request, link)          now, and whenever the link is writable
 *   request_take(&request, reply)         true with the last answer
 */
#define REQUEST_PIECES 3

struct request {
  struct iovec pieces[REQUEST_PIECES];
  size_t sent; /* bytes */
  size_t commands;
  size_t exec;
  size_t answered;
  bool executed;     /* the transaction was */
  char refusal[160]; /* the first error among the answers; empty for none */
  size_t refused;    /* the number of the command that it answers, from 0 */
};

/*
 * Each piece is so many whole commands, or empty, and must live as long as the request; all of them
 * are `commands`. `exec` is the number of the command EXEC, where the first one is MULTI; else 0.
 */
void request_begin(struct request *self, const struct iovec pieces[REQUEST_PIECES], size_t commands,
                   size_t exec);

/* Sends what the link takes now. */
void request_send(struct request *self, struct link *link);

bool request_is_sent(const struct request *self);

/* Takes the next answer; returns whether it was the last. */
bool request_take(struct request *self, const redisReply *reply);

/* "redis refuses <command> <key>: <refusal>" */
void request_explain_refusal(const struct request *self, struct error *error);

#endif
