/* An open transaction that is refused, overtaken by another agent, or lost with all of Redis' data.
 */

#include "tests/support/ahead.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define COMMITTED KEY "committed"
#define PROBE "WATCH " COMMITTED "\nGET " COMMITTED "\n"
#define OTHERS "2:00000000000000ff:1"

static bool again_and_again(void *context) {
  const struct delivery_owner *owner = context;
  return fake_redis_connections(owner->server) >= 4;
}

DELIVERY_TEST(a_refusal_in_the_next_batch_may_pass) {
  owner->redis.refused = "LPUSH " KEY "results 2-";
  owner->redis.refusal = "OOM command not allowed when used memory > 'maxmemory'.";
  ahead_start(owner);
  ahead_let_reply(owner);
  assert_true(loop_until(&owner->loop, again_and_again, owner));
  assert_int_equal(owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "results 1-"), 0);
  assert_int_equal(delivery_owner_logged(owner, "OOM command not allowed"), 1);
  owner->redis.refused = NULL;
  ahead_all_is_done(owner, 0, AHEAD_MORE);
  assert_string_equal(owner->transcript, "owned delivered delivered delivered");
}

DELIVERY_TEST(a_final_refusal_in_the_next_batch_names_its_command) {
  owner->redis.refused = "LPUSH " KEY "results 2-";
  owner->redis.refusal = "NOPERM no permissions";
  ahead_start(owner);
  ahead_let_reply(owner);
  delivery_owner_await(owner, &owner->failed, 1);
  assert_string_equal(owner->error, "redis refuses LPUSH " KEY "results: NOPERM no permissions");
  assert_int_equal(delivery_owner_done(owner, "results 1-"), 0);
  assert_string_equal(owner->transcript, "owned delivered failed");
}

static void is_taken_over(struct delivery_owner *owner) {
  ahead_let_reply(owner);
  delivery_owner_await(owner, &owner->failed, 1);
  loop_settle(&owner->loop);
  assert_string_equal(owner->error, "another agent has taken over this job (" COMMITTED ")");
  assert_int_equal(delivery_owner_done(owner, "results 1-"), 0);
  assert_string_equal(owner->redis.committed, OTHERS);
  assert_int_equal(owner->failed, 1);
  assert_false(fake_redis_is_connected(owner->server));
}

/* Redis itself sees to that: the key was watched before, and then written. */
DELIVERY_TEST(another_agent_takes_over_before_the_next_batch) {
  ahead_start(owner);
  redis_model_commit(&owner->redis, OTHERS);
  is_taken_over(owner);
  assert_string_equal(delivery_owner_last_commands(owner, 3), "EXEC\n" PROBE);
  assert_string_equal(owner->transcript, "owned delivered failed");
}

/* The other agent wrote before the WATCH, so EXEC would not fail. */
DELIVERY_TEST(another_agent_takes_over_before_the_watch) {
  delivery_owner_start(owner);
  owner->redis.commit_behind = OTHERS;
  ahead_go(owner);
  is_taken_over(owner);
  assert_true(ahead_is_last(owner));
  assert_int_equal(delivery_owner_done(owner, "results 0-"), 1);
  assert_string_equal(owner->transcript, "owned failed");
}

DELIVERY_TEST(another_agent_takes_over_before_the_first_batch) {
  delivery_owner_start(owner);
  owner->redis.commit_before = OTHERS;
  ahead_go(owner);
  is_taken_over(owner);
  assert_true(ahead_is_last(owner));
  assert_int_equal(delivery_owner_done(owner, "results 0-"), 0);
  assert_string_equal(owner->transcript, "owned failed");
}

/* What was answered before is not sent again. */
DELIVERY_TEST(redis_is_emptied_before_the_next_batch) {
  ahead_start(owner);
  redis_model_commit(&owner->redis, NULL);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, AHEAD_MORE);
  assert_string_equal(owner->transcript, "owned delivered lost_data delivered delivered");
}

DELIVERY_TEST(redis_is_emptied_before_the_watch) {
  delivery_owner_start(owner);
  owner->redis.commit_behind = "";
  ahead_go(owner);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, AHEAD_MORE);
  assert_string_equal(owner->transcript, "owned lost_data delivered delivered delivered");
}

DELIVERY_TEST(redis_is_emptied_before_the_first_batch) {
  delivery_owner_start(owner);
  redis_model_commit(&owner->redis, NULL);
  ahead_go(owner);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, AHEAD_MORE);
  assert_int_equal(fake_redis_connections(owner->server), 2);
  assert_string_equal(owner->transcript, "owned lost_data delivered delivered delivered");
}

/* Number 0 was done before, and went with what Redis lost: it is done once in each of the two. */
DELIVERY_TEST(redis_is_emptied_while_it_is_unreachable) {
  ahead_start(owner);
  owner->redis.silent_from = NULL;
  fake_redis_close_connection(owner->server);
  redis_model_commit(&owner->redis, NULL);
  ahead_all_is_done(owner, 1, AHEAD_MORE);
  assert_int_equal(delivery_owner_done(owner, "results 0-"), 2);
  assert_string_equal(owner->transcript, "owned lost_data delivered delivered delivered");
}
