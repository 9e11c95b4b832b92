#ifndef TESTS_SUPPORT_REDIS_LISTS_H
#define TESTS_SUPPORT_REDIS_LISTS_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/fake_redis.h"

/*
 * A Redis with the lists of a job, for an outbox and a consumer, each of which has a fake_redis of
 * its own. Does what the two send: transactions are executed as a whole, BLMOVE waits. A text may
 * hold no line break; a payload may hold spaces.
 */
struct text_list {
  char **texts; /* the first one is the head */
  size_t count;
};

/* What a snapshot of it has. */
struct redis_lists_data {
  struct text_list in, inflight, results;
  char *committed, *started; /* NULL: not there */
};

struct redis_lists {
  struct fake_redis *out, *in; /* the outbox connects to the first, the consumer to the second */
  struct redis_lists_data data;
  bool logged_in;
  bool in_transaction;
  struct text_list queued; /* of the transaction */
  bool waits;              /* a BLMOVE waits on the consumer's connection */
  int strays;              /* and so many on connections that nobody reads any more */
  char *answer;
};

void redis_lists_init(struct redis_lists *self, struct event_base *base);
void redis_lists_release(struct redis_lists *self);

/* LPUSH in. */
void redis_lists_push(struct redis_lists *self, const char *payload);

/* The consumer's connection is lost; `stray`: a BLMOVE that waits on it takes the next step. */
void redis_lists_lose_consumer(struct redis_lists *self, bool stray);
void redis_lists_lose_outbox(struct redis_lists *self);

/* The data of now; restored, when Redis is killed and comes back with it. NULL: with nothing. */
struct redis_lists_data redis_lists_snapshot(const struct redis_lists *self);
void redis_lists_restore(struct redis_lists *self, const struct redis_lists_data *snapshot);
void redis_lists_data_release(struct redis_lists_data *self);

#endif
