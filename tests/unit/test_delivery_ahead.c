/* The transaction that is opened while the one before it is under way (pipeline.h): all of it but
   its EXEC. What is delivered are records with a number; number 0 is the batch before, alone. */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/doors/redis/net/command.h"
#include "tests/support/delivery_owner.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define COMMITTED KEY "committed"
#define PROBE "WATCH " COMMITTED "\nGET " COMMITTED "\n"

/* A record of this length takes a chunk: BATCH of them are a full batch, MORE more than
   one. */
enum { RECORD = SEND_QUEUE_CHUNK_SIZE - 1000 };
enum { BATCH = BATCH_PIECES, MORE = BATCH + 1 };

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

/* Queues "<number>-xxx…", of this length. */
static void put(struct delivery_owner *owner, int number, size_t length) {
  char *text = malloc(length + 1);
  assert_non_null(text);
  memset(text, 'x', length);
  text[snprintf(text, length, "%d-", number)] = 'x';
  text[length] = '\0';
  delivery_owner_put(owner, text);
  free(text);
}

/* Queues records with these numbers, and flushes. */
static void put_records(struct delivery_owner *owner, int from, int to) {
  for (int number = from; number <= to; number++)
    put(owner, number, RECORD);
  delivery_owner_flush(owner);
}

/* Sends number 0, and waits until its transaction and the probe after it have arrived. */
static void send_first(struct delivery_owner *owner) {
  int probes = owner->redis.probes;
  put(owner, 0, 10);
  delivery_owner_flush(owner);
  loop_await(&owner->loop, &owner->redis.probes, probes + 1);
  loop_settle(&owner->loop);
}

static const char *last_command(const struct delivery_owner *owner) {
  return fake_redis_command(owner->server, fake_redis_commands(owner->server) - 1);
}

/* The last command that arrived is the SET of a transaction. */
static bool is_open(void *context) {
  const char *command = last_command(context);
  return strncmp(command, "SET " COMMITTED " ", strlen("SET " COMMITTED " ")) == 0;
}

/* Waits until the transaction with this sequence in `committed` has arrived without its EXEC, which
   must not follow. */
static void await_open(struct delivery_owner *owner, int number) {
  assert_true(loop_until(&owner->loop, is_open, owner));
  loop_settle(&owner->loop);
  assert_true(is_open(owner));
  assert_int_equal(atoi(strrchr(last_command(owner), ':') + 1), number);
}

/* Number 0 gets the replies before EXEC's, the rest is kept back. 1 to BATCH are in the open
   transaction, whose sequence is 3: 1 is the ownership transaction, 2 the batch of number 0.
   MORE is queued. */
static void open_next(struct delivery_owner *owner) {
  owner->redis.silent_from = "EXEC";
  send_first(owner);
  put_records(owner, 1, MORE);
  await_open(owner, 3); /* after the ownership transaction and number 0 */
}

/* Number 0 was executed, and the next transaction is open. */
static int set_up(void **state) {
  delivery_owner_set_up_owning(state);
  struct delivery_owner *owner = *state;
  open_next(owner);
  assert_int_equal(owner->redis.executed, 2);
  assert_int_equal(owner->delivered, 0);
  return 0;
}

#define AHEAD_TEST(NAME)                                                                           \
  TEST_WITH(struct delivery_owner *owner, NAME, set_up, delivery_owner_tear_down)

/* Sends the replies that were kept back, and keeps back no more. */
static void let_reply(struct delivery_owner *owner) {
  owner->redis.silent_from = NULL;
  delivery_owner_let_reply(owner);
}

/* Waits until the send queue is empty; each of these numbers was executed once, in order. */
static void all_is_done(struct delivery_owner *owner, int from, int to) {
  LOOP_UNTIL(&owner->loop, owner->send_queue.bytes == 0);
  const char *before = owner->redis.done;
  for (int number = from; number <= to; number++) {
    char text[64];
    snprintf(text, sizeof text, "LPUSH " KEY "results %d-x", number);
    assert_int_equal(delivery_owner_done(owner, text), 1);
    const char *found = strstr(owner->redis.done, text);
    assert_true(found > before);
    before = found;
  }
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

AHEAD_TEST(the_next_batch_is_executed_after_the_first) {
  const size_t ahead = 1 + BATCH + 1; /* MULTI … SET */
  size_t commands = fake_redis_commands(owner->server);
  assert_string_equal(fake_redis_command(owner->server, commands - ahead), "MULTI");
  assert_string_equal(fake_redis_command(owner->server, commands - ahead - 1), "GET " COMMITTED);
  delivery_owner_let_reply(owner); /* and the next EXEC is not answered */
  loop_await(&owner->loop, &owner->redis.executed, 3);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), commands + 3);
  assert_string_equal(delivery_owner_last_commands(owner, 3), "EXEC\n" PROBE);
  assert_int_equal(owner->delivered, 1);
  let_reply(owner);
  all_is_done(owner, 0, MORE);
  delivery_owner_expect(owner, "owned delivered delivered delivered");
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

DELIVERY_TEST(each_batch_is_followed_by_the_next) {
  owner->redis.silent_from = "EXEC";
  send_first(owner);
  put_records(owner, 1, 3 * MORE);
  for (int batch = 3; batch <= 5; batch++) {
    await_open(owner, batch);
    assert_int_equal(owner->redis.executed, batch - 1);
    assert_int_equal(owner->delivered, batch - 3);
    delivery_owner_let_reply(owner);
  }
  let_reply(owner);
  all_is_done(owner, 0, 3 * MORE);
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

/* More may come, which then goes with it. */
DELIVERY_TEST(less_than_a_full_batch_is_not_opened_early) {
  owner->redis.silent_from = "EXEC";
  send_first(owner);
  size_t commands = fake_redis_commands(owner->server);
  put_records(owner, 1, BATCH);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), commands);
  let_reply(owner);
  all_is_done(owner, 0, BATCH);
  assert_int_equal(fake_redis_commands(owner->server), commands + 1 + BATCH + 4);
  delivery_owner_expect(owner, "owned delivered delivered");
}

/* Nobody knows yet whether the job is this agent's. */
NEW_DELIVERY_TEST(nothing_is_opened_during_the_ownership_transaction) {
  owner->redis.silent_from = "EXEC";
  delivery_owner_make(owner, 0);
  loop_await(&owner->loop, &owner->redis.executed, 1);
  put_records(owner, 0, 2 * MORE);
  loop_settle(&owner->loop);
  assert_string_equal(delivery_owner_last_commands(owner, 2), PROBE);
  let_reply(owner);
  all_is_done(owner, 0, 2 * MORE);
}

AHEAD_TEST(the_connection_is_lost_after_the_first_was_executed) {
  char *ahead = strdup(delivery_owner_last_transaction(owner));
  int probes = owner->redis.probes;
  fake_redis_close_connection(owner->server);
  loop_await(&owner->loop, &owner->redis.probes, probes + 2); /* found; and sent, not answered */
  const char *again = delivery_owner_last_transaction(owner);
  assert_memory_equal(again, ahead, strlen(ahead));
  assert_int_equal(strncmp(again + strlen(ahead), "*1\r\n$4\r\nEXEC\r\n", 14), 0);
  delivery_owner_expect(owner, "owned delivered");
  free(ahead);
  let_reply(owner);
  all_is_done(owner, 0, MORE);
  assert_int_equal(fake_redis_connections(owner->server), 2);
}

/* Twice, the second time with more queued: both transactions stay what they are. */
DELIVERY_TEST(the_connection_is_lost_before_the_first_was_executed) {
  owner->redis.deaf_from = "EXEC";
  send_first(owner);
  put_records(owner, 1, MORE);
  await_open(owner, 3);
  char *both = strdup(delivery_owner_last_two_transactions(owner));
  put(owner, MORE + 1, 10);
  owner->redis.deaf_from = "EXEC";
  fake_redis_close_connection(owner->server);
  int probes = owner->redis.probes;
  loop_await(&owner->loop, &owner->redis.probes, probes + 2);
  delivery_owner_flush(owner);
  await_open(owner, 3);
  assert_string_equal(delivery_owner_last_two_transactions(owner), both);
  assert_int_equal(owner->redis.executed, 1);
  free(both);
  owner->redis.deaf_from = NULL;
  fake_redis_close_connection(owner->server);
  all_is_done(owner, 0, MORE + 1);
  delivery_owner_expect(owner, "owned delivered delivered delivered");
}

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  assert_int_equal(reply->type, REDIS_REPLY_NIL);
  assert_true(whole);
  ++*(int *)owner;
}

/* Inside of a transaction it would not be answered. Nor does it wait for more than these two. */
AHEAD_TEST(a_query_waits_for_the_open_transaction) {
  int answers = 0;
  size_t commands = fake_redis_commands(owner->server);
  const char *words[] = {"LINDEX", KEY "inflight", "-1"};
  delivery_query(owner->delivery, command_new(words, 3), on_answer, &answers);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), commands);
  delivery_owner_let_reply(owner); /* and the next EXEC is not answered */
  loop_await(&owner->loop, &owner->redis.executed, 3);
  put_records(owner, MORE + 1, MORE + BATCH); /* with number MORE a full batch */
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), commands + 3);
  assert_string_equal(delivery_owner_last_commands(owner, 3), "EXEC\n" PROBE);
  assert_int_equal(answers, 0);
  delivery_owner_let_reply(owner);
  loop_await(&owner->loop, &answers, 1);
  for (size_t i = 0; i < 3; i++)
    assert_string_equal(fake_redis_command(owner->server, commands + 3 + i),
                        ((const char *const[]){"WATCH " COMMITTED, "GET " COMMITTED,
                                               "LINDEX " KEY "inflight -1"})[i]);
  let_reply(owner);
  all_is_done(owner, 0, MORE + BATCH);
  assert_int_equal(answers, 1);
}

static size_t arrived(const struct delivery_owner *owner) {
  size_t length;
  (void)fake_redis_bytes(owner->server, &length);
  return length;
}

/* Half of the first is written when the next one is there. */
DELIVERY_TEST(a_slow_redis_gets_one_batch_after_the_other) {
  loop_settle(&owner->loop);
  size_t before = arrived(owner);
  fake_redis_stop_reading(owner->server);
  owner->redis.silent_from = "EXEC";
  put(owner, 0, LARGE);
  delivery_owner_flush(owner);
  put(owner, 1, LARGE);
  delivery_owner_flush(owner);
  loop_settle(&owner->loop);
  assert_int_equal(arrived(owner), before);
  fake_redis_read_on(owner->server);
  LOOP_UNTIL(&owner->loop, fake_redis_commands(owner->server) > 0 && is_open(owner));
  static const char *const both[] = {
      "MULTI", "LPUSH " KEY "results 0-", "SET " COMMITTED, "EXEC", "WATCH", "GET",
      "MULTI", "LPUSH " KEY "results 1-", "SET " COMMITTED};
  came_last(owner, both, sizeof both / sizeof *both);
  let_reply(owner);
  all_is_done(owner, 0, 1);
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

/* Half of it is written when the one before it is answered: its EXEC goes with the other half. */
DELIVERY_TEST(a_slow_redis_gets_exec_after_the_rest) {
  owner->redis.silent_from = "EXEC";
  send_first(owner);
  fake_redis_stop_reading(owner->server);
  put(owner, 1, LARGE);
  delivery_owner_flush(owner);
  let_reply(owner);
  loop_await(&owner->loop, &owner->delivered, 1);
  put(owner, 2, LARGE); /* and one more after it */
  delivery_owner_flush(owner);
  loop_settle(&owner->loop);
  assert_int_equal(owner->redis.executed, 2);
  fake_redis_read_on(owner->server);
  all_is_done(owner, 0, 2);
  static const char *const all[] = {
      "MULTI", "LPUSH " KEY "results 1-", "SET " COMMITTED, "EXEC", "WATCH", "GET",
      "MULTI", "LPUSH " KEY "results 2-", "SET " COMMITTED, "EXEC", "WATCH", "GET"};
  came_last(owner, all, sizeof all / sizeof *all);
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

/* Nothing but one go: the owner may wait for room. */
DELIVERY_TEST(the_next_batch_leaves_right_after_the_first) {
  owner->redis.silent_from = "EXEC";
  put_records(owner, 0, 3 * MORE);
  await_open(owner, 3);
  let_reply(owner);
  all_is_done(owner, 0, 3 * MORE);
}

/* --- refused, overtaken by another agent, or lost with all of Redis' data ----------------------
 */

#define OTHERS "2:00000000000000ff:1"

DELIVERY_TEST(a_refusal_in_the_next_batch_may_pass) {
  owner->redis.refused = "LPUSH " KEY "results 2-";
  owner->redis.refusal = "OOM command not allowed when used memory > 'maxmemory'.";
  open_next(owner);
  let_reply(owner);
  LOOP_UNTIL(&owner->loop, fake_redis_connections(owner->server) >= 4);
  assert_int_equal(owner->delivered, 1);
  assert_int_equal(delivery_owner_done(owner, "results 1-"), 0);
  assert_int_equal(delivery_owner_logged(owner, "OOM command not allowed"), 1);
  owner->redis.refused = NULL;
  all_is_done(owner, 0, MORE);
  delivery_owner_expect(owner, "owned delivered delivered delivered");
}

DELIVERY_TEST(a_final_refusal_in_the_next_batch_names_its_command) {
  owner->redis.refused = "LPUSH " KEY "results 2-";
  owner->redis.refusal = "NOPERM no permissions";
  open_next(owner);
  let_reply(owner);
  loop_await(&owner->loop, &owner->failed, 1);
  assert_string_equal(owner->error, "redis refuses LPUSH " KEY "results: NOPERM no permissions");
  assert_int_equal(delivery_owner_done(owner, "results 1-"), 0);
  delivery_owner_expect(owner, "owned delivered failed");
}

static void is_taken_over(struct delivery_owner *owner) {
  loop_await(&owner->loop, &owner->failed, 1);
  loop_settle(&owner->loop);
  assert_string_equal(owner->error, "another agent has taken over this job (" COMMITTED ")");
  assert_int_equal(delivery_owner_done(owner, "results 1-"), 0);
  assert_string_equal(owner->redis.committed, OTHERS);
  assert_int_equal(owner->failed, 1);
  assert_false(fake_redis_is_connected(owner->server));
}

/* Before the watch EXEC would not fail. Of what was touched only, the one ahead must not be
   executed before the first; what was answered before is not sent again. */
TEST(another_client_writes_committed, delivery_owner_set_up_owning, delivery_owner_tear_down) {
  static const struct {
    const char *name;
    enum { BEFORE_FIRST, BEFORE_WATCH, BEFORE_NEXT } when;
    const char *value; /* "": it is removed; NULL: touched */
    int connections;
    int done; /* how often number 0 was executed */
    const char *callbacks;
  } rows[] = {
      {"touched before the first", BEFORE_FIRST, NULL, 2, 1, "owned delivered delivered delivered"},
      {"touched before the next", BEFORE_NEXT, NULL, 1, 1, "owned delivered delivered delivered"},
      {"emptied before the first", BEFORE_FIRST, "", 2, 1,
       "owned lost_data delivered delivered delivered"},
      {"emptied before the watch", BEFORE_WATCH, "", 1, 1,
       "owned lost_data delivered delivered delivered"},
      {"emptied before the next", BEFORE_NEXT, "", 1, 1,
       "owned delivered lost_data delivered delivered"},
      {"taken over before the first", BEFORE_FIRST, OTHERS, 1, 0, "owned failed"},
      {"taken over before the watch", BEFORE_WATCH, OTHERS, 1, 1, "owned failed"},
      {"taken over before the next", BEFORE_NEXT, OTHERS, 1, 1, "owned delivered failed"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct delivery_owner *owner = *state;
    print_message("%s\n", rows[i].name);
    if (rows[i].when == BEFORE_NEXT)
      open_next(owner);
    if (rows[i].value == NULL)
      owner->redis.dirty = true;
    else if (rows[i].when == BEFORE_WATCH)
      owner->redis.commit_behind = rows[i].value;
    else
      redis_model_commit(&owner->redis, rows[i].value);
    if (rows[i].when != BEFORE_NEXT)
      open_next(owner);
    let_reply(owner);
    if (rows[i].value != NULL && rows[i].value[0] != '\0') {
      is_taken_over(owner);
      assert_int_equal(is_open(owner), rows[i].when != BEFORE_NEXT);
    } else {
      all_is_done(owner, 0, MORE);
    }
    assert_int_equal(delivery_owner_done(owner, "results 0-"), rows[i].done);
    assert_int_equal(fake_redis_connections(owner->server), rows[i].connections);
    delivery_owner_expect(owner, rows[i].callbacks);
    delivery_owner_tear_down(state);
    delivery_owner_set_up_owning(state);
  }
}

/* Number 0 was done before, and went with what Redis lost: it is done once in each of the two. */
AHEAD_TEST(redis_is_emptied_while_it_is_unreachable) {
  owner->redis.silent_from = NULL;
  fake_redis_close_connection(owner->server);
  redis_model_commit(&owner->redis, NULL);
  all_is_done(owner, 1, MORE);
  assert_int_equal(delivery_owner_done(owner, "results 0-"), 2);
  delivery_owner_expect(owner, "owned lost_data delivered delivered delivered");
}
