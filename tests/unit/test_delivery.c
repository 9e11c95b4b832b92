/* What is delivered, and that it is delivered once, whatever the connection does; what a delivery
   does when it is refused, superseded, asked or gets no answer. In virtual time. */

#include "agent/frontends/redis/connection/command.h"
#include "tests/support/delivery_owner.h"
#include "tests/support/logged.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define COMMITTED KEY "committed"
#define PROBE "WATCH " COMMITTED "\nGET " COMMITTED "\n"
#define PROBE_BYTES                                                                                \
  "*2\r\n$5\r\nWATCH\r\n$19\r\n" COMMITTED "\r\n*2\r\n$3\r\nGET\r\n$19\r\n" COMMITTED "\r\n"

/* The value tells the command from that of the preflight; so does the text after PUSH. */
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

/* Another client writes the key; NULL: removes it. */
static void write_committed(struct delivery_owner *owner, const char *value) {
  char command[256];
  snprintf(command, sizeof command, "SET " COMMITTED " %s", value != NULL ? value : "");
  redis_store_do(owner->store, 3, command);
  if (value == NULL)
    redis_store_do(owner->store, 2, "DEL " COMMITTED);
}

/* Such a command is refused: so often, 0: always. */
static void refuse_command(struct delivery_owner *owner, const char *command, const char *error,
                           size_t times) {
  redis_store_inject(owner->store, (struct redis_store_fault){.command = command,
                                                              .effect = REDIS_STORE_REFUSES,
                                                              .text = error,
                                                              .times = times});
}

/* The next such command, and what comes behind it on its connection, is not executed. */
static void hold_from(struct delivery_owner *owner, const char *command) {
  redis_store_inject(
      owner->store,
      (struct redis_store_fault){.command = command, .effect = REDIS_STORE_HOLDS, .times = 1});
}

/* It is executed, but not replied to. */
static void mute_from(struct delivery_owner *owner, const char *command) {
  redis_store_inject(
      owner->store,
      (struct redis_store_fault){.command = command, .effect = REDIS_STORE_MUTES, .times = 1});
}

/* Another client writes the key, or removes it, before that command, which is held. */
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

static void await_probes(struct delivery_owner *owner, int number) {
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

/* Nothing follows before the handshake is answered. */
NEW_DELIVERY_TEST(the_key_is_watched_before_it_is_read) {
  mute_from(owner, "WATCH " COMMITTED);
  delivery_owner_make(owner, 0);
  await_probes(owner, 1);
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

NEW_DELIVERY_TEST(a_transaction_is_these_bytes) {
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

DELIVERY_TEST(what_is_queued_meanwhile_leaves_with_the_next_batch) {
  mute_from(owner, "EXEC");
  static const char *const texts[] = {"one", "two", "three"};
  for (size_t i = 0; i < 3; i++) {
    delivery_owner_send(owner, texts[i]);
  }
  /* The ownership transaction, and the first of them. */
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
  int probes = delivery_owner_checks(owner);
  delivery_owner_lose(owner, "one", false);
  char *first = strdup(delivery_owner_last_transaction(owner));
  delivery_owner_put(owner, "two"); /* is no part of it */
  delivery_owner_flush(owner);
  hold_from(owner, PUSH "one");
  await_probes(owner, probes + 3); /* lost, probe, again */
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
  await_probes(owner, 2);
  mute_from(owner, CLAIM);
  lose_connection(owner);
  await_probes(owner, 4);
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

DELIVERY_TEST(what_redis_has_lost_was_not_delivered_and_is_reported_once) {
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
  assert_int_equal(delivery_owner_done(owner, "one"), 2); /* once in each of the two */
  is_committed(owner, 1, 3);
  delivery_owner_lose(owner, "two", false); /* that is another time */
  write_committed(owner, NULL);
  loop_await(&owner->loop, &owner->delivered, 3);
  assert_int_equal(owner->lost_data, 2);
}

/* The key was touched, but it is still this agent's. */
DELIVERY_TEST(a_batch_that_was_not_executed_is_sent_again) {
  char *same = strdup(committed_value(owner));
  write_committed(owner, same);
  free(same);
  delivery_owner_deliver(owner, "one");
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  is_committed(owner, 1, 2);
  /* Handshake, ownership, the nil, the repetition. */
  assert_int_equal(delivery_owner_checks(owner), 4);
  assert_int_equal(delivery_owner_connections(owner), 1);
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

DELIVERY_TEST(a_reply_to_no_request_drops_the_connection) {
  loop_settle(&owner->loop);
  redis_store_send(owner->store, "out", "+OK\r\n");
  await_probes(owner, 3);
  assert_int_equal(delivery_owner_connections(owner), 2);
  delivery_owner_deliver(owner, "one");
  is_committed(owner, 1, 2);
}

/* Nor are answers to what was not sent yet. */
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

/* --- answers that do not come ----------------------------------------------------------------- */

/* Milliseconds; more than a timer may be late by. */
enum { LATE_MS = 50 };

static int64_t since_ms(int64_t start_ms) {
  return virtual_time_ms - start_ms;
}

/* Half open: what is sent disappears, and nothing says so. */
DELIVERY_TEST(a_batch_without_a_reply_is_a_lost_connection) {
  hold_from(owner, PUSH "one");
  int64_t start_ms = virtual_time_ms;
  delivery_owner_send(owner, "one");
  LOOP_UNTIL(&owner->loop, loop_logged(&owner->loop, "no answer in time") > 0);
  assert_in_range(since_ms(start_ms), 10900, 10900 + LATE_MS); /* a frozen Redis has 10 s */
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(delivery_owner_connections(owner), 2);
}

/* The time of an answer begins again with each request, and ends with its last answer. */
DELIVERY_TEST(an_idle_connection_is_probed) {
  int probes = delivery_owner_checks(owner);
  int64_t start_ms = virtual_time_ms;
  await_probes(owner, probes + 5);
  assert_in_range(since_ms(start_ms), 5 * 12000 - LATE_MS, 5 * (12000 + LATE_MS));
  loop_settle(&owner->loop);
  assert_string_equal(delivery_owner_last_commands(owner, 4), "DISCARD\n" PROBE "MULTI\n");
  assert_int_equal(delivery_owner_transactions(owner), 1);
  assert_int_equal(delivery_owner_connections(owner), 1);
  delivery_owner_deliver(owner, "one");
  assert_int_equal(delivery_owner_connections(owner), 1);
}

DELIVERY_TEST(a_probe_finds_the_connection_lost) {
  hold_from(owner, "WATCH");
  LOOP_UNTIL(&owner->loop, loop_logged(&owner->loop, "no answer in time") > 0);
  delivery_owner_deliver(owner, "one");
  assert_int_equal(delivery_owner_connections(owner), 2);
}

DELIVERY_TEST(a_probe_finds_redis_emptied) {
  delivery_owner_deliver(owner, "one");
  write_committed(owner, NULL);
  loop_await(&owner->loop, &owner->lost_data, 1);
  int probes = delivery_owner_checks(owner);
  await_probes(owner, probes + 2);
  assert_int_equal(owner->lost_data, 1); /* it is reported once */
  delivery_owner_deliver(owner, "two");
  delivery_owner_expect(owner, "owned delivered lost_data delivered");
}

/* Nothing is left that could be refused: the end of the outage is logged. */
DELIVERY_TEST(a_probe_ends_the_outage) {
  loop_settle(&owner->loop);
  int probes = delivery_owner_checks(owner);
  lose_connection(owner);
  await_probes(owner, probes + 1);
  loop_settle(&owner->loop);
  assert_int_equal(loop_logged(&owner->loop, "closed by the server"), 1);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 1);
}

/* To send a batch may take longer than REPLY_MS where the bandwidth is small. */
DELIVERY_TEST(a_batch_that_is_still_being_read_is_not_late) {
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

/* --- refused and superseded ------------------------------------------------------------------- */

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
  delivery_owner_flush(owner); /* and nothing more is sent */
  loop_settle(&owner->loop);
  assert_int_equal(arrived(owner), before);
}

DELIVERY_TEST(a_passing_refusal_is_sent_again_and_logged_once) {
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

/* Redis refuses EXEC itself when its state has changed since the commands were queued. */
DELIVERY_TEST(so_is_a_refusal_of_the_last_command) {
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

/* Of an error inside a transaction the other commands were executed: it can be tried neither again
   nor not at all. Nothing was delivered. */
TEST(a_final_refusal_names_command_and_key, delivery_owner_set_up, delivery_owner_tear_down) {
  static const struct {
    const char *name;
    enum { NOT_OWNED, QUEUED, EXECUTED } when;
    int done; /* how often the batch was executed */
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
    delivery_owner_put(owner, whole_chunk); /* so that the next is in another one */
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

/* A transaction stays executed, whatever the replies after it are. */
DELIVERY_TEST(a_refusal_after_a_transaction_may_pass) {
  loop_settle(&owner->loop);
  refuse_command(owner, "WATCH " COMMITTED, "CLUSTERDOWN The cluster is down", 0);
  int probes = delivery_owner_checks(owner);
  delivery_owner_send(owner, "one");
  await_probes(owner, probes + 2);
  assert_int_equal(owner->delivered, 0);
  redis_store_inject(owner->store, (struct redis_store_fault){0});
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(owner->failed, 0);
}

DELIVERY_TEST(another_agent_takes_over) {
  delivery_owner_deliver(owner, "one");
  write_committed(owner, OTHERS);
  delivery_owner_send(owner, "two");
  fails(owner, "another agent has taken over this job (" COMMITTED ")");
  assert_int_equal(delivery_owner_done(owner, "two"), 0);
  assert_string_equal(committed_value(owner), OTHERS);
  delivery_owner_expect(owner, "owned delivered failed");
}

DELIVERY_TEST(another_agent_takes_over_during_an_outage) {
  delivery_owner_lose(owner, "one", false);
  write_committed(owner, OTHERS);
  fails(owner, "another agent has taken over");
  assert_int_equal(delivery_owner_done(owner, "one"), 0);
  assert_string_equal(committed_value(owner), OTHERS);
}

/* --- MULTI is refused ------------------------------------------------------------------------- */

/* The batch before it is delivered, and its owner hears of that; of the next one nothing has
   left. */
DELIVERY_TEST(a_multi_refused_for_now_opens_another_connection) {
  loop_settle(&owner->loop);
  refuse_command(owner, "MULTI", "LOADING Redis is loading the dataset in memory", 1);
  delivery_owner_put(owner, "one");
  delivery_owner_flush(owner);
  delivery_owner_put(owner, "two");
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(delivery_owner_done(owner, "two"), 0);
  assert_int_equal(loop_logged(&owner->loop, "LOADING"), 1);
  loop_await(&owner->loop, &owner->delivered, 2);
  delivery_owner_has_done(owner, BATCH("") BATCH(PUSH "one\n") BATCH(PUSH "two\n"));
  assert_int_equal(delivery_owner_connections(owner), 2);
}

DELIVERY_TEST(a_multi_refused_for_good_ends_the_delivery) {
  loop_settle(&owner->loop);
  refuse_command(owner, "MULTI", "NOPERM no permissions", 1);
  delivery_owner_put(owner, "one");
  delivery_owner_flush(owner);
  delivery_owner_put(owner, "two");
  fails(owner, "redis refuses MULTI: NOPERM no permissions");
  delivery_owner_has_done(owner, BATCH("") BATCH(PUSH "one\n"));
}

/* The probe would then be queued, and nothing of it says anything. */
DELIVERY_TEST(so_does_a_refused_discard) {
  loop_settle(&owner->loop);
  refuse_command(owner, "DISCARD", "NOPERM no permissions", 1);
  fails(owner, "redis refuses DISCARD: NOPERM no permissions");
}

/* Between the end of a transaction and the watch of the next one: what would be sent now would be
   executed, since the other agent wrote before the WATCH. */
DELIVERY_TEST(another_agent_takes_over_after_a_batch) {
  hold_from(owner, "WATCH");
  owner->put_when_delivered = "two";
  delivery_owner_send(owner, "one");
  write_before_held(owner, OTHERS);
  fails(owner, "another agent has taken over");
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(delivery_owner_done(owner, "two"), 0);
  assert_string_equal(committed_value(owner), OTHERS);
  delivery_owner_expect(owner, "owned failed"); /* nothing acts on the delivery */
  assert_int_equal(owner->send_queue.bytes, 0);
}

NEW_DELIVERY_TEST(the_second_of_two_that_take_over_loses) {
  hold_from(owner, CLAIM);
  delivery_owner_put(owner, "one");
  delivery_owner_make(owner, 0);
  write_before_held(owner, "1:00000000000000ff:1"); /* it found nothing either */
  fails(owner, "another agent has taken over");
  assert_int_equal(owner->owned, 0);
  assert_string_equal(committed_value(owner), "1:00000000000000ff:1");
  assert_string_equal(redis_store_executed(owner->store), "");
}

/* What was delivered is lost at once. */
static void deliver_and_lose(struct delivery_owner *owner) {
  int delivered = owner->delivered;
  hold_from(owner, "WATCH");
  delivery_owner_send(owner, "one");
  write_before_held(owner, NULL);
  loop_await(&owner->loop, &owner->delivered, delivered + 1);
}

/* What depends on what arrived may depend on what was lost with it. */
DELIVERY_TEST(lost_data_is_reported_before_the_delivery) {
  deliver_and_lose(owner);
  delivery_owner_expect(owner, "owned lost_data delivered");
  delivery_owner_deliver(owner, "two");
  delivery_owner_expect(owner, "owned lost_data delivered delivered");
}

/* --- questions between transactions ----------------------------------------------------------- */

struct asker {
  struct delivery_owner *owner;
  int answers;
  int cut;
  int ask_again;   /* from inside the answer, so often */
  const char *put; /* and this is put first, and goes */
  char text[256];  /* the replies, a space after each */
};

static void ask(struct asker *self);

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  struct asker *self = owner;
  self->answers++;
  self->cut += !whole;
  strncat(strncat(self->text, reply->type == REDIS_REPLY_NIL ? "nil" : reply->str, 64), " ", 2);
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
  const char *words[] = {"LINDEX", KEY "inflight", "-1"};
  delivery_query(self->owner->delivery, command_new(words, 3), on_answer, self);
  delivery_owner_flush(self->owner);
}

/* What LINDEX inflight -1 finds. */
static void put_inflight(struct delivery_owner *owner, const char *text) {
  char command[64];
  snprintf(command, sizeof command, "LPUSH " KEY "inflight %s", text);
  redis_store_do(owner->store, 3, command);
}

/* Asserts that it was the command that arrived with `behind - 1` after it. */
static void was_sent(struct delivery_owner *owner, size_t behind, const char *command) {
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
  assert_int_equal(asker.answers, 0); /* not from inside */
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
  write_committed(owner, NULL); /* the transaction fails, and nobody else has the job */
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

NEW_DELIVERY_TEST(nor_when_the_ownership_transaction_is_lost) {
  struct asker asker = {.owner = owner};
  delivery_owner_make(owner, 0);
  ask(&asker);
  hold_from(owner, "EXEC");
  await_probes(owner, 2);
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
  was_sent(owner, 8, "LINDEX " KEY "inflight -1");
  assert_int_equal(delivery_owner_done(owner, "one\nout SET"), 1);
  assert_int_equal(delivery_owner_done(owner, "two\nout SET"), 1);
}

/* A question that was asked holds no longer when a batch is executed. */
DELIVERY_TEST(no_batch_goes_before_what_is_asked_again) {
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

/* The same connection, another state of Redis. */
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
  was_sent(owner, 9, "GET " KEY "started");
  was_sent(owner, 8, "LINDEX " KEY "inflight -1");
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

DELIVERY_TEST(a_query_refused_for_now_is_sent_again) {
  struct asker asker = {.owner = owner};
  refuse_command(owner, "LINDEX", "LOADING Redis is loading", 1);
  ask(&asker);
  gets(&asker, "nil ");
  assert_int_equal(delivery_owner_connections(owner), 2);
}

DELIVERY_TEST(a_final_refusal_is_reported) {
  struct asker asker = {.owner = owner};
  refuse_command(owner, "LINDEX", "WRONGTYPE Operation", 1);
  ask(&asker);
  loop_await(&owner->loop, &owner->failed, 1);
  assert_string_equal(owner->error, "redis refuses LINDEX " KEY "inflight: WRONGTYPE Operation");
  assert_int_equal(asker.answers, 0);
}

/* What follows a loss writes, and would be lost again. */
DELIVERY_TEST(a_server_that_keeps_nothing_is_told_once) {
  for (int i = 0; i < 3; i++)
    deliver_and_lose(owner);
  assert_int_equal(owner->lost_data, 1);
  delivery_owner_deliver(owner, "kept");
  deliver_and_lose(owner);
  assert_int_equal(owner->lost_data, 2);
}

/* Each of these is an answer of Redis, to something else. */
DELIVERY_TEST(a_reply_of_another_kind_is_none) {
  static const char *const replies[] = {":1\r\n", "$2\r\nOK\r\n", "*0\r\n", "*-1\r\n"};
  for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
    int connections = delivery_owner_connections(owner), delivered = owner->delivered;
    hold_from(owner, PUSH "one");
    delivery_owner_send(owner, "one");
    loop_settle(&owner->loop);
    int64_t start_ms = virtual_time_ms;
    redis_store_send(owner->store, "out", replies[i]);
    loop_await(&owner->loop, &owner->delivered, delivered + 1);
    assert_true(virtual_time_ms - start_ms < 2000); /* it is not waited for */
    assert_int_equal(delivery_owner_connections(owner), connections + 1);
  }
  assert_int_equal(delivery_owner_done(owner, "LPUSH " KEY "results one"), 4);
}
