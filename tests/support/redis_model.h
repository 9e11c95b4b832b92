#ifndef TESTS_SUPPORT_REDIS_MODEL_H
#define TESTS_SUPPORT_REDIS_MODEL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What a Redis answers to an outbox, for a fake_redis: a transaction does what was queued, but not
 * when the watched key was written meanwhile, nor when a command of it was refused. Only the key
 * `committed` is kept; what else was done is a list.
 *
 *   fake_redis_answer_with(server, redis_model_answer, &model)
 */
struct redis_model {
  char committed[128]; /* its value; empty: there is none */
  char *done;          /* the commands that were executed, one line each */
  int probes;          /* GET committed, which ends each window too; answered or not */
  int executed;        /* transactions */
  bool logged_in;
  bool dirty; /* the watched key was written by somebody else: the next transaction fails */

  /* What the test wants. A command is named by its beginning, after the login. */
  const char *silent_from; /* it and all that follows are done, the answers kept */
  const char *deaf_from;   /* nor done */
  const char *refused;     /* it gets this error, in place of QUEUED when it is in a transaction */
  const char *refusal;
  bool refused_inside;       /* the error is among the answers of EXEC */
  const char *refused_login; /* the same during the login */
  const char *exec_refusal;  /* once: EXEC gets this error, and nothing is done */
  const char *commit_before; /* once: another writes the key in front of a transaction, */
  const char *commit_behind; /* or between one and the next watch; empty: removes it */
  const char *next_answer; /* to what is neither known here nor in a transaction; then nil again */

  bool silent;
  char *unanswered; /* the answers that are kept, until the next login */
  bool in_transaction;
  bool aborted;
  char *queued; /* commands, one line each */
  char *answer;
};

void redis_model_init(struct redis_model *self);
void redis_model_release(struct redis_model *self);

const char *redis_model_answer(void *owner, const char *command);

/* Somebody else writes the key; NULL removes it. */
void redis_model_commit(struct redis_model *self, const char *value);

#endif
