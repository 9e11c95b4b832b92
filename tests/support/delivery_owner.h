#ifndef TESTS_SUPPORT_DELIVERY_OWNER_H
#define TESTS_SUPPORT_DELIVERY_OWNER_H

#include "agent/doors/redis/out/delivery.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/redis_model.h"

/* Who owns a delivery in a test: the delivery, what it delivers, its server, and what it said. */
struct delivery_owner {
  struct loop loop;
  struct log log; /* at level info, in a file */
  struct fake_redis *server;
  struct redis_model redis;
  struct redis_url url;
  struct keys keys;
  struct send_queue send_queue;
  struct delivery *delivery;
  const char *put_when_delivered; /* from inside the callback, and goes on */
  int connected;
  int owned;
  int delivered;
  int lost_data;
  int unreachable;
  int failed;
  char transcript[512]; /* the callbacks in order, separated by a space: "owned delivered" */
  char error[256];
};

/* For cmocka: the state is a delivery_owner without a delivery. */
int delivery_owner_set_up(void **state);
int delivery_owner_tear_down(void **state);

/* Makes and starts it; and runs the loop until the job is claimed. */
void delivery_owner_make(struct delivery_owner *self, unsigned long long key_ttl_seconds);
void delivery_owner_start(struct delivery_owner *self);

/* Holds LPUSH sandbox:j:results <text>; `go` delivers it, in a window with what else is held. */
void delivery_owner_put(struct delivery_owner *self, const char *text);
void delivery_owner_flush(struct delivery_owner *self);

/* Puts it, goes, and runs the loop until it is delivered. */
void delivery_owner_deliver(struct delivery_owner *self, const char *text);

/* Puts it and goes; it arrives and is done, or not even that, but no answer comes back and the
   connection is lost. */
void delivery_owner_lose(struct delivery_owner *self, const char *text, bool done);

/* Runs the loop until the number is so large. */
void delivery_owner_await(struct delivery_owner *self, const int *number, int value);

/* How often such a text is in the log. */
int delivery_owner_logged(const struct delivery_owner *self, const char *text);

/* Sends what redis.silent_from kept back. The next command of that name makes it silent again. */
void delivery_owner_let_reply(struct delivery_owner *self);

/* What arrived on the newest connection, from the last MULTI on, or from the one before it. */
const char *delivery_owner_last_transaction(const struct delivery_owner *self);
const char *delivery_owner_last_two_transactions(const struct delivery_owner *self);

/* The last commands that arrived, one line each; valid until the next call. */
const char *delivery_owner_last_commands(const struct delivery_owner *self, size_t count);

/* How often such a text was executed. */
int delivery_owner_done(const struct delivery_owner *self, const char *text);

#endif
