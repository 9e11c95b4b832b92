/* What is delivered, and that it is delivered once, whatever the connection does; and when it does
   not get an answer, in virtual time. */

#include "agent/doors/redis/out/preflight.h"
#include "tests/support/delivery_owner.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define COMMITTED KEY "committed"
#define PROBE "WATCH " COMMITTED "\nGET " COMMITTED "\n"
#define PROBE_BYTES                                                                                \
  "*2\r\n$5\r\nWATCH\r\n$19\r\n" COMMITTED "\r\n*2\r\n$3\r\nGET\r\n$19\r\n" COMMITTED "\r\n"

/* The instance in the middle differs from run to run. */
static void is_committed(const struct delivery_owner *owner, int epoch, int number) {
  int theirs, last, end = 0;
  assert_int_equal(sscanf(owner->redis.committed, "%d:%*16[0-9a-f]:%d%n", &theirs, &last, &end), 2);
  assert_int_equal(theirs, epoch);
  assert_int_equal(last, number);
  assert_int_equal(owner->redis.committed[end], '\0');
}

NEW_DELIVERY_TEST(the_job_is_taken_over_before_anything_is_sent) {
  delivery_owner_put(owner, "early");
  delivery_owner_make(owner, 0);
  delivery_owner_flush(owner);
  loop_await(&owner->loop, &owner->owned, 1);
  assert_int_equal(delivery_owner_done(owner, "SET " COMMITTED " 1:"), 1);
  assert_int_equal(delivery_owner_done(owner, "early"), 0);
  loop_await(&owner->loop, &owner->delivered, 1);
  delivery_owner_expect(owner, "owned delivered");
  char expected[256];
  snprintf(expected, sizeof expected, "\nLPUSH " KEY "results early\nSET " COMMITTED " %s\n",
           owner->redis.committed);
  assert_string_equal(strchr(owner->redis.done, '\n'), expected);
  is_committed(owner, 1, 2);
}

/* With the login, in one write; nothing follows before it is answered. */
NEW_DELIVERY_TEST(the_key_is_watched_before_it_is_read) {
  owner->redis.deaf_from = "WATCH";
  delivery_owner_make(owner, 0);
  loop_await(&owner->loop, &owner->redis.probes, 1);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), 1 + PREFLIGHT_COUNT);
  assert_string_equal(fake_redis_command(owner->server, 0), "CLIENT SETNAME its-name");
  assert_string_equal(delivery_owner_last_commands(owner, 3), "DISCARD\n" PROBE);
}

NEW_DELIVERY_TEST(the_epoch_of_an_earlier_agent_is_raised) {
  strcpy(owner->redis.committed, "41:00000000000000ff:7");
  delivery_owner_start(owner);
  is_committed(owner, 42, 1);
  assert_int_equal(owner->lost_data, 0);
}

NEW_DELIVERY_TEST(a_transaction_is_these_bytes) {
  delivery_owner_make(owner, 60);
  loop_await(&owner->loop, &owner->owned, 1);
  delivery_owner_put(owner, "one");
  delivery_owner_deliver(owner, "two");
  char expected[1024];
  snprintf(expected, sizeof expected,
           "*1\r\n$5\r\nMULTI\r\n"
           "*3\r\n$5\r\nLPUSH\r\n$17\r\n" KEY "results\r\n$3\r\none\r\n"
           "*3\r\n$5\r\nLPUSH\r\n$17\r\n" KEY "results\r\n$3\r\ntwo\r\n"
           "*5\r\n$3\r\nSET\r\n$19\r\n" COMMITTED "\r\n$20\r\n%s\r\n$2\r\nEX\r\n$2\r\n60\r\n"
           "*1\r\n$4\r\nEXEC\r\n" PROBE_BYTES,
           owner->redis.committed);
  assert_string_equal(delivery_owner_last_transaction(owner), expected);
  is_committed(owner, 1, 2);
  assert_int_equal(owner->send_queue.bytes, 0);
}

DELIVERY_TEST(what_is_queued_meanwhile_leaves_with_the_next_batch) {
  owner->redis.silent_from = "EXEC";
  static const char *const texts[] = {"one", "two", "three"};
  for (size_t i = 0; i < 3; i++) {
    delivery_owner_send(owner, texts[i]);
  }
  loop_await(&owner->loop, &owner->redis.executed,
             2); /* the ownership transaction, and the first of them */
  loop_settle(&owner->loop);
  assert_int_equal(owner->redis.probes, 3);
  assert_int_equal(owner->delivered, 0);
  assert_string_equal(delivery_owner_last_commands(owner, 2), PROBE);
  owner->redis.silent_from = NULL;
  owner->put_when_delivered = "four";
  delivery_owner_let_reply(owner);
  loop_await(&owner->loop, &owner->delivered, 3);
  is_committed(owner, 1, 4);
  assert_int_equal(delivery_owner_done(owner, "one\nSET "), 1);
  assert_int_equal(delivery_owner_done(owner, "two\nLPUSH " KEY "results three\nSET "), 1);
  assert_int_equal(delivery_owner_done(owner, "four\nSET "), 1);
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

DELIVERY_TEST(a_batch_whose_reply_was_lost_is_not_sent_again) {
  delivery_owner_lose(owner, "one", true);
  loop_await(&owner->loop, &owner->delivered, 1);
  loop_settle(&owner->loop);
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_string_equal(delivery_owner_last_commands(owner, 3), "DISCARD\n" PROBE);
  assert_int_equal(owner->send_queue.bytes, 0);
  delivery_owner_deliver(owner, "two");
  is_committed(owner, 1, 3);
  delivery_owner_expect(owner, "owned delivered delivered");
}

DELIVERY_TEST(a_lost_batch_is_sent_again_byte_for_byte) {
  int probes = owner->redis.probes;
  delivery_owner_lose(owner, "one", false);
  char *first = strdup(delivery_owner_last_transaction(owner));
  delivery_owner_put(owner, "two"); /* is no part of it */
  delivery_owner_flush(owner);
  owner->redis.deaf_from = "MULTI";
  loop_await(&owner->loop, &owner->redis.probes, probes + 3); /* lost, probe, again */
  assert_string_equal(delivery_owner_last_transaction(owner), first);
  free(first);
  owner->redis.deaf_from = NULL;
  fake_redis_close_connection(owner->server);
  loop_await(&owner->loop, &owner->delivered, 2);
  assert_int_equal(delivery_owner_done(owner, "one\nSET "), 1);
  assert_int_equal(delivery_owner_done(owner, "two\nSET "), 1);
  assert_true(strstr(owner->redis.done, "one") < strstr(owner->redis.done, "two"));
  delivery_owner_expect(owner, "owned delivered delivered");
}

NEW_DELIVERY_TEST(a_lost_ownership_transaction_is_repeated_or_found) {
  owner->redis.deaf_from = "MULTI";
  delivery_owner_make(owner, 0);
  loop_await(&owner->loop, &owner->redis.probes, 2);
  owner->redis.deaf_from = NULL;
  owner->redis.silent_from = "MULTI";
  fake_redis_close_connection(owner->server);
  loop_await(&owner->loop, &owner->redis.probes, 4);
  assert_int_equal(owner->redis.executed, 1);
  assert_int_equal(owner->owned, 0);
  owner->redis.silent_from = NULL;
  fake_redis_close_connection(owner->server);
  loop_await(&owner->loop, &owner->owned, 1);
  loop_settle(&owner->loop);
  assert_int_equal(owner->redis.executed, 1);
  delivery_owner_deliver(owner, "one");
  is_committed(owner, 1, 2);
  delivery_owner_expect(owner, "owned delivered");
}

DELIVERY_TEST(an_emptied_redis_does_not_count_as_delivered) {
  delivery_owner_deliver(owner, "zero");
  delivery_owner_lose(owner, "one", true);
  redis_model_commit(&owner->redis, NULL);
  loop_await(&owner->loop, &owner->delivered, 2);
  delivery_owner_expect(owner, "owned delivered lost_data delivered");
  assert_int_equal(delivery_owner_done(owner, "zero"), 1);
  assert_int_equal(delivery_owner_done(owner, "one"), 2); /* once in each of the two */
  is_committed(owner, 1, 3);
}

DELIVERY_TEST(lost_data_is_reported_once) {
  char earlier[128];
  strcpy(earlier, owner->redis.committed);
  delivery_owner_deliver(owner, "zero");
  delivery_owner_lose(owner, "one", true);
  redis_model_commit(&owner->redis, earlier);
  owner->redis.deaf_from = "MULTI";
  loop_await(&owner->loop, &owner->lost_data, 1);
  owner->redis.deaf_from = NULL;
  fake_redis_close_connection(owner->server);
  loop_await(&owner->loop, &owner->delivered, 2);
  delivery_owner_expect(owner, "owned delivered lost_data delivered");
  is_committed(owner, 1, 3);
  delivery_owner_lose(owner, "two", false); /* that is another time */
  redis_model_commit(&owner->redis, earlier);
  loop_await(&owner->loop, &owner->delivered, 3);
  assert_int_equal(owner->lost_data, 2);
}

/* The key was touched, but it is still this agent's. */
DELIVERY_TEST(a_batch_that_was_not_executed_is_sent_again) {
  owner->redis.dirty = true;
  delivery_owner_deliver(owner, "one");
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  is_committed(owner, 1, 2);
  assert_int_equal(owner->redis.probes, 4); /* handshake, ownership, the nil, the repetition */
  assert_int_equal(fake_redis_connections(owner->server), 1);
  delivery_owner_expect(owner, "owned delivered");
}

/* Many times what a socket takes. */
static char *large_text(size_t length) {
  char *text = malloc(length + 1);
  assert_non_null(text);
  memset(text, 'x', length);
  text[length] = '\0';
  return text;
}

DELIVERY_TEST(a_large_batch_is_sent_as_the_socket_takes_it) {
  char *text = large_text(3000000);
  fake_redis_stop_reading(owner->server);
  delivery_owner_send(owner, text);
  loop_settle(&owner->loop);
  assert_int_equal(owner->delivered, 0);
  fake_redis_close_connection(owner->server); /* half of it was written */
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, text), 1);
  assert_int_equal(fake_redis_connections(owner->server), 2);
  free(text);
}

DELIVERY_TEST(a_reply_to_no_request_drops_the_connection) {
  loop_settle(&owner->loop);
  fake_redis_send(owner->server, "+OK\r\n");
  loop_await(&owner->loop, &owner->redis.probes, 3);
  assert_int_equal(fake_redis_connections(owner->server), 2);
  delivery_owner_deliver(owner, "one");
  is_committed(owner, 1, 2);
}

/* Nor are answers to what was not sent yet. */
DELIVERY_TEST(a_reply_before_its_command_drops_the_connection) {
  char *text = large_text(3000000);
  fake_redis_stop_reading(owner->server);
  delivery_owner_send(owner, text);
  char *number = strrchr(owner->redis.committed, ':') + 1, answers[256];
  snprintf(answers, sizeof answers,
           "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n+OK\r\n+OK\r\n$20\r\n%.*s2\r\n",
           (int)(number - owner->redis.committed), owner->redis.committed);
  fake_redis_send(owner->server, answers);
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(fake_redis_connections(owner->server), 2);
  assert_int_equal(delivery_owner_done(owner, text), 1);
  free(text);
}

/* --- answers that do not come ----------------------------------------------------------------- */

/* Milliseconds; more than a timer may be late by. */
enum { LATE_MS = 50 };

static int64_t since_ms(int64_t start_ms) {
  return virtual_time_ms - start_ms;
}

/* Half open: what is sent disappears, and nothing says so. */
DELIVERY_TEST(a_batch_without_a_reply_is_a_lost_connection) {
  owner->redis.deaf_from = "MULTI";
  int64_t start_ms = virtual_time_ms;
  delivery_owner_send(owner, "one");
  LOOP_UNTIL(&owner->loop, delivery_owner_logged(owner, "no answer in time") > 0);
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
  assert_string_equal(delivery_owner_last_commands(owner, 2), PROBE);
  assert_int_equal(owner->redis.executed, 1);
  assert_int_equal(fake_redis_connections(owner->server), 1);
  delivery_owner_deliver(owner, "one");
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

DELIVERY_TEST(a_probe_finds_the_connection_lost) {
  owner->redis.deaf_from = "WATCH";
  LOOP_UNTIL(&owner->loop, delivery_owner_logged(owner, "no answer in time") > 0);
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

static size_t arrived(const struct delivery_owner *owner) {
  size_t length;
  (void)fake_redis_bytes(owner->server, &length);
  return length;
}

/* To send a batch may take longer than REPLY_MS where the bandwidth is small. */
DELIVERY_TEST(a_batch_that_is_still_being_read_is_not_late) {
  enum { LARGE = 8000000, PART = 400000 };
  char *text = large_text(LARGE);
  fake_redis_stop_reading(owner->server);
  delivery_owner_put(owner, text);
  int64_t start_ms = virtual_time_ms;
  delivery_owner_flush(owner);
  while (since_ms(start_ms) < 20000) {
    size_t before = arrived(owner);
    fake_redis_read_on(owner->server);
    LOOP_UNTIL(&owner->loop, arrived(owner) >= before + PART);
    fake_redis_stop_reading(owner->server);
    virtual_time_pass(&owner->loop, 2000);
  }
  assert_int_equal(owner->delivered, 0);
  fake_redis_read_on(owner->server);
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(fake_redis_connections(owner->server), 1);
  free(text);
}
