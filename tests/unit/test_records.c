#include "agent/doors/redis/delivery/records.h"
#include "agent/doors/redis/link/command.h"
#include "tests/test.h"

#define KEY "sandbox:j:"

struct scene {
  struct keys keys;
  struct send_queue send_queue;
  struct records records;
};

/* Keys expire, or they do not; the stream is not trimmed. */
static int set_up_with_ttl(void **state, unsigned long long ttl) {
  struct scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  keys_init(&self->keys, "j");
  send_queue_init(&self->send_queue);
  records_init(&self->records, &self->send_queue, &self->keys, 0, 0, ttl);
  *state = self;
  return 0;
}

static int set_up(void **state) {
  return set_up_with_ttl(state, 60);
}

static int set_up_forever(void **state) {
  return set_up_with_ttl(state, 0);
}

static int tear_down(void **state) {
  struct scene *self = *state;
  records_release(&self->records);
  send_queue_free(&self->send_queue);
  keys_release(&self->keys);
  free(self);
  return 0;
}

#define EXPIRING_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)
#define STAYING_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up_forever, tear_down)

/* Queued are exactly these commands, their words joined by one space, one line each; and it is one
   batch. Delivers it. */
static void holds(struct scene *self, const char *expected) {
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
  send_queue_delivered(&self->send_queue);
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
  "\"durationSeconds\":0,\"errorMessage\":null,\"outputContent\":null,\"eventCount\":2}"

#define ADDED "XADD " KEY "events * data " EVENT "\n"
#define PUSHED "LPUSH " KEY "results " RESULT "\n"
#define REMOVED "LREM " KEY "inflight -1 {the step}\n"
#define PUT_BACK "RPUSH " KEY "inflight {the step}\n"
#define ENDED "DEL " KEY "started\n"
#define ANSWERS_EXPIRE "EXPIRE " KEY "results 60\nEXPIRE " KEY "events 60\n"

static const struct claimed the_step = {.payload = "{the step}", .length = 10};
static const struct step_result result = {
    .schema_version = 1, .step_id = "s", .exit_code = 3, .event_count = 2};

EXPIRING_TEST(an_event_is_one_entry_of_the_stream) {
  static const char expected[] =
      "*8\r\n$4\r\nXADD\r\n$16\r\nsandbox:j:events\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$5\r\n10000\r\n"
      "$1\r\n*\r\n$4\r\ndata\r\n$115\r\n" EVENT "\r\n";
  records_release(&scene->records);
  records_init(&scene->records, &scene->send_queue, &scene->keys, 10000, 0, 60);
  records_event(&scene->records, &event);
  const struct batch *batch = send_queue_batch(&scene->send_queue);
  assert_non_null(batch);
  assert_int_equal(batch->length, sizeof expected - 1);
  assert_memory_equal(batch->pieces[0].iov_base, expected, sizeof expected - 1);
  assert_int_equal(batch->commands, 1);
}

EXPIRING_TEST(the_stream_is_trimmed_by_itself) {
  records_trim(&scene->records, 31350);
  holds(scene, "XTRIM " KEY "events MAXLEN 31350\n");
}

/* What keeps young events counts them: not when they are deferred, but when they are queued. */
EXPIRING_TEST(queued_events_are_counted) {
  const struct retention *retention = &scene->records.retention;
  records_release(&scene->records);
  records_init(&scene->records, &scene->send_queue, &scene->keys, 1000, 1000000, 60);
  records_event(&scene->records, &event);
  assert_int_equal(retention->events, 1);
  assert_int_equal(retention->bytes, strlen(EVENT));
  (void)records_defer_event(&scene->records, &event);
  assert_int_equal(retention->events, 1);
  records_result(&scene->records, &event, &result, &the_step, true);
  assert_int_equal(retention->events, 3);
  assert_true(retention->bytes >= 3 * strlen(EVENT));
}

EXPIRING_TEST(a_step_is_started_until_it_is_not) {
  records_started(&scene->records, "an id");
  holds(scene, "SET " KEY "started an id EX 60\n"
               "EXPIRE " KEY "in 60\n"
               "EXPIRE " KEY "inflight 60\n");
  records_started(&scene->records, NULL);
  holds(scene, ENDED "EXPIRE " KEY "in 60\n"
                     "EXPIRE " KEY "inflight 60\n");
}

EXPIRING_TEST(a_result_and_what_goes_with_it_are_one_piece) {
  records_result(&scene->records, NULL, &result, &the_step, true);
  holds(scene, PUSHED REMOVED ENDED ANSWERS_EXPIRE);
  records_result(&scene->records, NULL, &result, &the_step, false);
  holds(scene, PUSHED REMOVED ANSWERS_EXPIRE);
  records_result(&scene->records, NULL, &result, NULL, true);
  holds(scene, PUSHED ENDED ANSWERS_EXPIRE);
  records_result(&scene->records, &event, &result, &the_step, true);
  holds(scene, ADDED PUSHED REMOVED ENDED ANSWERS_EXPIRE);
}

/* Also where it does not fit into what is left of a chunk. */
STAYING_TEST(a_result_is_never_cut) {
  /* A batch with room left for the event alone. */
  size_t most = (BATCH_PIECES - 1) * SEND_QUEUE_CHUNK_SIZE;
  memset(send_queue_reserve(&scene->send_queue, most), 'x', most);
  send_queue_commit(&scene->send_queue, 1);
  memset(send_queue_reserve(&scene->send_queue, SEND_QUEUE_CHUNK_SIZE - 250), 'x',
         SEND_QUEUE_CHUNK_SIZE - 250);
  send_queue_commit(&scene->send_queue, 1);
  records_result(&scene->records, &event, &result, &the_step, true);
  const struct batch *batch = send_queue_batch(&scene->send_queue);
  assert_non_null(batch);
  assert_int_equal(batch->length, most + SEND_QUEUE_CHUNK_SIZE - 250);
  send_queue_delivered(&scene->send_queue);
  holds(scene, ADDED PUSHED REMOVED ENDED);
}

STAYING_TEST(a_truncated_step_is_removed_as_the_oldest) {
  struct claimed step = {.payload = "{begin", .length = 6, .truncated = true};
  records_result(&scene->records, NULL, &result, &step, false);
  records_removal(&scene->records, &step);
  holds(scene, PUSHED "LTRIM " KEY "inflight 0 -2\n"
                      "LTRIM " KEY "inflight 0 -2\n");
}

EXPIRING_TEST(a_step_is_removed_or_put_back) {
  records_removal(&scene->records, &the_step);
  holds(scene, REMOVED);
  records_removal_of_copy(&scene->records, &the_step);
  holds(scene, "LREM " KEY "inflight 1 {the step}\n");
  records_return(&scene->records, &the_step); /* it may be there still, and is there once */
  holds(scene, REMOVED PUT_BACK "EXPIRE " KEY "inflight 60\n");
}

/* One piece: a reader sees all of a step or nothing. */
EXPIRING_TEST(deferred_events_leave_with_the_result) {
  size_t one = records_defer_event(&scene->records, &event);
  assert_in_range(one, sizeof EVENT, sizeof EVENT + 100);
  assert_int_equal(records_defer_event(&scene->records, &event), 2 * one);
  assert_int_equal(scene->send_queue.bytes, 0);
  records_result(&scene->records, &event, &result, &the_step, false);
  holds(scene, ADDED ADDED ADDED PUSHED REMOVED ANSWERS_EXPIRE);
  records_result(&scene->records, &event, &result, &the_step, false); /* they have left */
  holds(scene, ADDED PUSHED REMOVED ANSWERS_EXPIRE);
}

/* They belong to the step that runs: another's answer leaves without them. */
STAYING_TEST(a_result_without_events_leaves_others_deferred) {
  struct claimed other = {.payload = "{cancelled}", .length = 11};
  records_defer_event(&scene->records, &event);
  records_result(&scene->records, NULL, &result, &other, false);
  holds(scene, PUSHED "LREM " KEY "inflight -1 {cancelled}\n");
  records_result(&scene->records, &event, &result, &the_step, false);
  holds(scene, ADDED ADDED PUSHED REMOVED);
}

STAYING_TEST(deferred_events_can_leave_before_the_result) {
  records_put_deferred(&scene->records); /* there are none */
  assert_int_equal(scene->send_queue.bytes, 0);
  size_t one = records_defer_event(&scene->records, &event);
  records_defer_event(&scene->records, &event);
  records_put_deferred(&scene->records);
  records_put_deferred(&scene->records);
  holds(scene, ADDED ADDED);
  assert_int_equal(records_defer_event(&scene->records, &event), one);
  records_result(&scene->records, &event, &result, &the_step, true);
  holds(scene, ADDED ADDED PUSHED REMOVED ENDED);
}

EXPIRING_TEST(keys_that_expire_are_refreshed) {
  records_refresh(&scene->records);
  holds(scene, "EXPIRE " KEY "in 60\n"
               "EXPIRE " KEY "events 60\n"
               "EXPIRE " KEY "results 60\n"
               "EXPIRE " KEY "inflight 60\n"
               "EXPIRE " KEY "started 60\n");
}

STAYING_TEST(keys_that_stay_lose_the_ttl_that_they_had) {
  records_refresh(&scene->records);
  holds(scene, "PERSIST " KEY "in\n"
               "PERSIST " KEY "events\n"
               "PERSIST " KEY "results\n"
               "PERSIST " KEY "inflight\n"
               "PERSIST " KEY "started\n");
}

STAYING_TEST(without_a_ttl_nothing_expires) {
  records_started(&scene->records, "id");
  records_started(&scene->records, NULL);
  records_result(&scene->records, NULL, &result, &the_step, true);
  records_return(&scene->records, &the_step);
  holds(scene, "SET " KEY "started id\n" ENDED PUSHED REMOVED ENDED REMOVED PUT_BACK);
}

/* Where it can be read as long as it is queued, wherever that is. */
STAYING_TEST(a_piece_is_found_again) {
  struct claimed cut = {.payload = "{", .length = 1, .truncated = true};
  struct piece_place places[] = {
      records_result(&scene->records, &event, &result, &the_step, true),
      records_result(&scene->records, NULL, &result, NULL, false),
      records_removal(&scene->records, &the_step),
      records_removal_of_copy(&scene->records, &the_step),
      records_return(&scene->records, &the_step),
      records_removal(&scene->records, &cut),
  };
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const struct piece_place *place = &places[i];
    assert_true(place->end > (i > 0 ? places[i - 1].end : 0));
    assert_int_equal(place->result_length, i < 2 ? strlen(RESULT) : 0);
    if (i < 2)
      assert_memory_equal(place->result, RESULT, place->result_length);
    if (i == 1 || i == 5)
      assert_null(place->payload);
    else
      assert_memory_equal(place->payload, "{the step}\r\n", 12);
  }
  assert_int_equal(places[5].end, scene->send_queue.bytes);
  assert_non_null(send_queue_batch(&scene->send_queue));
  send_queue_delivered(&scene->send_queue);
  uint64_t gone = scene->send_queue.gone;
  assert_int_equal(gone, places[5].end);
  assert_true(records_removal(&scene->records, &the_step).end > gone);
}
