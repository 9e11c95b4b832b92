/* A connection that is made before it is needed. */

#include "tests/support/client_owner.h"
#include "tests/test.h"

static void prepare(struct client_owner *owner) {
  client_owner_make(owner, 1000);
  client_prepare(owner->client);
}

static bool is_asked(void *context) {
  const struct client_owner *owner = context;
  return fake_redis_commands(owner->server) > 0;
}

/* It is logged in, and nobody has heard of it. */
static void is_prepared(struct client_owner *owner) {
  prepare(owner);
  assert_true(loop_until(&owner->loop, is_asked, owner));
  loop_settle(&owner->loop);
  assert_int_equal(owner->ready + owner->down + owner->failed, 0);
  assert_false(client_is_ready(owner->client));
}

static void starts_anew(struct client_owner *owner, int connections) {
  owner->answered = 0;
  assert_false(client_start(owner->client));
  client_owner_comes_up(owner);
  assert_int_equal(owner->failed + owner->down, 0);
  assert_int_equal(fake_redis_connections(owner->server), connections);
}

static void says_nothing(struct client_owner *owner) {
  loop_settle(&owner->loop);
  assert_int_equal(owner->ready + owner->down + owner->failed + owner->replies, 0);
  assert_int_equal(client_owner_logged(owner, "test"), 0);
}

TEST(what_is_prepared_is_up_at_once, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  is_prepared(owner);
  assert_true(client_start(owner->client));
  assert_true(client_is_ready(owner->client));
  loop_settle(&owner->loop);
  assert_int_equal(owner->ready, 0);
  fake_redis_send(owner->server, "+hello\r\n");
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->replies));
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

TEST(what_is_up_comes_back_as_ever, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  is_prepared(owner);
  assert_true(client_start(owner->client));
  fake_redis_close_connection(owner->server);
  client_owner_comes_back(owner);
}

TEST(what_is_not_ready_yet_goes_on, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  prepare(owner);
  starts_anew(owner, 1);
  assert_string_equal(owner->last, "OK");
}

/* Where a login of another link is tried again, for one. */
TEST(again_is_the_same, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
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

TEST(a_server_that_is_not_there_is_not_told, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  fake_redis_refuse(owner->server);
  prepare(owner);
  says_nothing(owner);
  fake_redis_accept(owner->server);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_connections(owner->server), 0); /* it was tried once */
  starts_anew(owner, 1);
}

TEST(nor_is_a_refusal, client_owner_set_up, client_owner_tear_down) {
  static const char *const refusals[] = {"-NOAUTH no\r\n", "-LOADING not yet\r\n"};
  for (size_t i = 0; i < 2; i++) {
    struct client_owner *owner = *state;
    owner->handshake_answers[0] = refusals[i];
    prepare(owner);
    assert_true(loop_until(&owner->loop, is_asked, owner));
    says_nothing(owner);
    owner->handshake_answers[0] = "+OK\r\n";
    starts_anew(owner, 2);
    client_owner_tear_down(state);
    client_owner_set_up(state);
  }
}

TEST(nor_that_it_is_lost_again, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  is_prepared(owner);
  fake_redis_close_connection(owner->server);
  says_nothing(owner);
  starts_anew(owner, 2);
}

TEST(an_answer_to_nothing_ends_it, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  is_prepared(owner);
  fake_redis_send(owner->server, "+hello\r\n");
  says_nothing(owner);
  assert_false(fake_redis_is_connected(owner->server));
  starts_anew(owner, 2);
}

TEST(stopped_it_is_gone, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  is_prepared(owner);
  client_stop(owner->client);
  says_nothing(owner);
  assert_false(fake_redis_is_connected(owner->server));
}

/* While the login is on its way there is time for something else. */
TEST(that_a_server_is_reached_is_told_first, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  owner->handshake_answers[0] = NULL;
  client_owner_start(owner, 1000);
  assert_int_equal(owner->connected, 0); /* not from inside */
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->connected));
  loop_settle(&owner->loop);
  assert_int_equal(owner->connected, 1);
  assert_int_equal(owner->ready, 0);
  assert_string_equal(fake_redis_command(owner->server, 0), "CLIENT SETNAME its-name");
  fake_redis_send(owner->server, "+OK\r\n");
  client_owner_comes_up(owner);
  assert_int_equal(owner->connected, 1);
}
