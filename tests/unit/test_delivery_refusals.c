/* What a delivery does when it is refused, superseded and asked. */

#include "tests/support/delivery_owner.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define COMMITTED KEY "committed"
#define OTHERS "2:00000000000000ff:1"

static void fails(struct delivery_owner *owner, const char *error) {
  loop_await(&owner->loop, &owner->failed, 1);
  loop_settle(&owner->loop);
  if (strstr(owner->error, error) == NULL)
    fail_msg("%s", owner->error);
  assert_int_equal(owner->failed, 1);
  assert_false(fake_redis_is_connected(owner->server));
  assert_true(delivery_is_unreachable(owner->delivery));
  size_t commands = fake_redis_commands(owner->server);
  delivery_owner_flush(owner); /* and nothing more is sent */
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), commands);
}

DELIVERY_TEST(a_passing_refusal_is_sent_again_and_logged_once) {
  owner->redis.refused = "LPUSH";
  owner->redis.refusal = "OOM command not allowed when used memory > 'maxmemory'.";
  delivery_owner_put(owner, "one");
  delivery_owner_send(owner, "two");
  LOOP_UNTIL(&owner->loop, fake_redis_connections(owner->server) >= 5);
  assert_int_equal(delivery_owner_logged(owner, "OOM command not allowed"), 1);
  assert_int_equal(delivery_owner_logged(owner, "again after"), 0);
  assert_false(delivery_is_unreachable(owner->delivery));
  owner->redis.refused = NULL;
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one\nLPUSH " KEY "results two\nSET "), 1);
  delivery_owner_expect(owner, "owned delivered");
  assert_int_equal(delivery_owner_logged(owner, "OOM"), 1);
  assert_int_equal(delivery_owner_logged(owner, "again after"), 1);
}

/* Redis refuses EXEC itself when its state has changed since the commands were queued. */
DELIVERY_TEST(so_is_a_refusal_of_the_last_command) {
  static const char *const refusals[] = {
      "EXECABORT Transaction discarded because of: OOM command not allowed",
      "CLUSTERDOWN The cluster is down"};
  for (int i = 0; i < 2; i++) {
    owner->redis.exec_refusal = refusals[i];
    delivery_owner_deliver(owner, "one");
    assert_int_equal(fake_redis_connections(owner->server), i + 2);
    assert_int_equal(delivery_owner_done(owner, "one"), i + 1);
  }
  owner->redis.exec_refusal = "EXECABORT Transaction discarded because of: NOPERM no";
  delivery_owner_send(owner, "two");
  fails(owner, "redis refuses EXEC: NOPERM no");
}

/* Of an error inside a transaction the other commands were executed: it can be tried neither again
   nor not at all. Nothing was delivered. */
TEST(a_final_refusal_names_command_and_key, delivery_owner_set_up, delivery_owner_tear_down) {
  static const struct {
    const char *name;
    enum { LOGIN, OWNERSHIP, QUEUED, EXECUTED } when;
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
      {"the ownership transaction", OWNERSHIP, 0, "SET " COMMITTED, "NOPERM no permissions",
       "redis refuses SET " COMMITTED ": NOPERM no permissions"},
      {"the handshake", LOGIN, 0, "LREM", "NOPERM no permissions",
       "LREM " KEY "inflight: NOPERM no permissions"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct delivery_owner *owner = *state;
    print_message("%s\n", rows[i].name);
    bool owns = rows[i].when >= QUEUED;
    if (owns)
      delivery_owner_start(owner);
    if (rows[i].when == LOGIN)
      owner->redis.refused_login = rows[i].refused;
    else
      owner->redis.refused = rows[i].refused;
    owner->redis.refused_inside = rows[i].when == EXECUTED;
    owner->redis.refusal = rows[i].refusal;
    if (!owns)
      delivery_owner_make(owner, 0);
    delivery_owner_put(owner, "one");
    delivery_owner_send(owner, "two");
    fails(owner, rows[i].error);
    assert_int_equal(owner->redis.executed, owns + rows[i].done);
    assert_int_equal(delivery_owner_done(owner, "one"), rows[i].done);
    assert_int_equal(owner->owned, owns);
    assert_int_equal(owner->delivered, 0);
    assert_true(owner->send_queue.bytes > 0);
    delivery_owner_tear_down(state);
    delivery_owner_set_up(state);
  }
}

/* A transaction stays executed, whatever the replies after it are. */
DELIVERY_TEST(a_refusal_after_a_transaction_may_pass) {
  loop_settle(&owner->loop);
  owner->redis.refused = "WATCH";
  owner->redis.refusal = "CLUSTERDOWN The cluster is down";
  int probes = owner->redis.probes;
  delivery_owner_send(owner, "one");
  loop_await(&owner->loop, &owner->redis.probes, probes + 2);
  assert_int_equal(owner->delivered, 0);
  owner->redis.refused = NULL;
  loop_await(&owner->loop, &owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(owner->failed, 0);
}

DELIVERY_TEST(another_agent_takes_over) {
  delivery_owner_deliver(owner, "one");
  redis_model_commit(&owner->redis, OTHERS);
  delivery_owner_send(owner, "two");
  fails(owner, "another agent has taken over this job (" COMMITTED ")");
  assert_int_equal(delivery_owner_done(owner, "two"), 0);
  assert_string_equal(owner->redis.committed, OTHERS);
  delivery_owner_expect(owner, "owned delivered failed");
}

DELIVERY_TEST(another_agent_takes_over_during_an_outage) {
  delivery_owner_lose(owner, "one", false);
  redis_model_commit(&owner->redis, OTHERS);
  fails(owner, "another agent has taken over");
  assert_int_equal(delivery_owner_done(owner, "one"), 0);
  assert_string_equal(owner->redis.committed, OTHERS);
}

/* Between the end of a transaction and the watch of the next one: what would be sent now would be
   executed, since the other agent wrote before the WATCH. */
DELIVERY_TEST(another_agent_takes_over_after_a_batch) {
  owner->redis.commit_behind = OTHERS;
  owner->put_when_delivered = "two";
  delivery_owner_send(owner, "one");
  fails(owner, "another agent has taken over");
  assert_int_equal(delivery_owner_done(owner, "one"), 1);
  assert_int_equal(delivery_owner_done(owner, "two"), 0);
  assert_string_equal(owner->redis.committed, OTHERS);
  delivery_owner_expect(owner, "owned failed"); /* nothing acts on the delivery */
  assert_int_equal(owner->send_queue.bytes, 0);
}

NEW_DELIVERY_TEST(the_second_of_two_that_take_over_loses) {
  owner->redis.commit_before = "1:00000000000000ff:1"; /* it found nothing either */
  delivery_owner_put(owner, "one");
  delivery_owner_make(owner, 0);
  fails(owner, "another agent has taken over");
  assert_int_equal(owner->owned, 0);
  assert_string_equal(owner->redis.committed, "1:00000000000000ff:1");
  assert_string_equal(owner->redis.done, "");
}

/* What depends on what arrived may depend on what was lost with it. */
DELIVERY_TEST(lost_data_is_reported_before_the_delivery) {
  owner->redis.commit_behind = "";
  delivery_owner_deliver(owner, "one");
  delivery_owner_expect(owner, "owned lost_data delivered");
  delivery_owner_deliver(owner, "two");
  delivery_owner_expect(owner, "owned lost_data delivered delivered");
}
