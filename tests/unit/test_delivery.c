/* Batches are delivered exactly once, whatever happens to the connection. Also: error replies,
   missing replies, takeovers and queries. Time is virtual. */

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/delivery/preflight.h"
#include "tests/support/delivery_owner.h"
#include "tests/support/logged.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define COMMITTED KEY "committed"
#define PROBE "WATCH " COMMITTED "\nGET " COMMITTED "\n"
#define PROBE_BYTES                                                                                \
  "*2\r\n$5\r\nWATCH\r\n$19\r\n" COMMITTED "\r\n*2\r\n$3\r\nGET\r\n$19\r\n" COMMITTED "\r\n"

/* The value distinguishes this SET from the one of the preflight. The text after PUSH does the same
   for LPUSH. */
#define CLAIM "SET " COMMITTED " 1:"
#define PUSH "LPUSH " KEY "results "
#define BATCH(COMMANDS) "MULTI\n" COMMANDS CLAIM "\nEXEC\n"

static const char *committed_value(const struct delivery_owner *owner) {
  return redis_store_element(owner->store, COMMITTED, 0);
}

/* The instance in the middle differs from run to run. */
static void is_committed(const struct delivery_owner *owner, int epoch, int number) {
  int theirs, last, end = 0;
  assert_int_equal(sscanf(committed_value(owner), "%d:%*16[0-9a-f]:%d%n", &theirs, &last, &end), 2);
  assert_int_equal(theirs, epoch);
  assert_int_equal(last, number);
  assert_int_equal(committed_value(owner)[end], '\0');
}

/* Another client writes the key, or deletes it if the value is NULL. */
static void write_committed(struct delivery_owner *owner, const char *value) {
  char command[256];
  snprintf(command, sizeof command, "SET " COMMITTED " %s", value != NULL ? value : "");
  redis_store_do(owner->store, 3, command);
  if (value == NULL)
    redis_store_do(owner->store, 2, "DEL " COMMITTED);
}

/* Redis rejects commands that begin like this: this many times, or always if `times` is 0. */
static void refuse_command(struct delivery_owner *owner, const char *command, const char *error,
                           size_t times) {
  redis_store_inject(owner->store, (struct redis_store_fault){.command = command,
                                                              .effect = REDIS_STORE_REFUSES,
                                                              .text = error,
                                                              .times = times});
}

/* The next command like this, and those after it on its connection, are not executed. */
static void hold_from(struct delivery_owner *owner, const char *command) {
  redis_store_inject(
      owner->store,
      (struct redis_store_fault){.command = command, .effect = REDIS_STORE_HOLDS, .times = 1});
}

/* The next command like this is executed, but its reply is not sent. */
static void mute_from(struct delivery_owner *owner, const char *command) {
  redis_store_inject(
      owner->store,
      (struct redis_store_fault){.command = command, .effect = REDIS_STORE_MUTES, .times = 1});
}

/* Another client writes or deletes the key before the held command is executed. */
static void write_before_held(struct delivery_owner *owner, const char *value) {
  LOOP_UNTIL(&owner->loop, redis_store_injected(owner->store) > 0);
  write_committed(owner, value);
  redis_store_hold(owner->store, NULL);
}

static void lose_connection(struct delivery_owner *owner) {
  redis_store_lose(owner->store, "out", false);
}

static size_t arrived(const struct delivery_owner *owner) {
  size_t length;
  (void)redis_store_received(owner->store, &length);
  return length;
}

static void await_checks(struct delivery_owner *owner, int number) {
  LOOP_UNTIL(&owner->loop, delivery_owner_checks(owner) >= number);
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
  snprintf(expected, sizeof expected,
           "\nout EXEC\nout MULTI\nout LPUSH " KEY "results early\nout SET " COMMITTED
           " %s\nout EXEC\n",
           committed_value(owner));
  assert_string_equal(strstr(redis_store_executed(owner->store), "\nout EXEC\n"), expected);
  is_committed(owner, 1, 2);
}

NEW_DELIVERY_TEST(the_key_is_watched_before_it_is_read) {
  mute_from(owner, "WATCH " COMMITTED);
  delivery_owner_make(owner, 0);
  await_checks(owner, 1);
  loop_settle(&owner->loop);
  const char *all = delivery_owner_commands(owner), *first = "CLIENT SETNAME sandbox:j:out\n";
  assert_int_equal(logged_count_in(all, "\n"), 1 + PREFLIGHT_COMMANDS);
  assert_int_equal(strncmp(all, first, strlen(first)), 0);
  assert_string_equal(delivery_owner_last_commands(owner, 4), "DISCARD\n" PROBE "MULTI\n");
}

NEW_DELIVERY_TEST(the_epoch_of_an_earlier_agent_is_raised) {
  write_committed(owner, "41:00000000000000ff:7");
  delivery_owner_start(owner);
  is_committed(owner, 42, 1);
  assert_int_equal(owner->lost_data, 0);
}

NEW_DELIVERY_TEST(a_transaction_is_sent_as_these_bytes) {
  delivery_owner_make(owner, 60);
  loop_await(&owner->loop, &owner->owned, 1);
  delivery_owner_put(owner, "one");
  delivery_owner_deliver(owner, "two");
  char expected[1024];
  snprintf(expected, sizeof expected,
           "*3\r\n$5\r\nLPUSH\r\n$17\r\n" KEY "results\r\n$3\r\none\r\n"
           "*3\r\n$5\r\nLPUSH\r\n$17\r\n" KEY "results\r\n$3\r\ntwo\r\n"
           "*5\r\n$3\r\nSET\r\n$19\r\n" COMMITTED "\r\n$20\r\n%s\r\n$2\r\nEX\r\n$2\r\n60\r\n"
           "*1\r\n$4\r\nEXEC\r\n" PROBE_BYTES "*1\r\n$5\r\nMULTI\r\n",
           committed_value(owner));
  assert_string_equal(delivery_owner_last_transaction(owner), expected);
  is_committed(owner, 1, 2);
  assert_int_equal(owner->send_queue.bytes, 0);
}

DELIVERY_TEST(commands_that_are_queued_during_a_batch_leave_with_the_next_one) {
  mute_from(owner, "EXEC");
  static const char *const texts[] = {"one", "two", "three"};
  for (size_t i = 0; i < 3; i++) {
    delivery_owner_send(owner, texts[i]);
  }
  /* The ownership transaction and the first batch. */
  LOOP_UNTIL(&owner->loop, delivery_owner_transactions(owner) >= 2);
  loop_settle(&owner->loop);
  assert_int_equal(delivery_owner_checks(owner), 3);
  assert_int_equal(owner->delivered, 0);
  assert_string_equal(delivery_owner_last_commands(owner, 3), PROBE "MULTI\n");
  owner->put_when_delivered = "four";
  redis_store_hold(owner->store, NULL);
  loop_await(&owner->loop, &owner->delivered, 2);
  is_committed(owner, 1, 3);
  assert_int_equal(delivery_owner_done(owner, "one\nout SET "), 1);
  assert_int_equal(delivery_owner_done(owner, "two\nout " PUSH "three\nout " PUSH "four\nout SET "),
                   1);
  assert_int_equal(delivery_owner_connections(owner), 1);
}

DELIVERY_TEST(a_batch_whose_reply_was_lost_is_not_sent_again) {
  delivery_owner_lose(owner, "one", true);
  loop_await(&owner->loop, &owner->delivered, 1);
  loop_settle(&owner->loop);
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_string_equal(delivery_owner_last_commands(owner, 4), "DISCARD\n" PROBE "MULTI\n");
  assert_int_equal(owner->send_queue.bytes, 0);
  delivery_owner_deliver(owner, "two");
  is_committed(owner, 1, 3);
  delivery_owner_expect(owner, "owned delivered delivered");
}

DELIVERY_TEST(a_lost_batch_is_sent_again_byte_for_byte) {
  int checks = delivery_owner_checks(owner);
  delivery_owner_lose(owner, "one", false);
  char *first = strdup(delivery_owner_last_transaction(owner));
  delivery_owner_put(owner, "two"); /* not a part of the lost batch */
  delivery_owner_flush(owner);
  hold_from(owner, PUSH "one");
  await_checks(owner, checks + 3); /* the lost request, the handshake, the repetition */
  assert_string_equal(delivery_owner_last_transaction(owner), first);
  free(first);
  lose_connection(owner);
  loop_await(&owner->loop, &owner->delivered, 2);
  assert_int_equal(delivery_owner_done(owner, "one\nout SET "), 1);
  assert_int_equal(delivery_owner_done(owner, "two\nout SET "), 1);
  const char *done = redis_store_executed(owner->store);
  assert_true(strstr(done, "one") < strstr(done, "two"));
  delivery_owner_expect(owner, "owned delivered delivered");
}

NEW_DELIVERY_TEST(a_lost_ownership_transaction_is_repeated_or_found) {
  hold_from(owner, CLAIM);
  delivery_owner_make(owner, 0);
  await_checks(owner, 2);
  mute_from(owner, CLAIM);
  lose_connection(owner);
  await_checks(owner, 4);
  assert_int_equal(delivery_owner_transactions(owner), 1);
  assert_int_equal(owner->owned, 0);
  lose_connection(owner);
  loop_await(&owner->loop, &owner->owned, 1);
  loop_settle(&owner->loop);
  assert_int_equal(delivery_owner_transactions(owner), 1);
  delivery_owner_deliver(owner, "one");
  is_committed(owner, 1, 2);
  delivery_owner_expect(owner, "owned delivered");
}

DELIVERY_TEST(lost_data_is_reported_once) {
  char earlier[128];
  strcpy(earlier, committed_value(owner));
  delivery_owner_deliver(owner, "zero");
  delivery_owner_lose(owner, "one", true);
  write_committed(owner, earlier);
  hold_from(owner, PUSH "one");
  loop_await(&owner->loop, &owner->lost_data, 1);
  LOOP_UNTIL(&owner->loop, redis_store_injected(owner->store) > 0);
  lose_connection(owner);
  loop_await(&owner->loop, &owner->delivered, 2);
  delivery_owner_expect(owner, "owned delivered lost_data delivered");
  assert_int_equal(delivery_owner_done(owner, "zero"), 1);
  assert_int_equal(delivery_owner_done(owner, "one"), 2); /* once before and once after the loss */
  is_committed(owner, 1, 3);
  delivery_owner_lose(owner, "two", false); /* a second loss is reported again */
  write_committed(owner, NULL);
  loop_await(&owner->loop, &owner->delivered, 3);
  assert_int_equal(owner->lost_data, 2);
}

/* Another client has written the key, but this agent still owns the job. */
DELIVERY_TEST(a_batch_that_was_not_executed_is_sent_again) {
  char *same = strdup(committed_value(owner));
  write_committed(owner, same);
  free(same);
  delivery_owner_deliver(owner, "one");
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  is_committed(owner, 1, 2);
  /* The handshake, the ownership transaction, the aborted transaction, the repetition. */
  assert_int_equal(delivery_owner_checks(owner), 4);
  assert_int_equal(delivery_owner_connections(owner), 1);
  delivery_owner_expect(owner, "owned delivered");
}

/* Much larger than the buffer of a socket. */
static char *large_text(size_t length) {
  char *text = malloc(length + 1);
  assert_non_null(text);
  memset(text, 'x', length);
  text[length] = '\0';
  return text;
}

DELIVERY_TEST(a_reply_to_no_request_drops_the_connection) {
  loop_settle(&owner->loop);
  redis_store_send(owner->store, "out", "+OK\r\n");
  await_checks(owner, 3);
  assert_int_equal(delivery_owner_connections(owner), 2);
  delivery_owner_deliver(owner, "one");
  is_committed(owner, 1, 2);
}

DELIVERY_TEST(a_reply_before_its_command_drops_the_connection) {
  char *text = large_text(3000000);
  redis_store_stop_reading(owner->store);
  delivery_owner_send(owner, text);
  const char *number = strrchr(committed_value(owner), ':') + 1;
  char answers[256];
  snprintf(answers, sizeof answers,
           "+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n+OK\r\n+OK\r\n$20\r\n%.*s2\r\n+OK\r\n",
           (int)(number - committed_value(owner)), committed_value(owner));
  redis_store_send(owner->store, "out", answers);
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_connections(owner), 2);
  assert_int_equal(delivery_owner_done(owner, text), 1);
  free(text);
}

/* --- missing replies -------------------------------------------------------------------------- */

/* How late a timer may seem to be, in milliseconds. */
enum { LATE_MS = 50 };

static int64_t since_ms(int64_t start_ms) {
  return virtual_time_ms - start_ms;
}

/* The connection is half open: sent bytes disappear without an error. */
DELIVERY_TEST(a_batch_without_a_reply_is_a_lost_connection) {
  hold_from(owner, PUSH "one");
  int64_t start_ms = virtual_time_ms;
  delivery_owner_send(owner, "one");
  LOOP_UNTIL(&owner->loop, loop_logged(&owner->loop, "no answer in time") > 0);
  assert_in_range(since_ms(start_ms), 10900, 10900 + LATE_MS); /* Redis may be frozen for 10 s */
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(delivery_owner_connections(owner), 2);
}

/* The limit for a reply begins with each request, and ends with its last reply. */
DELIVERY_TEST(the_ownership_of_an_idle_connection_is_checked) {
  int checks = delivery_owner_checks(owner);
  int64_t start_ms = virtual_time_ms;
  await_checks(owner, checks + 5);
  assert_in_range(since_ms(start_ms), 5 * 12000 - LATE_MS, 5 * (12000 + LATE_MS));
  loop_settle(&owner->loop);
  assert_string_equal(delivery_owner_last_commands(owner, 4), "DISCARD\n" PROBE "MULTI\n");
  assert_int_equal(delivery_owner_transactions(owner), 1);
  assert_int_equal(delivery_owner_connections(owner), 1);
  delivery_owner_deliver(owner, "one");
  assert_int_equal(delivery_owner_connections(owner), 1);
}

DELIVERY_TEST(an_ownership_check_detects_a_lost_connection) {
  hold_from(owner, "WATCH");
  LOOP_UNTIL(&owner->loop, loop_logged(&owner->loop, "no answer in time") > 0);
  delivery_owner_deliver(owner, "one");
  assert_int_equal(delivery_owner_connections(owner), 2);
}

DELIVERY_TEST(an_ownership_check_detects_lost_data) {
  delivery_owner_deliver(owner, "one");
  write_committed(owner, NULL);
  loop_await(&owner->loop, &owner->lost_data, 1);
  await_checks(owner, delivery_owner_checks(owner) + 2);
  assert_int_equal(owner->lost_data, 1); /* reported once */
  write_committed(owner, NULL);
  loop_await(&owner->loop, &owner->lost_data, 2); /* although no batch was delivered meanwhile */
  delivery_owner_deliver(owner, "two");
  delivery_owner_expect(owner, "owned delivered lost_data delivered lost_data delivered");
}

/* Redis has accepted every command that it could reject, so the end of the outage is logged. */
DELIVERY_TEST(an_ownership_check_ends_the_outage) {
  loop_settle(&owner->loop);
  int checks = delivery_owner_checks(owner);
  lose_connection(owner);
  await_checks(owner, checks + 1);
  loop_settle(&owner->loop);
  assert_int_equal(loop_logged(&owner->loop, "closed by the server"), 1);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 1);
}

/* Sending a batch may take longer than REPLY_MS if the bandwidth is low. */
DELIVERY_TEST(a_batch_that_is_still_being_sent_does_not_time_out) {
  enum { LARGE = 8000000, PART = 400000 };
  char *text = large_text(LARGE);
  redis_store_stop_reading(owner->store);
  delivery_owner_put(owner, text);
  int64_t start_ms = virtual_time_ms;
  delivery_owner_flush(owner);
  while (since_ms(start_ms) < 20000) {
    size_t before = arrived(owner);
    redis_store_read_on(owner->store);
    LOOP_UNTIL(&owner->loop, arrived(owner) >= before + PART);
    redis_store_stop_reading(owner->store);
    virtual_time_pass(&owner->loop, 2000);
  }
  assert_int_equal(owner->delivered, 0);
  redis_store_read_on(owner->store);
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, text), 1);
  assert_int_equal(delivery_owner_connections(owner), 1);
  free(text);
}

/* --- error replies and takeovers -------------------------------------------------------------- */

#define OTHERS "2:00000000000000ff:1"

static void fails(struct delivery_owner *owner, const char *error) {
  loop_await(&owner->loop, &owner->failed, 1);
  loop_settle(&owner->loop);
  if (strstr(owner->error, error) == NULL)
    fail_msg("%s", owner->error);
  assert_int_equal(owner->failed, 1);
  assert_int_equal(redis_store_connections(owner->store, "out"), 0);
  assert_true(delivery_is_unreachable(owner->delivery));
  size_t before = arrived(owner);
  delivery_owner_flush(owner); /* nothing more is sent */
  loop_settle(&owner->loop);
  assert_int_equal(arrived(owner), before);
}

DELIVERY_TEST(after_a_transient_error_the_batch_is_sent_again_and_one_line_logged) {
  refuse_command(owner, PUSH "one", "OOM command not allowed when used memory > 'maxmemory'.", 0);
  delivery_owner_put(owner, "one");
  delivery_owner_send(owner, "two");
  LOOP_UNTIL(&owner->loop, delivery_owner_connections(owner) >= 5);
  assert_int_equal(loop_logged(&owner->loop, "OOM command not allowed"), 1);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 0);
  assert_false(delivery_is_unreachable(owner->delivery));
  redis_store_inject(owner->store, (struct redis_store_fault){0});
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one\nout " PUSH "two\nout SET "), 1);
  delivery_owner_expect(owner, "owned delivered");
  assert_int_equal(loop_logged(&owner->loop, "OOM"), 1);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 1);
}

/* Redis rejects EXEC itself if its state has changed since the commands were queued. */
DELIVERY_TEST(after_a_transient_error_of_exec_the_batch_is_sent_again) {
  static const char *const refusals[] = {
      "EXECABORT Transaction discarded because of: OOM command not allowed",
      "CLUSTERDOWN The cluster is down"};
  for (int i = 0; i < 2; i++) {
    refuse_command(owner, "EXEC", refusals[i], 1);
    delivery_owner_deliver(owner, "one");
    assert_int_equal(delivery_owner_connections(owner), i + 2);
    assert_int_equal(delivery_owner_done(owner, "one"), i + 1);
  }
  refuse_command(owner, "EXEC", "EXECABORT Transaction discarded because of: NOPERM no", 1);
  delivery_owner_send(owner, "two");
  fails(owner, "redis refuses EXEC: NOPERM no");
}

/* After an error inside an executed transaction, the other commands have taken effect. It can be
   neither repeated nor ignored. Nothing counts as delivered. */
TEST(a_permanent_error_names_command_and_key, delivery_owner_set_up, delivery_owner_tear_down) {
  static const struct {
    const char *name;
    enum { NOT_OWNED, QUEUED, EXECUTED } when;
    int done; /* how many times the batch was executed */
    const char *refused, *refusal, *error;
  } rows[] = {
      {"one of a batch", QUEUED, 0, "LPUSH " KEY "results two", "NOPERM no permissions",
       "redis refuses LPUSH " KEY "results: NOPERM no permissions"},
      {"inside a transaction", EXECUTED, 1, "LPUSH " KEY "results two", "OOM which passes",
       "redis refuses LPUSH " KEY "results: OOM which passes"},
      {"the last one of a transaction", QUEUED, 0, "SET " COMMITTED, "WRONGTYPE a key",
       "redis refuses SET " COMMITTED ": WRONGTYPE a key"},
      {"the watch", QUEUED, 1, "WATCH " COMMITTED, "WRONGTYPE a key",
       "redis refuses WATCH " COMMITTED ": WRONGTYPE a key"},
      {"the ownership transaction", NOT_OWNED, 0, CLAIM, "NOPERM no permissions",
       "redis refuses SET " COMMITTED ": NOPERM no permissions"},
      {"the handshake", NOT_OWNED, 0, "LREM", "NOPERM no permissions",
       "LREM " KEY "inflight: NOPERM no permissions"},
  };
  char *whole_chunk = large_text(SEND_QUEUE_CHUNK_SIZE);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct delivery_owner *owner = *state;
    print_message("%s\n", rows[i].name);
    bool owns = rows[i].when >= QUEUED;
    if (owns)
      delivery_owner_start(owner);
    bool inside = rows[i].when == EXECUTED;
    redis_store_inject(owner->store,
                       (struct redis_store_fault){.command = rows[i].refused,
                                                  .effect = inside ? REDIS_STORE_REFUSES_INSIDE
                                                                   : REDIS_STORE_REFUSES,
                                                  .text = rows[i].refusal});
    if (!owns)
      delivery_owner_make(owner, 0);
    delivery_owner_put(owner, "one");
    delivery_owner_put(owner, whole_chunk); /* so that the next command is in another chunk */
    delivery_owner_send(owner, "two");
    fails(owner, rows[i].error);
    assert_int_equal(delivery_owner_transactions(owner), owns + rows[i].done);
    assert_int_equal(delivery_owner_done(owner, "one"), rows[i].done);
    assert_int_equal(owner->owned, owns);
    assert_int_equal(owner->delivered, 0);
    assert_true(owner->send_queue.bytes > 0);
    delivery_owner_tear_down(state);
    delivery_owner_set_up(state);
  }
  free(whole_chunk);
}

/* An executed transaction counts, regardless of the replies that follow it. */
DELIVERY_TEST(an_error_after_a_transaction_may_be_transient) {
  loop_settle(&owner->loop);
  refuse_command(owner, "WATCH " COMMITTED, "CLUSTERDOWN The cluster is down", 0);
  int checks = delivery_owner_checks(owner);
  delivery_owner_send(owner, "one");
  await_checks(owner, checks + 2);
  assert_int_equal(owner->delivered, 0);
  redis_store_inject(owner->store, (struct redis_store_fault){0});
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(owner->failed, 0);
}

DELIVERY_TEST(another_agent_takes_over_during_an_outage) {
  delivery_owner_lose(owner, "one", false);
  write_committed(owner, OTHERS);
  fails(owner, "another agent has taken over");
  assert_int_equal(delivery_owner_done(owner, "one"), 0);
  assert_string_equal(committed_value(owner), OTHERS);
}

/* --- Redis rejects MULTI ---------------------------------------------------------------------- */

/* Redis would queue the ownership check, so that it has no result. */
DELIVERY_TEST(a_permanent_error_of_discard_ends_the_delivery) {
  loop_settle(&owner->loop);
  refuse_command(owner, "DISCARD", "NOPERM no permissions", 1);
  fails(owner, "redis refuses DISCARD: NOPERM no permissions");
}

/* The other agent writes between the end of a transaction and the next WATCH. The next batch would
   be executed, so it must not be sent. */
DELIVERY_TEST(another_agent_takes_over_after_a_batch) {
  hold_from(owner, "WATCH");
  owner->put_when_delivered = "two";
  delivery_owner_send(owner, "one");
  write_before_held(owner, OTHERS);
  fails(owner, "another agent has taken over");
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(delivery_owner_done(owner, "two"), 0);
  assert_string_equal(committed_value(owner), OTHERS);
  delivery_owner_expect(owner, "owned failed"); /* the delivery is not reported */
  assert_int_equal(owner->send_queue.bytes, 0);
}

NEW_DELIVERY_TEST(if_two_agents_take_over_the_second_one_loses) {
  hold_from(owner, CLAIM);
  delivery_owner_put(owner, "one");
  delivery_owner_make(owner, 0);
  write_before_held(owner, "1:00000000000000ff:1"); /* the other agent found no owner, either */
  fails(owner, "another agent has taken over");
  assert_int_equal(owner->owned, 0);
  assert_string_equal(committed_value(owner), "1:00000000000000ff:1");
  assert_string_equal(redis_store_executed(owner->store), "");
}

/* The data is lost right after its delivery. */
static void deliver_and_lose(struct delivery_owner *owner) {
  int delivered = owner->delivered;
  hold_from(owner, "WATCH");
  delivery_owner_send(owner, "one");
  write_before_held(owner, NULL);
  loop_await(&owner->loop, &owner->delivered, delivered + 1);
}

DELIVERY_TEST(lost_data_is_reported_before_the_delivery) {
  deliver_and_lose(owner);
  delivery_owner_expect(owner, "owned lost_data delivered");
  delivery_owner_deliver(owner, "two");
  delivery_owner_expect(owner, "owned lost_data delivered delivered");
}

/* The pauses between attempts grow, because no query is answered. */
DELIVERY_TEST(repeated_losses_of_data_drop_the_connection) {
  for (int losses = 1; losses <= 3; losses++) {
    write_committed(owner, NULL);
    loop_await(&owner->loop, &owner->lost_data, losses);
    loop_await(&owner->loop, &owner->delivered, losses);
  }
  loop_await_log(&owner->loop, "it repeatedly loses acknowledged data");
}

/* The empty transaction of a lost connection is executed between WATCH and EXEC of the next one. */
DELIVERY_TEST(a_late_empty_transaction_removes_no_batch) {
  char late[128];
  delivery_owner_deliver(owner, "one");
  strcpy(late, committed_value(owner));
  late[strlen(late) - 1]++;
  hold_from(owner, CLAIM);
  write_committed(owner, NULL);
  LOOP_UNTIL(&owner->loop, redis_store_injected(owner->store) > 0);
  delivery_owner_put(owner, "two");
  hold_from(owner, "EXEC");
  lose_connection(owner);
  write_before_held(owner, late);
  LOOP_UNTIL(&owner->loop, owner->send_queue.bytes == 0);
  assert_int_equal(delivery_owner_done(owner, "two"), 1);
}

/* --- queries between transactions ------------------------------------------------------------- */

struct asker {
  struct delivery_owner *owner;
  int answers;
  int cut;
  int ask_again;   /* how many times the answer sends the query again */
  const char *put; /* queued and flushed before that; NULL: nothing */
  char text[256];  /* the replies, a space after each */
};

static void ask(struct asker *self);

static void on_answer(void *owner, const struct reply *reply) {
  struct asker *self = owner;
  self->answers++;
  self->cut += reply->is_truncated;
  strncat(strncat(self->text, reply->type == REPLY_NIL ? "nil" : reply->str, 64), " ", 2);
  if (self->put != NULL) {
    delivery_owner_put(self->owner, self->put);
    delivery_owner_flush(self->owner);
    self->put = NULL;
  }
  if (self->ask_again > 0) {
    self->ask_again--;
    ask(self);
  }
}

static void ask(struct asker *self) {
  char *command = command_new(COMMAND("LINDEX", KEY "inflight", "-1"));
  delivery_query(self->owner->delivery, command, on_answer, self);
  delivery_owner_flush(self->owner);
}

/* Sets the value that LINDEX inflight -1 returns. */
static void put_inflight(struct delivery_owner *owner, const char *text) {
  char command[64];
  snprintf(command, sizeof command, "LPUSH " KEY "inflight %s", text);
  redis_store_do(owner->store, 3, command);
}

/* Asserts that this command arrived, followed by `behind - 1` other commands. */
static void expect_sent(struct delivery_owner *owner, size_t behind, const char *command) {
  const char *text = delivery_owner_last_commands(owner, behind);
  assert_int_equal(strcspn(text, "\n"), strlen(command));
  assert_memory_equal(text, command, strlen(command));
}

static void gets(struct asker *asker, const char *text) {
  LOOP_UNTIL(&asker->owner->loop, asker->answers > 0);
  loop_settle(&asker->owner->loop);
  assert_string_equal(asker->text, text);
  asker->answers = 0;
  asker->text[0] = '\0';
}

DELIVERY_TEST(a_query_gets_one_reply) {
  struct asker asker = {.owner = owner};
  put_inflight(owner, "hello");
  ask(&asker);
  assert_int_equal(asker.answers, 0); /* not inside delivery_query */
  gets(&asker, "hello ");
  redis_store_do(owner->store, 2, "DEL " KEY "inflight");
  ask(&asker);
  gets(&asker, "nil ");
  assert_int_equal(asker.cut, 0);
  assert_string_equal(delivery_owner_last_commands(owner, 5),
                      "DISCARD\n" PROBE "LINDEX " KEY "inflight -1\nMULTI\n");
}

NEW_DELIVERY_TEST(a_query_leaves_with_the_ownership_transaction) {
  struct asker asker = {.owner = owner};
  delivery_owner_make(owner, 0);
  ask(&asker);
  put_inflight(owner, "hello");
  gets(&asker, "hello ");
  delivery_owner_expect(owner, "owned");
  int handshake = 1 + PREFLIGHT_COMMANDS;
  assert_int_equal(logged_count_in(delivery_owner_commands(owner), "\n"), handshake + 6);
  assert_string_equal(delivery_owner_last_commands(owner, 5),
                      "EXEC\n" PROBE "LINDEX " KEY "inflight -1\nMULTI\n");
}

NEW_DELIVERY_TEST(without_ownership_a_query_gets_no_reply) {
  struct asker asker = {.owner = owner};
  hold_from(owner, CLAIM);
  delivery_owner_make(owner, 0);
  ask(&asker);
  LOOP_UNTIL(&owner->loop, redis_store_injected(owner->store) > 0);
  write_committed(owner, NULL); /* the transaction is aborted, and no other agent owns the job */
  redis_store_inject(owner->store, (struct redis_store_fault){.command = "LINDEX",
                                                              .effect = REDIS_STORE_ANSWERS,
                                                              .text = "$5\r\nearly\r\n",
                                                              .times = 1});
  redis_store_hold(owner->store, NULL);
  gets(&asker, "nil ");
  delivery_owner_expect(owner, "owned");
  assert_int_equal(delivery_owner_transactions(owner), 1);
  assert_int_equal(delivery_owner_connections(owner), 1);
}

NEW_DELIVERY_TEST(without_a_reply_to_the_ownership_transaction_a_query_gets_no_reply) {
  struct asker asker = {.owner = owner};
  delivery_owner_make(owner, 0);
  ask(&asker);
  hold_from(owner, "EXEC");
  await_checks(owner, 2);
  loop_settle(&owner->loop);
  assert_int_equal(asker.answers, 0);
  lose_connection(owner);
  gets(&asker, "nil ");
  assert_int_equal(owner->owned, 1);
}

DELIVERY_TEST(a_query_follows_the_batch_that_is_under_way) {
  struct asker asker = {.owner = owner};
  delivery_owner_send(owner, "one");
  delivery_owner_put(owner, "two");
  ask(&asker);
  delivery_owner_flush(owner);
  gets(&asker, "nil ");
  loop_await(&owner->loop, &owner->delivered, 2);
  /* one SET EXEC WATCH GET MULTI, DISCARD WATCH GET LINDEX MULTI, two SET EXEC WATCH GET MULTI */
  expect_sent(owner, 8, "LINDEX " KEY "inflight -1");
  assert_int_equal(delivery_owner_done(owner, "one\nout SET"), 1);
  assert_int_equal(delivery_owner_done(owner, "two\nout SET"), 1);
}

/* A batch could change the answer to a query that was sent. */
DELIVERY_TEST(a_query_that_is_sent_again_precedes_the_next_batch) {
  struct asker asker = {.owner = owner, .ask_again = 1};
  ask(&asker);
  hold_from(owner, "LINDEX");
  loop_settle(&owner->loop);
  delivery_owner_send(owner, "one");
  lose_connection(owner);
  gets(&asker, "nil nil ");
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one\nout SET"), 1);
  const char *all = delivery_owner_last_commands(owner, 16);
  assert_true(strstr(all, "LINDEX " KEY "inflight -1") < strstr(all, "LPUSH"));
}

/* The connection is the same, but Redis has another state. */
DELIVERY_TEST(lost_data_is_reported_before_the_reply) {
  struct asker asker = {.owner = owner};
  loop_settle(&owner->loop);
  write_committed(owner, NULL);
  ask(&asker);
  gets(&asker, "nil ");
  assert_non_null(strstr(recorder_text(&owner->recorder), "lost_data"));
}

DELIVERY_TEST(another_owner_is_noticed_before_the_reply) {
  struct asker asker = {.owner = owner};
  loop_settle(&owner->loop);
  write_committed(owner, "9:00000000000000ff:1");
  ask(&asker);
  loop_await(&owner->loop, &owner->failed, 1);
  loop_settle(&owner->loop);
  assert_string_equal(asker.text, "");
}

static void ask_two(struct asker *self) {
  const char *const commands[][COMMAND_LIST_WORDS] = {{"GET", KEY "started"},
                                                      {"LINDEX", KEY "inflight", "-1"}};
  delivery_query(self->owner->delivery, command_list_new(commands, 2), on_answer, self);
  delivery_owner_flush(self->owner);
}

DELIVERY_TEST(replies_to_several_commands_come_in_order) {
  struct asker asker = {.owner = owner, .put = "one"};
  redis_store_do(owner->store, 3, "SET " KEY "started first");
  ask_two(&asker);
  gets(&asker, "first nil ");
  loop_await(&owner->loop, &owner->delivered, 1);
  /* DISCARD WATCH GET, GET LINDEX MULTI, one SET EXEC WATCH GET MULTI */
  expect_sent(owner, 9, "GET " KEY "started");
  expect_sent(owner, 8, "LINDEX " KEY "inflight -1");
}

DELIVERY_TEST(commands_without_a_reply_are_sent_again_after_a_loss) {
  struct asker asker = {.owner = owner};
  hold_from(owner, "LINDEX");
  redis_store_do(owner->store, 3, "SET " KEY "started first");
  ask_two(&asker);
  gets(&asker, "first ");
  lose_connection(owner);
  put_inflight(owner, "second");
  gets(&asker, "second ");
  assert_string_equal(delivery_owner_last_commands(owner, 5),
                      "DISCARD\n" PROBE "LINDEX " KEY "inflight -1\nMULTI\n");
}

DELIVERY_TEST(a_permanent_error_of_a_query_is_reported) {
  struct asker asker = {.owner = owner};
  refuse_command(owner, "LINDEX", "WRONGTYPE Operation", 1);
  ask(&asker);
  loop_await(&owner->loop, &owner->failed, 1);
  assert_string_equal(owner->error, "redis refuses LINDEX " KEY "inflight: WRONGTYPE Operation");
  assert_int_equal(asker.answers, 0);
}

/* The owner writes after a loss, which would be lost again. */
DELIVERY_TEST(a_server_that_loses_every_write_is_reported_once) {
  for (int i = 0; i < 3; i++)
    deliver_and_lose(owner);
  assert_int_equal(owner->lost_data, 1);
  delivery_owner_deliver(owner, "kept");
  deliver_and_lose(owner);
  assert_int_equal(owner->lost_data, 2);
}

/* Redis gives each of these replies to other commands. */
DELIVERY_TEST(a_reply_of_another_type_drops_the_connection) {
  static const char *const replies[] = {":1\r\n", "$2\r\nOK\r\n", "*0\r\n", "*-1\r\n"};
  for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
    int connections = delivery_owner_connections(owner), delivered = owner->delivered;
    hold_from(owner, PUSH "one");
    delivery_owner_send(owner, "one");
    loop_settle(&owner->loop);
    int64_t start_ms = virtual_time_ms;
    redis_store_send(owner->store, "out", replies[i]);
    loop_await(&owner->loop, &owner->delivered, delivered + 1);
    assert_true(virtual_time_ms - start_ms < 2000); /* the agent does not wait for a timeout */
    assert_int_equal(delivery_owner_connections(owner), connections + 1);
  }
  assert_int_equal(delivery_owner_done(owner, "LPUSH " KEY "results one"), 4);
}
