/* Questions between transactions. */

#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/out/preflight.h"
#include "tests/support/delivery_owner.h"
#include "tests/test.h"
#include "wire/step.h"

#define KEY "sandbox:j:"

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
  owner->redis.next_answer = "$5\r\nhello\r\n";
  ask(&asker);
  assert_int_equal(asker.answers, 0); /* not from inside */
  gets(&asker, "hello ");
  ask(&asker);
  gets(&asker, "nil ");
  assert_int_equal(asker.cut, 0);
  assert_string_equal(delivery_owner_last_commands(owner, 1), "LINDEX " KEY "inflight -1\n");
}

NEW_DELIVERY_TEST(a_query_leaves_with_the_ownership_transaction) {
  struct asker asker = {.owner = owner};
  delivery_owner_make(owner, 0);
  ask(&asker);
  owner->redis.next_answer = "$5\r\nhello\r\n";
  gets(&asker, "hello ");
  delivery_owner_expect(owner, "owned");
  size_t handshake = 1 + PREFLIGHT_COUNT;
  assert_int_equal(fake_redis_commands(owner->server), handshake + 6);
  assert_string_equal(fake_redis_command(owner->server, handshake), "MULTI");
  assert_string_equal(delivery_owner_last_commands(owner, 3),
                      "WATCH " KEY "committed\nGET " KEY "committed\nLINDEX " KEY "inflight -1\n");
}

NEW_DELIVERY_TEST(without_ownership_a_query_gets_no_reply) {
  struct asker asker = {.owner = owner};
  delivery_owner_make(owner, 0);
  ask(&asker);
  owner->redis.commit_before = ""; /* the transaction fails, and nobody else has the job */
  owner->redis.next_answer = "$5\r\nearly\r\n";
  gets(&asker, "nil ");
  delivery_owner_expect(owner, "owned");
  assert_int_equal(owner->redis.executed, 1);
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

NEW_DELIVERY_TEST(nor_when_the_ownership_transaction_is_lost) {
  struct asker asker = {.owner = owner};
  delivery_owner_make(owner, 0);
  ask(&asker);
  owner->redis.deaf_from = "EXEC";
  loop_await(&owner->loop, &owner->redis.probes, 2);
  loop_settle(&owner->loop);
  assert_int_equal(asker.answers, 0);
  owner->redis.deaf_from = NULL;
  fake_redis_close_connection(owner->server);
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
  size_t commands = fake_redis_commands(owner->server);
  /* MULTI one SET EXEC WATCH GET, WATCH GET LINDEX, MULTI two SET EXEC WATCH GET */
  assert_string_equal(fake_redis_command(owner->server, commands - 7), "LINDEX " KEY "inflight -1");
  assert_int_equal(delivery_owner_done(owner, "one\nSET"), 1);
  assert_int_equal(delivery_owner_done(owner, "two\nSET"), 1);
}

/* What the first one saw is still so when the next one is asked. */
DELIVERY_TEST(no_batch_is_sent_between_two_queries) {
  struct asker asker = {.owner = owner, .ask_again = 2, .put = "one"};
  ask(&asker);
  gets(&asker, "nil nil nil ");
  loop_await(&owner->loop, &owner->delivered, 1);
  size_t commands = fake_redis_commands(owner->server);
  /* WATCH GET LINDEX, three times; MULTI one SET EXEC WATCH GET */
  for (size_t i = 0; i < 3; i++)
    assert_string_equal(fake_redis_command(owner->server, commands - 13 + 3 * i),
                        "LINDEX " KEY "inflight -1");
  assert_string_equal(fake_redis_command(owner->server, commands - 6), "MULTI");
}

/* The same connection, another state of Redis. */
DELIVERY_TEST(lost_data_is_reported_before_the_reply) {
  struct asker asker = {.owner = owner};
  loop_settle(&owner->loop);
  redis_model_commit(&owner->redis, "");
  ask(&asker);
  gets(&asker, "nil ");
  assert_non_null(strstr(recorder_text(&owner->recorder), "lost_data"));
}

DELIVERY_TEST(another_owner_is_noticed_before_the_reply) {
  struct asker asker = {.owner = owner};
  loop_settle(&owner->loop);
  redis_model_commit(&owner->redis, "9:00000000000000ff:1");
  ask(&asker);
  loop_await(&owner->loop, &owner->failed, 1);
  loop_settle(&owner->loop);
  assert_string_equal(asker.text, "");
}

DELIVERY_TEST(a_query_is_sent_again_after_a_lost_connection) {
  struct asker asker = {.owner = owner};
  size_t commands = fake_redis_commands(owner->server);
  owner->redis.silent_from = "LINDEX";
  owner->redis.next_answer = "$4\r\nlost\r\n";
  ask(&asker);
  LOOP_UNTIL(&owner->loop, fake_redis_commands(owner->server) != commands);
  owner->redis.silent_from = NULL;
  fake_redis_close_connection(owner->server);
  owner->redis.next_answer = "$5\r\nfound\r\n";
  gets(&asker, "found ");
  assert_string_equal(delivery_owner_last_commands(owner, 3),
                      "WATCH " KEY "committed\nGET " KEY "committed\nLINDEX " KEY "inflight -1\n");
}

static void ask_two(struct asker *self) {
  const char *const commands[][COMMAND_LIST_WORDS] = {{"GET", KEY "started"},
                                                      {"LINDEX", KEY "inflight", "-1"}};
  delivery_query(self->owner->delivery, command_list_new(commands, 2), on_answer, self);
}

DELIVERY_TEST(replies_to_several_commands_come_in_order) {
  struct asker asker = {.owner = owner, .put = "one"};
  owner->redis.next_answer = "$5\r\nfirst\r\n";
  ask_two(&asker);
  gets(&asker, "first nil ");
  loop_await(&owner->loop, &owner->delivered, 1);
  size_t commands = fake_redis_commands(owner->server);
  /* WATCH GET, GET LINDEX, MULTI one SET EXEC WATCH GET */
  assert_string_equal(fake_redis_command(owner->server, commands - 8), "GET " KEY "started");
  assert_string_equal(fake_redis_command(owner->server, commands - 7), "LINDEX " KEY "inflight -1");
}

DELIVERY_TEST(only_commands_without_a_reply_are_sent_again) {
  struct asker asker = {.owner = owner};
  owner->redis.silent_from = "LINDEX";
  owner->redis.next_answer = "$5\r\nfirst\r\n";
  ask_two(&asker);
  gets(&asker, "first ");
  owner->redis.silent_from = NULL;
  fake_redis_close_connection(owner->server);
  owner->redis.next_answer = "$6\r\nsecond\r\n";
  gets(&asker, "second ");
  assert_string_equal(delivery_owner_last_commands(owner, 3),
                      "WATCH " KEY "committed\nGET " KEY "committed\nLINDEX " KEY "inflight -1\n");
}

DELIVERY_TEST(a_query_refused_for_now_is_sent_again) {
  struct asker asker = {.owner = owner};
  owner->redis.next_answer = "-LOADING Redis is loading\r\n";
  ask(&asker);
  gets(&asker, "nil ");
  assert_int_equal(fake_redis_connections(owner->server), 2);
}

DELIVERY_TEST(a_final_refusal_is_reported) {
  struct asker asker = {.owner = owner};
  owner->redis.next_answer = "-WRONGTYPE Operation\r\n";
  ask(&asker);
  loop_await(&owner->loop, &owner->failed, 1);
  assert_string_equal(owner->error, "redis refuses LINDEX " KEY "inflight: WRONGTYPE Operation");
  assert_int_equal(asker.answers, 0);
}

DELIVERY_TEST(a_reply_that_is_too_large_comes_as_its_beginning) {
  static char bytes[32769];
  struct asker asker = {.owner = owner};
  char head[64];
  memset(bytes, 'x', sizeof bytes - 1);
  owner->redis.silent_from = "LINDEX";
  ask(&asker);
  loop_settle(&owner->loop);
  snprintf(head, sizeof head, "$%zu\r\n", (size_t)STEP_PAYLOAD_MAX + sizeof bytes - 1);
  fake_redis_send(owner->server, head);
  for (size_t sent = 0; sent <= STEP_PAYLOAD_MAX; sent += sizeof bytes - 1) {
    assert_int_equal(asker.answers, 0);
    fake_redis_send(owner->server, bytes);
    event_base_loop(owner->loop.base, EVLOOP_NONBLOCK);
  }
  fake_redis_send(owner->server, "\r\n");
  LOOP_UNTIL(&owner->loop, asker.answers > 0);
  assert_int_equal(asker.cut, 1);
  assert_int_equal(strspn(asker.text, "x"), 64);
}
