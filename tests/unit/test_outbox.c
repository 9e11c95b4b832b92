#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/outbox_owner.h"

static void asks_first_whether_it_may(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 10000, 1000000);
  loop_settle(&owner->loop);
  assert_int_equal(owner->ready, 1);
  assert_int_equal(fake_redis_commands(owner->server), OUTBOX_OPENING);
  assert_string_equal(fake_redis_command(owner->server, 0), "CLIENT SETNAME its-name");
  assert_string_equal(fake_redis_command(owner->server, 1), "MULTI");
  assert_string_equal(fake_redis_command(owner->server, 2),
                      "XADD sandbox:j:events MAXLEN ~ 10000 * data ");
  assert_string_equal(fake_redis_command(owner->server, 3), "LPUSH sandbox:j:results ");
  assert_string_equal(fake_redis_command(owner->server, 4), "DISCARD");
}

static void a_missing_permission_is_told_at_once(void **state) {
  struct outbox_owner *owner = *state;
  owner->refuse = "LPUSH";
  owner->error_reply = "-NOPERM No permissions to access a key\r\n";
  outbox_owner_make(owner, 10000, 1000000);
  outbox_start(owner->outbox);
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->failed));
  loop_settle(&owner->loop);
  assert_int_equal(owner->failed, 1);
  assert_int_equal(owner->ready, 0);
  assert_non_null(strstr(owner->error, "LPUSH sandbox:j:results: NOPERM"));
  assert_int_equal(fake_redis_connections(owner->server), 1);
  assert_false(fake_redis_is_connected(owner->server));
}

static void everything_leaves_in_order_when_it_is_flushed(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 1000000);
  outbox_owner_put_event(owner, 1, 0);
  outbox_owner_put_event(owner, 2, 0);
  outbox_owner_put_result(owner);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), OUTBOX_OPENING);
  assert_int_equal(outbox_unacknowledged(owner->outbox), 3);
  outbox_flush(owner->outbox);
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->empty));
  outbox_owner_awaits(owner, OUTBOX_OPENING + 3);
  outbox_owner_got(owner, OUTBOX_OPENING, "XADD sandbox:j:events * data {", "\"line\":\"<1>\"");
  outbox_owner_got(owner, OUTBOX_OPENING + 1, "XADD sandbox:j:events * data {", "\"line\":\"<2>\"");
  outbox_owner_got(owner, OUTBOX_OPENING + 2, "LPUSH sandbox:j:results {", "\"exitCode\":3");
  assert_int_equal(owner->empty, 1);
  assert_int_equal(outbox_unacknowledged(owner->outbox), 0);
}

static void what_was_put_before_the_connection_is_sent_behind_it(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_make(owner, 0, 1000000);
  outbox_owner_put_event(owner, 1, 0);
  outbox_flush(owner->outbox);
  outbox_start(owner->outbox);
  outbox_owner_awaits(owner, OUTBOX_OPENING + 1);
  outbox_owner_got(owner, OUTBOX_OPENING, "XADD", "<1>");
}

static void what_was_not_acknowledged_is_sent_again(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 1000000);
  owner->acknowledged = 1;
  for (int i = 1; i <= 3; i++)
    outbox_owner_put_event(owner, i, 0);
  outbox_flush(owner->outbox);
  outbox_owner_awaits(owner, OUTBOX_OPENING + 3);
  assert_int_equal(outbox_unacknowledged(owner->outbox), 2);
  owner->acknowledged = SIZE_MAX;
  fake_redis_send(owner->server, "$3\r\n1-"); /* half an answer is none */
  loop_settle(&owner->loop);
  fake_redis_close_connection(owner->server);
  assert_true(loop_until(&owner->loop, outbox_owner_is_empty, owner));
  size_t again = OUTBOX_OPENING + 3;
  outbox_owner_awaits(owner, again + OUTBOX_OPENING + 2);
  outbox_owner_got(owner, again, "CLIENT", "its-name");
  outbox_owner_got(owner, again + OUTBOX_OPENING, "XADD", "<2>");
  outbox_owner_got(owner, again + OUTBOX_OPENING + 1, "XADD", "<3>");
  assert_int_equal(owner->ready, 1);
  assert_int_equal(owner->failed, 0);
}

static void half_written_records_are_sent_again_whole(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 100000000);
  fake_redis_stop_reading(owner->server);
  for (int i = 0; i < 300; i++)
    outbox_owner_put_event(owner, i, 9000); /* many times what a socket takes */
  outbox_flush(owner->outbox);
  loop_settle(&owner->loop);
  fake_redis_close_connection(owner->server);
  outbox_owner_put_result(owner); /* while it is away */
  outbox_flush(owner->outbox);
  assert_true(loop_until(&owner->loop, outbox_owner_is_empty, owner));
  outbox_owner_awaits(owner, 2 * OUTBOX_OPENING + 301);
  for (int i = 0; i < 300; i++) {
    char expected[16];
    snprintf(expected, sizeof expected, "\"<%d>", i);
    outbox_owner_got(owner, 2 * OUTBOX_OPENING + (size_t)i, "XADD", expected);
  }
  outbox_owner_got(owner, 2 * OUTBOX_OPENING + 300, "LPUSH", "exitCode");
}

/* The command goes on printing while the link logs in: the socket is not ours yet. */
static void nothing_is_sent_into_a_login(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 1000000);
  owner->silent = true;
  outbox_owner_put_event(owner, 1, 0);
  outbox_flush(owner->outbox);
  outbox_owner_awaits(owner, OUTBOX_OPENING + 1);
  fake_redis_close_connection(owner->server);
  size_t opened = OUTBOX_OPENING + 1 + OUTBOX_OPENING;
  outbox_owner_awaits(owner, opened);
  outbox_owner_put_event(owner, 2, 0);
  outbox_flush(owner->outbox);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), opened);
  owner->silent = false;
  for (int i = 0; i < OUTBOX_OPENING; i++)
    fake_redis_send(owner->server, "+OK\r\n");
  assert_true(loop_until(&owner->loop, outbox_owner_is_empty, owner));
  outbox_owner_awaits(owner, opened + 2);
  outbox_owner_got(owner, opened, "XADD", "<1>");
  outbox_owner_got(owner, opened + 1, "XADD", "<2>");
}

static void it_says_when_there_is_room_again(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 10000);
  owner->acknowledged = 0;
  int events = 0;
  while (!outbox_is_full(owner->outbox))
    outbox_owner_put_event(owner, events++, 500);
  outbox_flush(owner->outbox);
  outbox_owner_awaits(owner, OUTBOX_OPENING + (size_t)events);
  assert_int_equal(owner->room, 0);
  for (int i = 0; i < events; i++) {
    fake_redis_send(owner->server, "$3\r\n1-0\r\n");
    loop_settle(&owner->loop);
    assert_true(owner->room == 0 || !outbox_is_full(owner->outbox));
  }
  assert_int_equal(owner->room, 1);
  assert_true(outbox_owner_is_empty(owner));
}

static void one_record_may_be_larger_than_the_hold(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 1000);
  outbox_owner_put_event(owner, 1, 5000);
  assert_true(outbox_is_full(owner->outbox));
  outbox_flush(owner->outbox);
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->room));
  assert_false(outbox_is_full(owner->outbox));
}

static void what_passes_is_sent_again(void **state) {
  static const char *const errors[] = {
      "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
      "-READONLY You can't write against a read only replica.\r\n",
      "-MISCONF Redis is configured to save RDB snapshots\r\n"};
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 1000000);
  size_t commands = OUTBOX_OPENING;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    owner->acknowledged = 0;
    outbox_owner_put_event(owner, 7, 0);
    outbox_flush(owner->outbox);
    outbox_owner_awaits(owner, commands += 1);
    owner->acknowledged = SIZE_MAX;
    fake_redis_send(owner->server, errors[i]);
    assert_true(loop_until(&owner->loop, outbox_owner_is_empty, owner));
    outbox_owner_awaits(owner, commands += OUTBOX_OPENING + 1); /* and the same again */
    outbox_owner_got(owner, commands - 1, "XADD", "<7>");
  }
  assert_int_equal(owner->failed, 0);
}

static void what_does_not_pass_is_told(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 1000000);
  owner->refuse = "LPUSH";
  owner->error_reply = "-WRONGTYPE Operation against a key\r\n";
  outbox_owner_put_event(owner, 1, 0);
  outbox_owner_put_result(owner);
  outbox_owner_put_event(owner, 2, 0);
  outbox_flush(owner->outbox);
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->failed));
  outbox_owner_put_event(owner, 3, 0);
  outbox_flush(owner->outbox);
  outbox_owner_awaits(owner, OUTBOX_OPENING + 3);
  assert_int_equal(owner->failed, 1);
  assert_non_null(strstr(owner->error, "LPUSH sandbox:j:results: WRONGTYPE"));
  assert_int_equal(outbox_unacknowledged(owner->outbox), 3);
  assert_true(outbox_is_gone(owner->outbox));
}

static void it_is_gone_when_it_could_not_come_back(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 1000000);
  fake_redis_refuse(owner->server);
  fake_redis_close_connection(owner->server);
  loop_settle(&owner->loop);
  assert_false(outbox_is_gone(owner->outbox)); /* that is still to be seen */
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->gone));
  assert_true(outbox_is_gone(owner->outbox));
}

/* A replica, say: to be logged in is not enough. */
static void what_can_not_write_is_not_ready(void **state) {
  struct outbox_owner *owner = *state;
  owner->refuse = "XADD";
  owner->error_reply = "-READONLY You can't write against a read only replica.\r\n";
  outbox_owner_make(owner, 10000, 1000000);
  outbox_start(owner->outbox);
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->failed));
  assert_int_equal(owner->ready, 0);
  assert_int_equal(fake_redis_connections(owner->server), 5);
  assert_non_null(strstr(owner->error, "READONLY"));
}

static void an_answer_nobody_asked_for_is_no_acknowledgement(void **state) {
  struct outbox_owner *owner = *state;
  outbox_owner_start(owner, 0, 1000000);
  fake_redis_send(owner->server, "+OK\r\n");
  outbox_owner_awaits(owner, 2 * OUTBOX_OPENING); /* a new connection */
  outbox_owner_put_event(owner, 1, 0);
  outbox_flush(owner->outbox);
  assert_true(loop_until(&owner->loop, outbox_owner_is_empty, owner));
  outbox_owner_awaits(owner, 2 * OUTBOX_OPENING + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(asks_first_whether_it_may, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(a_missing_permission_is_told_at_once, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(everything_leaves_in_order_when_it_is_flushed,
                                      outbox_owner_set_up, outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(what_was_put_before_the_connection_is_sent_behind_it,
                                      outbox_owner_set_up, outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(what_was_not_acknowledged_is_sent_again, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(half_written_records_are_sent_again_whole,
                                      outbox_owner_set_up, outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(nothing_is_sent_into_a_login, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(it_says_when_there_is_room_again, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(one_record_may_be_larger_than_the_hold, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(what_passes_is_sent_again, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(what_does_not_pass_is_told, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(it_is_gone_when_it_could_not_come_back, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(what_can_not_write_is_not_ready, outbox_owner_set_up,
                                      outbox_owner_tear_down),
      cmocka_unit_test_setup_teardown(an_answer_nobody_asked_for_is_no_acknowledgement,
                                      outbox_owner_set_up, outbox_owner_tear_down),
  };
  return cmocka_run_group_tests_name("outbox", tests, NULL, NULL);
}
