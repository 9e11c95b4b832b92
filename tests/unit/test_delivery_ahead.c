/* The transaction that is opened while the one before it is under way: all of it but its EXEC. */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/doors/redis/net/command.h"
#include "tests/support/ahead.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define COMMITTED KEY "committed"
#define PROBE "WATCH " COMMITTED "\nGET " COMMITTED "\n"

/* Many times what a socket takes; each one is a batch by itself. */
enum { LARGE = 3000000 };

/* This stands before the C library's. Of what is large some is taken, or nothing, by chance: so
   there may be room again between two attempts in a row. */
ssize_t writev(int fd, const struct iovec *pieces, int count) {
  size_t wanted = 0;
  for (int i = 0; i < count; i++)
    wanted += pieces[i].iov_len;
  if (wanted < LARGE / 2)
    return syscall(SYS_writev, fd, pieces, count);
  size_t most = (size_t)random() % 100000;
  if (most % 2 == 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(fd, pieces[0].iov_base, most < pieces[0].iov_len ? most : pieces[0].iov_len);
}

/* The last commands are these; of each record, the beginning. */
static void came_last(const struct delivery_owner *owner, const char *const commands[],
                      size_t count) {
  size_t first = fake_redis_commands(owner->server) - count;
  for (size_t i = 0; i < count; i++) {
    const char *command = fake_redis_command(owner->server, first + i);
    if (strncmp(command, commands[i], strlen(commands[i])) != 0)
      fail_msg("%.80s, not %s", command, commands[i]);
  }
}

DELIVERY_TEST(the_next_batch_is_executed_after_the_first) {
  ahead_start(owner);
  const size_t ahead = 1 + AHEAD_BATCH + 1; /* MULTI … SET */
  size_t commands = fake_redis_commands(owner->server);
  assert_string_equal(fake_redis_command(owner->server, commands - ahead), "MULTI");
  assert_string_equal(fake_redis_command(owner->server, commands - ahead - 1), "GET " COMMITTED);
  delivery_owner_let_reply(owner); /* and the next EXEC is not answered */
  delivery_owner_await(owner, &owner->redis.executed, 3);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), commands + 3);
  assert_string_equal(delivery_owner_last_commands(owner, 3), "EXEC\n" PROBE);
  assert_int_equal(owner->delivered, 1);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, AHEAD_MORE);
  assert_string_equal(owner->transcript, "owned delivered delivered delivered");
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

DELIVERY_TEST(each_batch_is_followed_by_the_next) {
  delivery_owner_start(owner);
  owner->redis.silent_from = "EXEC";
  ahead_send_first(owner);
  ahead_put_records(owner, 1, 3 * AHEAD_MORE);
  for (int batch = 3; batch <= 5; batch++) {
    ahead_await(owner, batch);
    assert_int_equal(owner->redis.executed, batch - 1);
    assert_int_equal(owner->delivered, batch - 3);
    delivery_owner_let_reply(owner);
  }
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, 3 * AHEAD_MORE);
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

/* More may come, which then goes with it. */
DELIVERY_TEST(less_than_a_full_batch_is_not_opened_early) {
  delivery_owner_start(owner);
  owner->redis.silent_from = "EXEC";
  ahead_send_first(owner);
  size_t commands = fake_redis_commands(owner->server);
  ahead_put_records(owner, 1, AHEAD_BATCH);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), commands);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, AHEAD_BATCH);
  assert_int_equal(fake_redis_commands(owner->server), commands + 1 + AHEAD_BATCH + 4);
  assert_string_equal(owner->transcript, "owned delivered delivered");
}

/* Nobody knows yet whether the job is this agent's. */
DELIVERY_TEST(nothing_is_opened_during_the_ownership_transaction) {
  owner->redis.silent_from = "EXEC";
  delivery_owner_make(owner, 0);
  delivery_owner_await(owner, &owner->redis.executed, 1);
  ahead_put_records(owner, 0, 2 * AHEAD_MORE);
  loop_settle(&owner->loop);
  assert_string_equal(delivery_owner_last_commands(owner, 2), PROBE);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, 2 * AHEAD_MORE);
}

DELIVERY_TEST(the_connection_is_lost_after_the_first_was_executed) {
  ahead_start(owner);
  char *ahead = strdup(delivery_owner_last_transaction(owner));
  int probes = owner->redis.probes;
  fake_redis_close_connection(owner->server);
  delivery_owner_await(owner, &owner->redis.probes, probes + 2); /* found; and sent, not answered */
  const char *again = delivery_owner_last_transaction(owner);
  assert_memory_equal(again, ahead, strlen(ahead));
  assert_int_equal(strncmp(again + strlen(ahead), "*1\r\n$4\r\nEXEC\r\n", 14), 0);
  assert_string_equal(owner->transcript, "owned delivered");
  free(ahead);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, AHEAD_MORE);
  assert_int_equal(fake_redis_connections(owner->server), 2);
}

/* Twice, the second time with more queued: both transactions stay what they are. */
DELIVERY_TEST(the_connection_is_lost_before_the_first_was_executed) {
  delivery_owner_start(owner);
  owner->redis.deaf_from = "EXEC";
  ahead_send_first(owner);
  ahead_put_records(owner, 1, AHEAD_MORE);
  ahead_await(owner, 3);
  char *both = strdup(delivery_owner_last_two_transactions(owner));
  ahead_put(owner, AHEAD_MORE + 1, 10);
  owner->redis.deaf_from = "EXEC";
  fake_redis_close_connection(owner->server);
  int probes = owner->redis.probes;
  delivery_owner_await(owner, &owner->redis.probes, probes + 2);
  delivery_owner_flush(owner);
  ahead_await(owner, 3);
  assert_string_equal(delivery_owner_last_two_transactions(owner), both);
  assert_int_equal(owner->redis.executed, 1);
  free(both);
  owner->redis.deaf_from = NULL;
  fake_redis_close_connection(owner->server);
  ahead_all_is_done(owner, 0, AHEAD_MORE + 1);
  assert_string_equal(owner->transcript, "owned delivered delivered delivered");
}

/* The key was touched, but it is still this agent's: the one ahead must not be executed before. */
DELIVERY_TEST(redis_drops_the_next_when_the_first_was_not_executed) {
  delivery_owner_start(owner);
  owner->redis.dirty = true;
  ahead_go(owner);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, AHEAD_MORE);
  assert_int_equal(fake_redis_connections(owner->server), 2);
  assert_string_equal(owner->transcript, "owned delivered delivered delivered");
}

/* And so may it itself: nothing is ahead of it any more. */
DELIVERY_TEST(a_next_batch_that_was_not_executed_is_sent_again) {
  ahead_start(owner);
  owner->redis.dirty = true;
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, AHEAD_MORE);
  assert_int_equal(fake_redis_connections(owner->server), 1);
  assert_string_equal(owner->transcript, "owned delivered delivered delivered");
}

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  assert_int_equal(reply->type, REDIS_REPLY_NIL);
  assert_true(whole);
  ++*(int *)owner;
}

/* Inside of a transaction it would not be answered. Nor does it wait for more than these two. */
DELIVERY_TEST(a_query_waits_for_the_open_transaction) {
  int answers = 0;
  ahead_start(owner);
  size_t commands = fake_redis_commands(owner->server);
  const char *words[] = {"LINDEX", KEY "inflight", "-1"};
  delivery_query(owner->delivery, command_new(words, 3), on_answer, &answers);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), commands);
  delivery_owner_let_reply(owner); /* and the next EXEC is not answered */
  delivery_owner_await(owner, &owner->redis.executed, 3);
  ahead_put_records(owner, AHEAD_MORE + 1,
                    AHEAD_MORE + AHEAD_BATCH); /* with number AHEAD_MORE a full batch */
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), commands + 3);
  assert_string_equal(delivery_owner_last_commands(owner, 3), "EXEC\n" PROBE);
  assert_int_equal(answers, 0);
  delivery_owner_let_reply(owner);
  delivery_owner_await(owner, &answers, 1);
  for (size_t i = 0; i < 3; i++)
    assert_string_equal(fake_redis_command(owner->server, commands + 3 + i),
                        ((const char *const[]){"WATCH " COMMITTED, "GET " COMMITTED,
                                               "LINDEX " KEY "inflight -1"})[i]);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, AHEAD_MORE + AHEAD_BATCH);
  assert_int_equal(answers, 1);
}

static size_t arrived(const struct delivery_owner *owner) {
  size_t length;
  (void)fake_redis_bytes(owner->server, &length);
  return length;
}

static bool has_arrived(void *context) {
  const struct delivery_owner *owner = context;
  return fake_redis_commands(owner->server) > 0 && ahead_is_last(context);
}

/* Half of the first is written when the next one is there. */
DELIVERY_TEST(a_slow_redis_gets_one_batch_after_the_other) {
  delivery_owner_start(owner);
  loop_settle(&owner->loop);
  size_t before = arrived(owner);
  fake_redis_stop_reading(owner->server);
  owner->redis.silent_from = "EXEC";
  ahead_put(owner, 0, LARGE);
  delivery_owner_flush(owner);
  ahead_put(owner, 1, LARGE);
  delivery_owner_flush(owner);
  loop_settle(&owner->loop);
  assert_int_equal(arrived(owner), before);
  fake_redis_read_on(owner->server);
  assert_true(loop_until(&owner->loop, has_arrived, owner));
  static const char *const both[] = {
      "MULTI", "LPUSH " KEY "results 0-", "SET " COMMITTED, "EXEC", "WATCH", "GET",
      "MULTI", "LPUSH " KEY "results 1-", "SET " COMMITTED};
  came_last(owner, both, sizeof both / sizeof *both);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, 1);
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

/* Half of it is written when the one before it is answered: its EXEC goes with the other half. */
DELIVERY_TEST(a_slow_redis_gets_exec_after_the_rest) {
  delivery_owner_start(owner);
  owner->redis.silent_from = "EXEC";
  ahead_send_first(owner);
  fake_redis_stop_reading(owner->server);
  ahead_put(owner, 1, LARGE);
  delivery_owner_flush(owner);
  ahead_let_reply(owner);
  delivery_owner_await(owner, &owner->delivered, 1);
  ahead_put(owner, 2, LARGE); /* and one more after it */
  delivery_owner_flush(owner);
  loop_settle(&owner->loop);
  assert_int_equal(owner->redis.executed, 2);
  fake_redis_read_on(owner->server);
  ahead_all_is_done(owner, 0, 2);
  static const char *const all[] = {
      "MULTI", "LPUSH " KEY "results 1-", "SET " COMMITTED, "EXEC", "WATCH", "GET",
      "MULTI", "LPUSH " KEY "results 2-", "SET " COMMITTED, "EXEC", "WATCH", "GET"};
  came_last(owner, all, sizeof all / sizeof *all);
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

/* Nothing but one go: the owner may wait for room. */
DELIVERY_TEST(the_next_batch_leaves_right_after_the_first) {
  delivery_owner_start(owner);
  owner->redis.silent_from = "EXEC";
  ahead_put_records(owner, 0, 3 * AHEAD_MORE);
  ahead_await(owner, 3);
  ahead_let_reply(owner);
  ahead_all_is_done(owner, 0, 3 * AHEAD_MORE);
}
