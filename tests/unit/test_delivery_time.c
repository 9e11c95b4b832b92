/* When a delivery does not get an answer. */

#include "tests/support/delivery_owner.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

/* Milliseconds; more than a timer may be late by. */
enum { LATE_MS = 50 };

static int64_t since_ms(int64_t start_ms) {
  return virtual_time_ms - start_ms;
}

static bool is_lost(void *context) {
  const struct delivery_owner *owner = context;
  return delivery_owner_logged(owner, "no answer in time") > 0;
}

/* Half open: what is sent disappears, and nothing says so. */
DELIVERY_TEST(a_batch_without_a_reply_is_a_lost_connection) {
  owner->redis.deaf_from = "MULTI";
  int64_t start_ms = virtual_time_ms;
  delivery_owner_send(owner, "one");
  assert_true(loop_until(&owner->loop, is_lost, owner));
  assert_in_range(since_ms(start_ms), 10900, 10900 + LATE_MS); /* a frozen Redis has 10 s */
  owner->redis.deaf_from = NULL;
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(fake_redis_connections(owner->server), 2);
}

/* The time of an answer begins anew with each request, and ends with its last answer. */
DELIVERY_TEST(an_idle_connection_is_probed) {
  int probes = owner->redis.probes;
  int64_t start_ms = virtual_time_ms;
  loop_await(&owner->loop, &owner->redis.probes, probes + 5);
  assert_in_range(since_ms(start_ms), 5 * 12000 - LATE_MS, 5 * (12000 + LATE_MS));
  assert_string_equal(delivery_owner_last_commands(owner, 2),
                      "WATCH sandbox:j:committed\nGET sandbox:j:committed\n");
  assert_int_equal(owner->redis.executed, 1);
  assert_int_equal(fake_redis_connections(owner->server), 1);
  delivery_owner_deliver(owner, "one");
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

DELIVERY_TEST(a_probe_finds_the_connection_lost) {
  owner->redis.deaf_from = "WATCH";
  assert_true(loop_until(&owner->loop, is_lost, owner));
  owner->redis.deaf_from = NULL;
  delivery_owner_deliver(owner, "one");
  assert_int_equal(fake_redis_connections(owner->server), 2);
}

DELIVERY_TEST(a_probe_finds_another_agent) {
  redis_model_commit(&owner->redis, "2:00000000000000ff:1");
  loop_await(&owner->loop, &owner->failed, 1);
  assert_non_null(strstr(owner->error, "another agent"));
}

DELIVERY_TEST(a_probe_finds_redis_emptied) {
  delivery_owner_deliver(owner, "one");
  redis_model_commit(&owner->redis, NULL);
  loop_await(&owner->loop, &owner->lost_data, 1);
  int probes = owner->redis.probes;
  loop_await(&owner->loop, &owner->redis.probes, probes + 2);
  assert_int_equal(owner->lost_data, 1); /* it is reported once */
  delivery_owner_deliver(owner, "two");
  delivery_owner_expect(owner, "owned delivered lost_data delivered");
}

/* Nothing is left that could be refused: the end of the outage is logged. */
DELIVERY_TEST(a_probe_ends_the_outage) {
  loop_settle(&owner->loop);
  int probes = owner->redis.probes;
  fake_redis_close_connection(owner->server);
  loop_await(&owner->loop, &owner->redis.probes, probes + 1);
  loop_settle(&owner->loop);
  assert_int_equal(delivery_owner_logged(owner, "closed by the server"), 1);
  assert_int_equal(delivery_owner_logged(owner, "again after"), 1);
}

struct reading {
  struct delivery_owner *owner;
  size_t until;
};

static bool has_read(void *context) {
  const struct reading *reading = context;
  size_t length;
  (void)fake_redis_bytes(reading->owner->server, &length);
  return length >= reading->until;
}

/* To send a batch may take longer than REPLY_MS where the bandwidth is small. */
DELIVERY_TEST(a_batch_that_is_still_being_read_is_not_late) {
  enum { LARGE = 8000000, PART = 400000 };
  char *text = malloc(LARGE + 1);
  assert_non_null(text);
  memset(text, 'x', LARGE);
  text[LARGE] = '\0';
  fake_redis_stop_reading(owner->server);
  delivery_owner_put(owner, text);
  int64_t start_ms = virtual_time_ms;
  delivery_owner_flush(owner);
  struct reading reading = {.owner = owner};
  while (since_ms(start_ms) < 20000) {
    fake_redis_read_on(owner->server);
    (void)fake_redis_bytes(owner->server, &reading.until);
    reading.until += PART;
    assert_true(loop_until(&owner->loop, has_read, &reading));
    fake_redis_stop_reading(owner->server);
    virtual_time_pass(&owner->loop, 2000);
  }
  assert_int_equal(owner->delivered, 0);
  fake_redis_read_on(owner->server);
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(fake_redis_connections(owner->server), 1);
  free(text);
}
