#ifndef AGENT_DOORS_REDIS_OUT_QUERY_H
#define AGENT_DOORS_REDIS_OUT_QUERY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent/doors/redis/out/exchange.h"

/*
 * What is asked of Redis, one command or several, until all of them are answered. They may be asked
 * twice: what is not answered is asked again on the next connection. Does no I/O.
 *
 *   query_put       instead of what was there
 *   query_add       to a request, each time that it is asked
 *   query_take      each answer
 *     answer()         the same, one for each command, in order
 */
struct query {
  char *commands;         /* owned; NULL: there is no question */
  const char *unanswered; /* where in it the commands begin that are not answered */
  void (*answer)(void *owner, const redisReply *reply, bool whole);
  void *owner;
};

/* Takes the text over. */
void query_put(struct query *self, char *commands,
               void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner);
void query_release(struct query *self);

/* What is not answered; it lives until the last answer() has returned. */
void query_add(const struct query *self, struct exchange *request);

/* From inside the last answer() the next question may be put. */
void query_take(struct query *self, const redisReply *reply, bool whole);

#endif
