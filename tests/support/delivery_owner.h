#pragma once

#include "agent/frontends/redis/delivery/delivery.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "base/buffer.h"
#include "tests/support/loop.h"
#include "tests/support/recorder.h"
#include "tests/support/redis_store.h"

/* Owns a delivery in a test, either with a send queue alone or inside an outbox, and records its
   notifications. Also has the server. */
struct delivery_owner {
  struct loop loop;
  struct redis_store *store;
  struct redis_url url;
  struct keys keys;
  struct send_queue send_queue;
  struct delivery *delivery;
  struct outbox *outbox;          /* instead of the previous two */
  const char *put_when_delivered; /* queued once after the next delivery; NULL: nothing */
  struct event *turn;             /* takes the notifications */
  struct recorder recorder;       /* all notifications in order, except unreachable */
  int owned;
  int delivered;
  int capacity; /* deliveries after which the outbox has capacity again */
  int empty;    /* deliveries after which the outbox is empty */
  int lost_data;
  int unreachable;
  int failed;
  char error[256];
  struct buffer commands;
};

/* For cmocka. The state is a delivery_owner, without a delivery or with one that owns the job. */
int delivery_owner_set_up(void **state);
int delivery_owner_set_up_owning(void **state);
int delivery_owner_tear_down(void **state);
#define NEW_DELIVERY_TEST(NAME)                                                                    \
  TEST_WITH(struct delivery_owner *owner, NAME, delivery_owner_set_up, delivery_owner_tear_down)
#define DELIVERY_TEST(NAME)                                                                        \
  TEST_WITH(struct delivery_owner *owner, NAME, delivery_owner_set_up_owning,                      \
            delivery_owner_tear_down)

/* Makes and starts the delivery; the second function also waits until it owns the job. */
void delivery_owner_make(struct delivery_owner *self, unsigned long long key_ttl_seconds);
void delivery_owner_start(struct delivery_owner *self);

/* Queues LPUSH sandbox:j:results <text>; flushes; does both. */
void delivery_owner_put(struct delivery_owner *self, const char *text);
void delivery_owner_flush(struct delivery_owner *self);
void delivery_owner_send(struct delivery_owner *self, const char *text);

/* Queues the text, flushes, and runs the loop until it is delivered. */
void delivery_owner_deliver(struct delivery_owner *self, const char *text);

/* Queues the text and flushes. It arrives, and is executed if `done` is true. Then the connection
   is lost without a reply. */
void delivery_owner_lose(struct delivery_owner *self, const char *text, bool done);

/* Asserts that these were the notifications so far: "owned delivered". */
void delivery_owner_expect(const struct delivery_owner *self, const char *callbacks);

/* Returns the bytes after the MULTI of the last transaction that has an EXEC. */
const char *delivery_owner_last_transaction(const struct delivery_owner *self);

/* Return the commands that arrived, one line each: all, or the last ones. Valid until the next
   call. */
const char *delivery_owner_commands(struct delivery_owner *self);
const char *delivery_owner_last_commands(struct delivery_owner *self, size_t count);

/* Return the number of connections so far, and of ownership checks (GET committed), which are part
   of each handshake and each request. */
int delivery_owner_connections(const struct delivery_owner *self);
int delivery_owner_checks(const struct delivery_owner *self);

/* Return how many times the text occurs in the executed commands, and the number of executed
   transactions. */
int delivery_owner_done(const struct delivery_owner *self, const char *text);
int delivery_owner_transactions(const struct delivery_owner *self);

/* Makes and starts the outbox, and waits until it owns the job. */
void delivery_owner_start_outbox(struct delivery_owner *self, unsigned long long key_ttl_seconds,
                                 size_t hold_bytes);

/* Add an event with the line "<number>", filled up to `length`, and a result with exit code 3. */
void delivery_owner_put_event(struct delivery_owner *self, int number, int length);
void delivery_owner_put_result(struct delivery_owner *self, const char *payload);

/* Runs the loop until everything is delivered. */
void delivery_owner_drain(struct delivery_owner *self);

/* Asserts that since the last call Redis has executed exactly the commands that begin with these
   lines. The commands of a transaction are between "MULTI" and "EXEC". */
void delivery_owner_expect_executed(struct delivery_owner *self, const char *beginnings);
