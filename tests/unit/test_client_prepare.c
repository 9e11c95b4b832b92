/* A connection that is made before it is needed. */

#include "tests/support/client_owner.h"
#include "tests/test.h"

static void prepare(struct client_owner *owner) {
  client_owner_make(owner, 5000);
  client_prepare(owner->client);
}

static bool is_asked(void *context) {
  const struct client_owner *owner = context;
  return fake_redis_commands(owner->server) > 0;
}

/* The handshake has ended, and the owner knows of no more than the connection. */
static void is_prepared(struct client_owner *owner) {
  prepare(owner);
  assert_true(loop_until(&owner->loop, is_asked, owner));
  client_owner_expect(owner, "connected");
  assert_false(client_is_ready(owner->client));
}

static void connects_again(struct client_owner *owner, int connections) {
  recorder_reset(&owner->recorder);
  assert_false(client_start(owner->client));
  client_owner_expect(owner, "connected ready");
  assert_int_equal(fake_redis_connections(owner->server), connections);
}

static void expect_silence(struct client_owner *owner, const char *transcript) {
  client_owner_expect(owner, transcript);
  assert_int_equal(client_owner_logged(owner, "test"), 0);
}

NEW_CLIENT_TEST(what_is_prepared_is_ready_at_once) {
  is_prepared(owner);
  assert_true(client_start(owner->client));
  assert_true(client_is_ready(owner->client));
  client_owner_expect(owner, "connected");
  fake_redis_send(owner->server, "+hello\r\n");
  client_owner_expect(owner, "connected hello");
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

NEW_CLIENT_TEST(what_was_prepared_reconnects) {
  is_prepared(owner);
  assert_true(client_start(owner->client));
  fake_redis_close_connection(owner->server);
  client_owner_expect(owner, "connected lost connected ready");
}

NEW_CLIENT_TEST(a_start_continues_what_is_under_way) {
  prepare(owner);
  connects_again(owner, 1);
  assert_string_equal(owner->last, "OK");
}

NEW_CLIENT_TEST(to_prepare_is_idempotent) {
  prepare(owner);
  client_prepare(owner->client);
  assert_true(loop_until(&owner->loop, is_asked, owner));
  client_prepare(owner->client);
  loop_settle(&owner->loop);
  client_prepare(owner->client);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_connections(owner->server), 1);
  assert_true(client_start(owner->client));
  client_prepare(owner->client);
  assert_true(client_is_ready(owner->client));
}

NEW_CLIENT_TEST(a_server_that_is_not_there_is_not_reported) {
  fake_redis_refuse(owner->server);
  prepare(owner);
  expect_silence(owner, "");
  fake_redis_accept(owner->server);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_connections(owner->server), 0); /* it was tried once */
  connects_again(owner, 1);
}

TEST(nor_is_a_refusal, client_owner_set_up, client_owner_tear_down) {
  static const char *const refusals[] = {"-NOAUTH no\r\n", "-LOADING not yet\r\n"};
  for (size_t i = 0; i < 2; i++) {
    struct client_owner *owner = *state;
    owner->handshake_answers[0] = refusals[i];
    prepare(owner);
    assert_true(loop_until(&owner->loop, is_asked, owner));
    expect_silence(owner, "connected");
    owner->handshake_answers[0] = "+OK\r\n";
    connects_again(owner, 2);
    client_owner_tear_down(state);
    client_owner_set_up(state);
  }
}

NEW_CLIENT_TEST(nor_is_a_loss) {
  is_prepared(owner);
  fake_redis_close_connection(owner->server);
  expect_silence(owner, "connected");
  connects_again(owner, 2);
}

NEW_CLIENT_TEST(an_unexpected_reply_ends_it) {
  is_prepared(owner);
  fake_redis_send(owner->server, "+hello\r\n");
  expect_silence(owner, "connected");
  assert_false(fake_redis_is_connected(owner->server));
  connects_again(owner, 2);
}

NEW_CLIENT_TEST(a_stop_closes_it) {
  is_prepared(owner);
  client_stop(owner->client);
  expect_silence(owner, "connected");
  assert_false(fake_redis_is_connected(owner->server));
}

/* The owner can use the time that the handshake takes. */
NEW_CLIENT_TEST(connected_comes_before_ready) {
  owner->handshake_answers[0] = NULL;
  client_owner_start(owner, 5000);
  client_owner_expect(owner, "connected");
  assert_string_equal(fake_redis_command(owner->server, 0), "CLIENT SETNAME its-name");
  fake_redis_send(owner->server, "+OK\r\n");
  client_owner_expect(owner, "connected ready");
}
