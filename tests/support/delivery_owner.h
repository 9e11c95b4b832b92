#ifndef TESTS_SUPPORT_DELIVERY_OWNER_H
#define TESTS_SUPPORT_DELIVERY_OWNER_H

#include "agent/doors/redis/out/delivery.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/redis_model.h"

/* The owner of a delivery in a test: the delivery, its send queue, its server, and its callbacks.
 */
struct delivery_owner {
  struct loop loop;
  struct log log; /* at level info, in a file */
  struct fake_redis *server;
  struct redis_model redis;
  struct redis_url url;
  struct keys keys;
  struct send_queue send_queue;
  struct delivery *delivery;
  const char *put_when_delivered; /* queued and flushed from inside delivered(), once */
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
#define DELIVERY_TEST(NAME)                                                                        \
  TEST_WITH(struct delivery_owner *owner, NAME, delivery_owner_set_up, delivery_owner_tear_down)

/* Makes and starts the delivery; delivery_owner_start also runs the loop until owned(). */
void delivery_owner_make(struct delivery_owner *self, unsigned long long key_ttl_seconds);
void delivery_owner_start(struct delivery_owner *self);

/* Queues LPUSH sandbox:j:results <text>; sends what is queued. */
void delivery_owner_put(struct delivery_owner *self, const char *text);
void delivery_owner_flush(struct delivery_owner *self);

/* Queues it, flushes, and runs the loop until it is delivered. */
void delivery_owner_deliver(struct delivery_owner *self, const char *text);

/* Queues it and flushes. It arrives, and is executed if `done`; then the connection is lost without
   a reply. */
void delivery_owner_lose(struct delivery_owner *self, const char *text, bool done);

/* Runs the loop until *number is at least `value`. */
void delivery_owner_await(struct delivery_owner *self, const int *number, int value);

/* How many times the text is in the log. */
int delivery_owner_logged(const struct delivery_owner *self, const char *text);

/* Sends the replies that redis.silent_from kept back. The next command of that name keeps back
   again. */
void delivery_owner_let_reply(struct delivery_owner *self);

/* What arrived on the newest connection, from the last MULTI on, or from the one before it. */
const char *delivery_owner_last_transaction(const struct delivery_owner *self);
const char *delivery_owner_last_two_transactions(const struct delivery_owner *self);

/* The last commands that arrived, one line each; valid until the next call. */
const char *delivery_owner_last_commands(const struct delivery_owner *self, size_t count);

/* How many times the text is in the executed commands. */
int delivery_owner_done(const struct delivery_owner *self, const char *text);

#endif
