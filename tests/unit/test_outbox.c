#include "tests/support/delivery_owner.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define CLAIM "SET " KEY "committed 1:"
/* What the beginning of an agent without a time for keys does. */
#define PERSISTS                                                                                   \
  "PERSIST " KEY "in\nPERSIST " KEY "events\nPERSIST " KEY "results\nPERSIST " KEY                 \
  "inflight\nPERSIST " KEY "started\n"

#define REFRESH                                                                                    \
  "EXPIRE " KEY "in 1\nEXPIRE " KEY "events 1\nEXPIRE " KEY "results 1\nEXPIRE " KEY               \
  "inflight 1\nEXPIRE " KEY "started 1\n"

NEW_DELIVERY_TEST(everything_leaves_in_order_when_it_is_flushed) {
  struct claimed step = {.payload = "{step}", .length = 6, .truncated = false};
  delivery_owner_start_outbox(owner, 0, 1000000);
  delivery_owner_drain(owner);
  delivery_owner_has_done(owner, CLAIM "\n" PERSISTS CLAIM "\n");
  records_started(&owner->outbox->records, "the id");
  delivery_owner_put_event(owner, 1, 0);
  delivery_owner_put_event(owner, 2, 0);
  delivery_owner_put_result(owner, "{step}");
  records_removal(&owner->outbox->records, &step);
  records_return(&owner->outbox->records, &step);
  loop_settle(&owner->loop);
  delivery_owner_has_done(owner, "");
  assert_false(outbox_is_empty(owner->outbox));
  assert_int_equal(owner->empty, 1);
  delivery_owner_drain(owner);
  delivery_owner_has_done(owner, "SET " KEY "started the id\n"
                                 "XADD " KEY "events MAXLEN ~ 10000 * data {\n"
                                 "XADD " KEY "events MAXLEN ~ 10000 * data {\n"
                                 "LPUSH " KEY "results {\n"
                                 "LREM " KEY "inflight -1 {step}\n"
                                 "DEL " KEY "started\n"
                                 "LREM " KEY "inflight -1 {step}\n"
                                 "LREM " KEY "inflight -1 {step}\n"
                                 "RPUSH " KEY "inflight {step}\n" CLAIM "\n");
  assert_int_equal(owner->empty, 2);
}

NEW_DELIVERY_TEST(what_was_added_before_the_connection_is_sent_after_it) {
  delivery_owner_make_outbox(owner, 0, 1000000);
  delivery_owner_put_event(owner, 1, 0);
  outbox_flush(owner->outbox);
  assert_int_equal(fake_redis_connections(owner->server), 0);
  delivery_start(owner->outbox->delivery);
  loop_await(&owner->loop, &owner->empty, 1);
  delivery_owner_has_done(owner, CLAIM "\nXADD " KEY "events\n" PERSISTS CLAIM "\n");
  assert_int_equal(owner->owned, 1);
}

NEW_DELIVERY_TEST(keys_are_refreshed_at_once_and_three_times_in_each_ttl) {
  delivery_owner_start_outbox(owner, 1, 1000000);
  LOOP_UNTIL(&owner->loop, owner->redis.executed >= 4);
  delivery_owner_has_done(owner,
                          CLAIM "\n" REFRESH CLAIM "\n" REFRESH CLAIM "\n" REFRESH CLAIM "\n");
}

NEW_DELIVERY_TEST(refreshes_do_not_pile_up_during_an_outage) {
  delivery_owner_start_outbox(owner, 1, 1000000);
  delivery_owner_drain(owner);
  fake_redis_refuse(owner->server);
  fake_redis_close_connection(owner->server);
  LOOP_UNTIL(&owner->loop, owner->unreachable >= 5); /* much later than a refresh */
  assert_true(outbox_is_empty(owner->outbox));
}

NEW_DELIVERY_TEST(it_says_when_there_is_room_again) {
  delivery_owner_start_outbox(owner, 0, 800000);
  int events = 0;
  while (outbox_room(owner->outbox) > 0)
    delivery_owner_put_event(owner, events++, 500);
  assert_int_equal(owner->room, 0);
  assert_false(outbox_has_room_again(owner->outbox));
  outbox_flush(owner->outbox);
  while (owner->room == 0) {
    assert_int_equal(owner->empty, 0);
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  }
  assert_in_range(outbox_room(owner->outbox), 1, 799000); /* something is queued */
  assert_in_range(owner->redis.executed, 1 + 1, 1 + 2); /* ownership, one batch, perhaps the next */
  delivery_owner_drain(owner);
  assert_int_equal(owner->room, 2); /* with each batch */
  assert_int_equal(owner->empty, 1);
  assert_true(outbox_room(owner->outbox) == SIZE_MAX); /* empty: it accepts a record of any size */
}

NEW_DELIVERY_TEST(one_record_may_be_larger_than_the_queue) {
  delivery_owner_start_outbox(owner, 0, 1000);
  delivery_owner_put_event(owner, 1, 5000);
  assert_int_equal(outbox_room(owner->outbox), 0);
  delivery_owner_drain(owner);
  assert_int_equal(owner->room, 1);
  char *payload = calloc(1, 5001);
  memset(payload, 'x', 5000);
  delivery_owner_put_result(owner, payload);
  free(payload);
  assert_int_equal(outbox_room(owner->outbox), 0);
  delivery_owner_drain(owner);
  assert_int_equal(owner->room, 2);
}

NEW_DELIVERY_TEST(it_is_unreachable_when_a_reconnect_failed) {
  delivery_owner_start_outbox(owner, 0, 1000000);
  fake_redis_refuse(owner->server);
  fake_redis_close_connection(owner->server);
  loop_settle(&owner->loop);
  assert_false(delivery_is_unreachable(owner->outbox->delivery)); /* that is still to be seen */
  loop_await(&owner->loop, &owner->unreachable, 1);
  assert_true(delivery_is_unreachable(owner->outbox->delivery));
  fake_redis_accept(owner->server);
  delivery_owner_put_event(owner, 1, 0);
  delivery_owner_drain(owner);
  assert_false(delivery_is_unreachable(owner->outbox->delivery));
}

NEW_DELIVERY_TEST(at_most_one_beat_is_queued) {
  delivery_owner_start_outbox(owner, 0, 1000000);
  delivery_owner_drain(owner);
  delivery_owner_has_done(owner, CLAIM "\n" PERSISTS CLAIM "\n");
  assert_true(outbox_beat(owner->outbox, "{1}", "10"));
  assert_false(outbox_beat(owner->outbox, "{2}", "10"));
  delivery_owner_put_event(owner, 1, 0);
  assert_false(outbox_beat(owner->outbox, "{3}", "10"));
  delivery_owner_drain(owner);
  delivery_owner_has_done(owner, "SET " KEY "heartbeat {1} EX 10\n"
                                 "XADD " KEY "events MAXLEN ~ 10000 * data {\n" CLAIM "\n");
  delivery_owner_put_event(owner, 2, 0);
  assert_true(outbox_beat(owner->outbox, "{4}", "10"));
  delivery_owner_drain(owner);
  delivery_owner_has_done(owner, "XADD " KEY "events MAXLEN ~ 10000 * data {\n"
                                 "SET " KEY "heartbeat {4} EX 10\n" CLAIM "\n");
  assert_true(outbox_beat(owner->outbox, "{5}", "10"));
}

/* Nobody has to wait for it, nor is it missed. */
NEW_DELIVERY_TEST(a_beat_alone_counts_as_empty) {
  delivery_owner_start_outbox(owner, 0, 1000000);
  delivery_owner_drain(owner);
  assert_true(outbox_beat(owner->outbox, "{1}", "10"));
  assert_true(outbox_is_empty(owner->outbox));
  delivery_owner_put_event(owner, 1, 0);
  assert_false(outbox_is_empty(owner->outbox));
  delivery_owner_drain(owner);
  assert_true(outbox_is_empty(owner->outbox));
  outbox_end(owner->outbox);
  assert_false(outbox_is_empty(owner->outbox));
}
