#ifndef TESTS_SUPPORT_DELIVERY_OWNER_H
#define TESTS_SUPPORT_DELIVERY_OWNER_H

#include "agent/frontends/redis/delivery/delivery.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "base/buffer.h"
#include "tests/support/loop.h"
#include "tests/support/recorder.h"
#include "tests/support/redis_store.h"

/* The owner of a delivery in a test: the delivery, alone with its send queue or inside an outbox,
   its server, and its news. */
struct delivery_owner {
  struct loop loop;
  struct redis_store *store;
  struct redis_url url;
  struct keys keys;
  struct send_queue send_queue;
  struct delivery *delivery;
  struct outbox *outbox;          /* in place of the two before */
  const char *put_when_delivered; /* queued when something was delivered, once */
  struct event *turn;             /* takes the news */
  struct recorder recorder;       /* the news in order, except unreachable */
  int owned;
  int delivered;
  int capacity; /* deliveries after which the outbox takes more again */
  int empty;    /* deliveries that left nothing in it */
  int lost_data;
  int unreachable;
  int failed;
  char error[256];
  struct buffer commands;
};

/* For cmocka: the state is a delivery_owner without a delivery; one whose delivery owns the job. */
int delivery_owner_set_up(void **state);
int delivery_owner_set_up_owning(void **state);
int delivery_owner_tear_down(void **state);
#define NEW_DELIVERY_TEST(NAME)                                                                    \
  TEST_WITH(struct delivery_owner *owner, NAME, delivery_owner_set_up, delivery_owner_tear_down)
#define DELIVERY_TEST(NAME)                                                                        \
  TEST_WITH(struct delivery_owner *owner, NAME, delivery_owner_set_up_owning,                      \
            delivery_owner_tear_down)

/* Makes and starts the delivery; delivery_owner_start also runs the loop until owned(). */
void delivery_owner_make(struct delivery_owner *self, unsigned long long key_ttl_seconds);
void delivery_owner_start(struct delivery_owner *self);

/* Queues LPUSH sandbox:j:results <text>; sends what is queued; does both. */
void delivery_owner_put(struct delivery_owner *self, const char *text);
void delivery_owner_flush(struct delivery_owner *self);
void delivery_owner_send(struct delivery_owner *self, const char *text);

/* Queues it, flushes, and runs the loop until it is delivered. */
void delivery_owner_deliver(struct delivery_owner *self, const char *text);

/* Queues it and flushes. It arrives, and is executed if `done`; then the connection is lost without
   a reply. */
void delivery_owner_lose(struct delivery_owner *self, const char *text, bool done);

/* Asserts that these were the callbacks so far: "owned delivered". */
void delivery_owner_expect(const struct delivery_owner *self, const char *callbacks);

/* What arrived behind the MULTI of the last transaction that has an EXEC. */
const char *delivery_owner_last_transaction(const struct delivery_owner *self);

/* The commands that arrived, one line each; the last of them. Valid until the next call. */
const char *delivery_owner_commands(struct delivery_owner *self);
const char *delivery_owner_last_commands(struct delivery_owner *self, size_t count);

/* How many connections there were; how often GET committed has arrived, which ends each handshake
   and each request. */
int delivery_owner_connections(const struct delivery_owner *self);
int delivery_owner_checks(const struct delivery_owner *self);

/* How many times the text is in the executed commands; how many transactions are. */
int delivery_owner_done(const struct delivery_owner *self, const char *text);
int delivery_owner_transactions(const struct delivery_owner *self);

/* Makes the outbox; makes and starts it, and runs the loop until it owns the job. */
void delivery_owner_make_outbox(struct delivery_owner *self, unsigned long long key_ttl_seconds,
                                size_t hold_bytes);
void delivery_owner_start_outbox(struct delivery_owner *self, unsigned long long key_ttl_seconds,
                                 size_t hold_bytes);

/* An event whose line is "<number>", filled up to `length`; a result with exit code 3. */
void delivery_owner_put_event(struct delivery_owner *self, int number, int length);
void delivery_owner_put_result(struct delivery_owner *self, const char *payload);

/* Runs the loop until everything is delivered. */
void delivery_owner_drain(struct delivery_owner *self);

/* Asserts that Redis has executed, since the last call, exactly the commands of these beginnings,
   one line each; a transaction's stand between "MULTI" and "EXEC". */
void delivery_owner_has_done(struct delivery_owner *self, const char *beginnings);

#endif
