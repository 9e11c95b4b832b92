#ifndef AGENT_REDIS_QUESTION_H
#define AGENT_REDIS_QUESTION_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent/redis/request.h"

/*
 * What is asked of Redis, one command or several, until all of them are answered. They may be asked
 * twice: what is not answered is asked again on the next connection. Does no I/O.
 *
 *   question_put       instead of what was there
 *   question_add       to a request, each time that it is asked
 *   question_take      each answer
 *     answer()         the same, one for each command, in order
 */
struct question {
  char *commands;         /* owned; NULL: there is no question */
  const char *unanswered; /* where in it the commands begin that are not answered */
  void (*answer)(void *owner, const redisReply *reply, bool whole);
  void *owner;
};

/* Takes the text over. */
void question_put(struct question *self, char *commands,
                  void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner);
void question_release(struct question *self);

/* What is not answered; it lives until the last answer() has returned. */
void question_add(const struct question *self, struct request *request);

/* From inside the last answer() the next question may be put. */
void question_take(struct question *self, const redisReply *reply, bool whole);

#endif
