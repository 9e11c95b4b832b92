/* A connection that is made before it is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/link_owner.h"

static void prepare(struct link_owner *owner) {
  link_owner_make(owner, 1000);
  link_prepare(owner->link);
}

static bool is_asked(void *context) {
  const struct link_owner *owner = context;
  return fake_redis_commands(owner->server) > 0;
}

/* It is logged in, and nobody has heard of it. */
static void is_prepared(struct link_owner *owner) {
  prepare(owner);
  assert_true(loop_until(&owner->loop, is_asked, owner));
  loop_settle(&owner->loop);
  assert_int_equal(owner->up + owner->down + owner->failed, 0);
  assert_false(link_is_up(owner->link));
}

static void starts_anew(struct link_owner *owner, int connections) {
  owner->answered = 0;
  assert_false(link_start(owner->link));
  link_owner_comes_up(owner);
  assert_int_equal(owner->failed + owner->down, 0);
  assert_int_equal(fake_redis_connections(owner->server), connections);
}

static void says_nothing(struct link_owner *owner) {
  loop_settle(&owner->loop);
  assert_int_equal(owner->up + owner->down + owner->failed + owner->replies, 0);
  assert_int_equal(link_owner_logged(owner, "test"), 0);
}

static void what_is_prepared_is_up_at_once(void **state) {
  struct link_owner *owner = *state;
  is_prepared(owner);
  assert_true(link_start(owner->link));
  assert_true(link_is_up(owner->link));
  loop_settle(&owner->loop);
  assert_int_equal(owner->up, 0);
  fake_redis_send(owner->server, "+hello\r\n");
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->replies));
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

static void what_is_up_comes_back_as_ever(void **state) {
  struct link_owner *owner = *state;
  is_prepared(owner);
  assert_true(link_start(owner->link));
  fake_redis_close_connection(owner->server);
  link_owner_comes_back(owner);
}

static void what_is_not_ready_yet_goes_on(void **state) {
  struct link_owner *owner = *state;
  prepare(owner);
  starts_anew(owner, 1);
  assert_string_equal(owner->last, "OK");
}

/* Where a login of another link is tried again, for one. */
static void again_is_the_same(void **state) {
  struct link_owner *owner = *state;
  prepare(owner);
  link_prepare(owner->link);
  assert_true(loop_until(&owner->loop, is_asked, owner));
  link_prepare(owner->link);
  loop_settle(&owner->loop);
  link_prepare(owner->link);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_connections(owner->server), 1);
  assert_true(link_start(owner->link));
  link_prepare(owner->link);
  assert_true(link_is_up(owner->link));
}

static void a_server_that_is_not_there_is_not_told(void **state) {
  struct link_owner *owner = *state;
  fake_redis_refuse(owner->server);
  prepare(owner);
  says_nothing(owner);
  fake_redis_accept(owner->server);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_connections(owner->server), 0); /* it was tried once */
  starts_anew(owner, 1);
}

static void nor_is_a_refusal(void **state) {
  static const char *const refusals[] = {"-NOAUTH no\r\n", "-LOADING not yet\r\n"};
  for (size_t i = 0; i < 2; i++) {
    struct link_owner *owner = *state;
    owner->login_answers[0] = refusals[i];
    prepare(owner);
    assert_true(loop_until(&owner->loop, is_asked, owner));
    says_nothing(owner);
    owner->login_answers[0] = "+OK\r\n";
    starts_anew(owner, 2);
    link_owner_tear_down(state);
    link_owner_set_up(state);
  }
}

static void nor_that_it_is_lost_again(void **state) {
  struct link_owner *owner = *state;
  is_prepared(owner);
  fake_redis_close_connection(owner->server);
  says_nothing(owner);
  starts_anew(owner, 2);
}

static void an_answer_to_nothing_ends_it(void **state) {
  struct link_owner *owner = *state;
  is_prepared(owner);
  fake_redis_send(owner->server, "+hello\r\n");
  says_nothing(owner);
  assert_false(fake_redis_is_connected(owner->server));
  starts_anew(owner, 2);
}

static void stopped_it_is_gone(void **state) {
  struct link_owner *owner = *state;
  is_prepared(owner);
  link_stop(owner->link);
  says_nothing(owner);
  assert_false(fake_redis_is_connected(owner->server));
}

/* While the login is on its way there is time for something else. */
static void that_a_server_is_reached_is_told_first(void **state) {
  struct link_owner *owner = *state;
  owner->login_answers[0] = NULL;
  link_owner_start(owner, 1000);
  assert_int_equal(owner->reached, 0); /* not from inside */
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->reached));
  loop_settle(&owner->loop);
  assert_int_equal(owner->reached, 1);
  assert_int_equal(owner->up, 0);
  assert_string_equal(fake_redis_command(owner->server, 0), "CLIENT SETNAME its-name");
  fake_redis_send(owner->server, "+OK\r\n");
  link_owner_comes_up(owner);
  assert_int_equal(owner->reached, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, link_owner_set_up, link_owner_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(what_is_prepared_is_up_at_once),
      TEST(what_is_up_comes_back_as_ever),
      TEST(what_is_not_ready_yet_goes_on),
      TEST(again_is_the_same),
      TEST(a_server_that_is_not_there_is_not_told),
      TEST(nor_is_a_refusal),
      TEST(nor_that_it_is_lost_again),
      TEST(an_answer_to_nothing_ends_it),
      TEST(stopped_it_is_gone),
      TEST(that_a_server_is_reached_is_told_first),
  };
  return cmocka_run_group_tests_name("link_prepare", tests, NULL, NULL);
}
