#ifndef TESTS_SUPPORT_OUTBOX_OWNER_H
#define TESTS_SUPPORT_OUTBOX_OWNER_H

#include "agent/doors/redis/out/outbox.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/redis_model.h"

/* The owner of an outbox in a test: the outbox, its server, and its callbacks. */
struct outbox_owner {
  struct loop loop;
  struct log log;
  struct fake_redis *server;
  struct redis_model redis;
  struct redis_url url;
  struct keys keys;
  struct outbox *outbox;
  int connected;
  int ready;
  int room;  /* deliveries after which it takes more again */
  int empty; /* deliveries that left nothing */
  int lost_data;
  int unreachable;
  int failed;
  char error[256];
};

/* For cmocka: the state is an outbox_owner without an outbox. */
int outbox_owner_set_up(void **state);
int outbox_owner_tear_down(void **state);
#define OUTBOX_TEST(NAME)                                                                          \
  TEST_WITH(struct outbox_owner *owner, NAME, outbox_owner_set_up, outbox_owner_tear_down)

/* Makes it; makes and starts it, and runs the loop until it is ready. */
void outbox_owner_make(struct outbox_owner *self, unsigned long long key_ttl_seconds,
                       size_t hold_bytes);
void outbox_owner_start(struct outbox_owner *self, unsigned long long key_ttl_seconds,
                        size_t hold_bytes);

/* An event whose line is "<number>", filled up to `length`; a result with exit code 3. */
void outbox_owner_put_event(struct outbox_owner *self, int number, int length);
void outbox_owner_put_result(struct outbox_owner *self, const char *payload);

/* Runs the loop until everything is delivered. */
void outbox_owner_delivers(struct outbox_owner *self);

/* Asserts that the server has executed, since the last call, exactly the commands of these
   beginnings, one line each. */
void outbox_owner_has_done(struct outbox_owner *self, const char *beginnings);

#endif
