#include "agent/frontends/redis/connection/command.h"
#include "tests/support/delivery_owner.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define BATCH(COMMANDS) "MULTI\n" COMMANDS "SET " KEY "committed 1:\nEXEC\n"
/* The commands at startup if keys do not expire. */
#define PERSISTS                                                                                   \
  "PERSIST " KEY "in\nPERSIST " KEY "events\nPERSIST " KEY "results\nPERSIST " KEY                 \
  "inflight\nPERSIST " KEY "started\nPERSIST " KEY "control\n"

#define REFRESH                                                                                    \
  "EXPIRE " KEY "in 1\nEXPIRE " KEY "events 1\nEXPIRE " KEY "results 1\nEXPIRE " KEY               \
  "inflight 1\nEXPIRE " KEY "started 1\nEXPIRE " KEY "control 1\n"

NEW_DELIVERY_TEST(keys_are_refreshed_at_once_and_three_times_in_each_ttl) {
  delivery_owner_start_outbox(owner, 1, 1000000);
  LOOP_UNTIL(&owner->loop, delivery_owner_transactions(owner) >= 4);
  delivery_owner_expect_executed(owner, BATCH("") BATCH(REFRESH) BATCH(REFRESH) BATCH(REFRESH));
}

NEW_DELIVERY_TEST(refreshes_do_not_pile_up_during_an_outage) {
  delivery_owner_start_outbox(owner, 1, 1000000);
  delivery_owner_drain(owner);
  redis_store_go_away(owner->store);
  LOOP_UNTIL(&owner->loop, owner->unreachable >= 5); /* takes much longer than a refresh interval */
  assert_true(outbox_is_empty(owner->outbox));
}

NEW_DELIVERY_TEST(delivered_batches_give_capacity_again) {
  delivery_owner_start_outbox(owner, 0, 800000);
  int events = 0;
  while (outbox_capacity(owner->outbox) > 0)
    delivery_owner_put_event(owner, events++, 500);
  assert_int_equal(owner->capacity, 0);
  assert_false(outbox_has_capacity_again(owner->outbox));
  outbox_flush(owner->outbox);
  while (owner->capacity == 0) {
    assert_int_equal(owner->empty, 0);
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  }
  assert_in_range(outbox_capacity(owner->outbox), 1, 799000); /* something is queued */
  /* The ownership transaction, one batch, and perhaps the next one. */
  assert_in_range(delivery_owner_transactions(owner), 1 + 1, 1 + 2);
  delivery_owner_drain(owner);
  assert_int_equal(owner->capacity, 2); /* with each batch */
  assert_int_equal(owner->empty, 1);
  assert_true(outbox_capacity(owner->outbox) ==
              SIZE_MAX); /* empty: it accepts a record of any size */
}

NEW_DELIVERY_TEST(one_record_may_be_larger_than_the_queue) {
  delivery_owner_start_outbox(owner, 0, 1000);
  delivery_owner_put_event(owner, 1, 5000);
  assert_int_equal(outbox_capacity(owner->outbox), 0);
  delivery_owner_drain(owner);
  assert_int_equal(owner->capacity, 1);
  char *payload = calloc(1, 5001);
  memset(payload, 'x', 5000);
  delivery_owner_put_result(owner, payload);
  free(payload);
  assert_int_equal(outbox_capacity(owner->outbox), 0);
  delivery_owner_drain(owner);
  assert_int_equal(owner->capacity, 2);
}

NEW_DELIVERY_TEST(redis_is_unreachable_after_a_failed_reconnect) {
  delivery_owner_start_outbox(owner, 0, 1000000);
  redis_store_go_away(owner->store);
  loop_settle(&owner->loop);
  assert_false(
      delivery_is_unreachable(owner->outbox->delivery)); /* the reconnect has not failed yet */
  loop_await(&owner->loop, &owner->unreachable, 1);
  assert_true(delivery_is_unreachable(owner->outbox->delivery));
  redis_store_come_back(owner->store);
  delivery_owner_put_event(owner, 1, 0);
  delivery_owner_drain(owner);
  assert_false(delivery_is_unreachable(owner->outbox->delivery));
}

NEW_DELIVERY_TEST(at_most_one_heartbeat_is_queued) {
  delivery_owner_start_outbox(owner, 0, 1000000);
  delivery_owner_drain(owner);
  delivery_owner_expect_executed(owner, BATCH("") BATCH(PERSISTS));
  assert_true(outbox_set_heartbeat(owner->outbox, "{1}", "10"));
  assert_false(outbox_set_heartbeat(owner->outbox, "{2}", "10"));
  delivery_owner_put_event(owner, 1, 0);
  assert_false(outbox_set_heartbeat(owner->outbox, "{3}", "10"));
  delivery_owner_drain(owner);
  delivery_owner_expect_executed(owner, BATCH("SET " KEY "heartbeat {1} EX 10\n"
                                              "XADD " KEY "events MAXLEN ~ 10000 * data {\n"));
  delivery_owner_put_event(owner, 2, 0);
  assert_true(outbox_set_heartbeat(owner->outbox, "{4}", "10"));
  delivery_owner_drain(owner);
  delivery_owner_expect_executed(owner, BATCH("XADD " KEY "events MAXLEN ~ 10000 * data {\n"
                                              "SET " KEY "heartbeat {4} EX 10\n"));
  assert_true(outbox_set_heartbeat(owner->outbox, "{5}", "10"));
}

/* A heartbeat does not delay the end of the agent. */
NEW_DELIVERY_TEST(an_outbox_with_only_a_heartbeat_is_empty) {
  delivery_owner_start_outbox(owner, 0, 1000000);
  delivery_owner_drain(owner);
  assert_true(outbox_set_heartbeat(owner->outbox, "{1}", "10"));
  outbox_refresh(owner->outbox);
  assert_true(outbox_is_empty(owner->outbox));
  delivery_owner_put_event(owner, 1, 0);
  assert_false(outbox_is_empty(owner->outbox));
  delivery_owner_drain(owner);
  assert_true(outbox_is_empty(owner->outbox));
  outbox_end(owner->outbox);
  assert_false(outbox_is_empty(owner->outbox));
}

/* --- the encoded commands, without a connection ----------------------------------------------- */

static void make(struct delivery_owner *owner, unsigned long long maxlen, unsigned long long keep,
                 unsigned long long ttl) {
  struct delivery_options options = {.url = &owner->url,
                                     .events_maxlen = maxlen,
                                     .events_keep_bytes = keep,
                                     .key_ttl_seconds = ttl};
  if (owner->outbox != NULL)
    outbox_free(owner->outbox);
  owner->outbox =
      outbox_new(owner->loop.base, &owner->loop.log, &options, &owner->keys, NULL, NULL);
}

/* Keys expire, or they do not. The stream is not trimmed. */
static int set_up(void **state) {
  delivery_owner_set_up(state);
  make(*state, 0, 0, 60);
  return 0;
}

static int set_up_forever(void **state) {
  delivery_owner_set_up(state);
  make(*state, 0, 0, 0);
  return 0;
}

#define EXPIRING_TEST(NAME)                                                                        \
  TEST_WITH(struct delivery_owner *owner, NAME, set_up, delivery_owner_tear_down)
#define STAYING_TEST(NAME)                                                                         \
  TEST_WITH(struct delivery_owner *owner, NAME, set_up_forever, delivery_owner_tear_down)

/* Answers a step and removes it from `inflight`, unless the payload is NULL. */
static void put_result(struct delivery_owner *owner, const struct step_event *completed,
                       const struct step_result *result, const struct payload *step,
                       bool ends_started) {
  struct outbox_record record = {
      .completed = completed, .result = result, .ends_started = ends_started};
  if (step != NULL)
    record.changes[record.change_count++] = (struct outbox_change){
        .kind = OUTBOX_REMOVE_OLDEST, .list = OUTBOX_INFLIGHT, .value = *step};
  outbox_write(owner->outbox, &record);
}

static void put_started(struct delivery_owner *owner, const char *step_id) {
  outbox_write(owner->outbox,
               &(struct outbox_record){.started = step_id, .ends_started = step_id == NULL});
}

static void put_change(struct delivery_owner *owner, enum outbox_change_kind kind,
                       enum outbox_list list, const struct payload *value) {
  outbox_write(owner->outbox,
               &(struct outbox_record){.changes = {{.kind = kind, .list = list, .value = *value}},
                                       .change_count = 1});
}

/* Asserts that exactly these commands are queued, in one batch, and delivers them. Each line has
   the words of one command, separated by spaces. */
static void holds(struct outbox *self, const char *expected) {
  static char text[8192];
  size_t commands = 0;
  char *out = text;
  const struct batch *batch = send_queue_batch(&self->send_queue);
  assert_non_null(batch);
  assert_int_equal(batch->length, self->send_queue.bytes);
  assert_int_equal(batch->count, 1);
  struct command_word words[10];
  const char *at = batch->pieces[0].iov_base;
  for (const char *end = at + batch->length; command_read(&at, end, words, 10); commands++) {
    for (size_t i = 0; i < 10 && words[i].text != NULL; i++)
      out += sprintf(out, "%s%.*s", i > 0 ? " " : "", (int)words[i].length, words[i].text);
    out += sprintf(out, "\n");
  }
  assert_string_equal(text, expected);
  assert_int_equal(batch->commands, commands);
  send_queue_remove_batch(&self->send_queue);
}

static const struct step_event event = {.schema_version = 1,
                                        .kind = STEP_EVENT_STDOUT,
                                        .step_id = "s",
                                        .step_id_length = 1,
                                        .line = "hello",
                                        .line_length = 5,
                                        .timestamp = "2026-05-05T10:00:00.123+00:00",
                                        .seq = 2};

#define EVENT                                                                                      \
  "{\"schemaVersion\":1,\"stepId\":\"s\",\"kind\":\"stdout\",\"line\":\"hello\","                  \
  "\"timestamp\":\"2026-05-05T10:00:00.123+00:00\",\"seq\":2}"
#define RESULT                                                                                     \
  "{\"schemaVersion\":1,\"stepId\":\"s\",\"exitCode\":3,\"timedOut\":false,"                       \
  "\"durationSeconds\":0,\"errorMessage\":null,\"outputContent\":null,\"eventCount\":2,"           \
  "\"end\":{\"cause\":\"exited\"}}"

#define ADDED "XADD " KEY "events * data " EVENT "\n"
#define PUSHED "LPUSH " KEY "results " RESULT "\n"
#define REMOVED "LREM " KEY "inflight -1 {the step}\n"
#define PUT_BACK "RPUSH " KEY "inflight {the step}\n"
#define ENDED "DEL " KEY "started\n"
#define ANSWERS_EXPIRE "EXPIRE " KEY "results 60\nEXPIRE " KEY "events 60\n"

static const struct payload the_step = {.bytes = "{the step}", .length = 10};
static const struct step_result result = {
    .schema_version = 1, .step_id = "s", .exit_code = 3, .event_count = 2};

EXPIRING_TEST(an_event_is_one_entry_of_the_stream) {
  static const char expected[] =
      "*8\r\n$4\r\nXADD\r\n$16\r\nsandbox:j:events\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$5\r\n10000\r\n"
      "$1\r\n*\r\n$4\r\ndata\r\n$115\r\n" EVENT "\r\n";
  make(owner, 10000, 0, 60);
  outbox_add_event(owner->outbox, &event);
  const struct batch *batch = send_queue_batch(&owner->outbox->send_queue);
  assert_non_null(batch);
  assert_int_equal(batch->length, sizeof expected - 1);
  assert_memory_equal(batch->pieces[0].iov_base, expected, sizeof expected - 1);
  assert_int_equal(batch->commands, 1);
}

/* Deferred events are counted when they are queued. */
EXPIRING_TEST(retention_counts_queued_events) {
  make(owner, 1000, 1000000, 60);
  const struct retention *retention = &owner->outbox->retention;
  outbox_add_event(owner->outbox, &event);
  assert_int_equal(retention->events, 1);
  assert_int_equal(retention->bytes, strlen(EVENT));
  (void)outbox_defer_event(owner->outbox, &event);
  assert_int_equal(retention->events, 1);
  put_result(owner, &event, &result, &the_step, true);
  assert_int_equal(retention->events, 3);
  assert_true(retention->bytes >= 3 * strlen(EVENT));
}

EXPIRING_TEST(the_key_started_is_set_and_deleted) {
  put_started(owner, "an id");
  holds(owner->outbox, "SET " KEY "started an id EX 60\n"
                       "EXPIRE " KEY "in 60\n"
                       "EXPIRE " KEY "inflight 60\n");
  put_started(owner, NULL);
  holds(owner->outbox, ENDED);
}

EXPIRING_TEST(a_result_and_its_changes_are_one_group) {
  put_result(owner, NULL, &result, &the_step, true);
  holds(owner->outbox, PUSHED REMOVED ENDED ANSWERS_EXPIRE);
  put_result(owner, NULL, &result, &the_step, false);
  holds(owner->outbox, PUSHED REMOVED ANSWERS_EXPIRE);
  put_result(owner, NULL, &result, NULL, true);
  holds(owner->outbox, PUSHED ENDED ANSWERS_EXPIRE);
  put_result(owner, &event, &result, &the_step, true);
  holds(owner->outbox, ADDED PUSHED REMOVED ENDED ANSWERS_EXPIRE);
}

/* The result does not fit into the rest of a chunk. */
STAYING_TEST(a_result_is_never_split) {
  /* A batch with space left for the event alone. */
  size_t most = (BATCH_PIECES - 1) * SEND_QUEUE_CHUNK_SIZE;
  memset(send_queue_reserve(&owner->outbox->send_queue, most), 'x', most);
  send_queue_commit(&owner->outbox->send_queue, 1);
  memset(send_queue_reserve(&owner->outbox->send_queue, SEND_QUEUE_CHUNK_SIZE - 250), 'x',
         SEND_QUEUE_CHUNK_SIZE - 250);
  send_queue_commit(&owner->outbox->send_queue, 1);
  put_result(owner, &event, &result, &the_step, true);
  const struct batch *batch = send_queue_batch(&owner->outbox->send_queue);
  assert_non_null(batch);
  assert_int_equal(batch->length, most + SEND_QUEUE_CHUNK_SIZE - 250);
  send_queue_remove_batch(&owner->outbox->send_queue);
  holds(owner->outbox, ADDED PUSHED REMOVED ENDED);
}

STAYING_TEST(a_truncated_step_is_removed_by_its_position) {
  struct payload step = {.bytes = "{begin", .length = 6, .is_truncated = true};
  put_result(owner, NULL, &result, &step, false);
  put_change(owner, OUTBOX_REMOVE_OLDEST, OUTBOX_INFLIGHT, &step);
  holds(owner->outbox, PUSHED "LTRIM " KEY "inflight 0 -2\n"
                              "LTRIM " KEY "inflight 0 -2\n");
}

EXPIRING_TEST(a_value_is_removed_from_a_list_or_pushed_to_it) {
  put_change(owner, OUTBOX_REMOVE_OLDEST, OUTBOX_INFLIGHT, &the_step);
  holds(owner->outbox, REMOVED);
  put_change(owner, OUTBOX_REMOVE_NEWEST, OUTBOX_IN, &the_step);
  holds(owner->outbox, "LREM " KEY "in 1 {the step}\n");
  put_change(owner, OUTBOX_PUSH_OLDEST, OUTBOX_INFLIGHT, &the_step);
  holds(owner->outbox, PUT_BACK "EXPIRE " KEY "inflight 60\n");
  put_change(owner, OUTBOX_PUSH_NEWEST, OUTBOX_CONTROL, &the_step);
  holds(owner->outbox, "LPUSH " KEY "control {the step}\nEXPIRE " KEY "control 60\n");
}

/* Events and result are one transaction, so a reader sees all events of the step or none. */
EXPIRING_TEST(deferred_events_leave_with_the_result) {
  size_t one = outbox_defer_event(owner->outbox, &event);
  assert_in_range(one, sizeof EVENT, sizeof EVENT + 100);
  assert_int_equal(outbox_defer_event(owner->outbox, &event), 2 * one);
  assert_int_equal(owner->outbox->send_queue.bytes, 0);
  put_result(owner, &event, &result, &the_step, false);
  holds(owner->outbox, ADDED ADDED ADDED PUSHED REMOVED ANSWERS_EXPIRE);
  put_result(owner, &event, &result, &the_step, false); /* no event is deferred anymore */
  holds(owner->outbox, ADDED PUSHED REMOVED ANSWERS_EXPIRE);
}

/* Deferred events belong to the running step, and not to this result. */
STAYING_TEST(a_result_without_events_does_not_send_deferred_events) {
  struct payload other = {.bytes = "{cancelled}", .length = 11};
  outbox_defer_event(owner->outbox, &event);
  put_result(owner, NULL, &result, &other, false);
  holds(owner->outbox, PUSHED "LREM " KEY "inflight -1 {cancelled}\n");
  put_result(owner, &event, &result, &the_step, false);
  holds(owner->outbox, ADDED ADDED PUSHED REMOVED);
}

STAYING_TEST(deferred_events_can_leave_before_the_result) {
  outbox_add_deferred(owner->outbox); /* there are none */
  assert_int_equal(owner->outbox->send_queue.bytes, 0);
  size_t one = outbox_defer_event(owner->outbox, &event);
  outbox_defer_event(owner->outbox, &event);
  outbox_add_deferred(owner->outbox);
  outbox_add_deferred(owner->outbox);
  holds(owner->outbox, ADDED ADDED);
  assert_int_equal(outbox_defer_event(owner->outbox, &event), one);
  put_result(owner, &event, &result, &the_step, true);
  holds(owner->outbox, ADDED ADDED PUSHED REMOVED ENDED);
}

static void count_result(void *context, const char *json, size_t length) {
  assert_int_equal(length, strlen(RESULT));
  assert_memory_equal(json, RESULT, length);
  ++*(int *)context;
}

/* The results fill several chunks and have other commands between them. */
STAYING_TEST(results_that_are_not_delivered_are_listed) {
  enum { RESULTS = 3000 };
  int count = 0;
  for (int i = 0; i < RESULTS; i++) {
    put_result(owner, &event, &result, &the_step, true);
    put_started(owner, "id");
  }
  outbox_for_each(owner->outbox, "LPUSH", KEY "results", count_result, &count);
  assert_int_equal(count, RESULTS);
  while (send_queue_batch(&owner->outbox->send_queue) != NULL)
    send_queue_remove_batch(&owner->outbox->send_queue);
  outbox_for_each(owner->outbox, "LPUSH", KEY "results", count_result, &count);
  assert_int_equal(count, RESULTS);
}
