#ifndef TESTS_SUPPORT_REDIS_MODEL_H
#define TESTS_SUPPORT_REDIS_MODEL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A model of the Redis that an outbox speaks to, for a fake_redis: a transaction is executed unless
 * the watched key was written meanwhile or one of its commands was refused. Of the keys it has only
 * `committed`; the other commands that were executed are a list, in which one that writes and stands
 * outside of a transaction has a line "alone: …".
 *
 *   fake_redis_answer_with(server, redis_model_answer, &model)
 */
struct redis_model {
  char committed[128]; /* the value of the key; empty: it does not exist */
  char *done;          /* the commands that were executed, one line each */
  int probes;          /* number of GET committed, which ends each request, replied to or not */
  int executed;        /* number of transactions */
  bool logged_in;
  bool dirty; /* another client wrote the watched key: the next transaction fails */

  /* Set by the test. A command is given by its beginning; not in the handshake. */
  const char *silent_from; /* from it on commands are executed, but the replies kept back */
  const char *deaf_from;   /* from it on commands are ignored */
  const char *refused;     /* its reply is this error, also in a transaction, in place of QUEUED */
  const char *refusal;
  bool refused_inside;       /* the error is in the reply to EXEC instead */
  const char *refused_login; /* the same in the handshake */
  const char *exec_refusal;  /* once: the reply to EXEC; nothing is executed */
  const char *commit_before; /* once: another client writes the key before a transaction, */
  const char *commit_behind; /* or between one and the next WATCH; empty: removes it */
  const char *next_answer; /* once: the reply to a command that is not known here, instead of nil */

  bool silent;
  char *unanswered; /* the replies that are kept back, until the next handshake */
  bool in_transaction;
  bool aborted;
  char *queued; /* commands, one line each */
  char *answer;
};

void redis_model_init(struct redis_model *self);
void redis_model_release(struct redis_model *self);

const char *redis_model_answer(void *owner, const char *command);

/* Another client writes the key; NULL: removes it. */
void redis_model_commit(struct redis_model *self, const char *value);

#endif
