#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/out/records.h"
#include "tests/test.h"

#define KEY "sandbox:j:"

struct scene {
  struct keys keys;
  struct send_queue send_queue;
  struct records records;
  char text[4096]; /* results, one line each */
};

/* Keys expire, or they do not; the stream is not trimmed. */
static int set_up_with_ttl(void **state, unsigned long long ttl) {
  struct scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  keys_init(&self->keys, "j");
  send_queue_init(&self->send_queue);
  records_init(&self->records, &self->send_queue, &self->keys, 0, ttl);
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

static struct claimed claimed(const char *payload) {
  return (struct claimed){.payload = payload, .length = strlen(payload), .truncated = false};
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
  records_init(&scene->records, &scene->send_queue, &scene->keys, 10000, 60);
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
  records_event(&scene->records, &event);
  assert_int_equal(scene->records.events, 1);
  assert_int_equal(scene->records.event_bytes, strlen(EVENT));
  (void)records_defer_event(&scene->records, &event);
  assert_int_equal(scene->records.events, 1);
  records_result(&scene->records, &event, &result, &the_step, true);
  assert_int_equal(scene->records.events, 3);
  assert_true(scene->records.event_bytes >= 3 * strlen(EVENT));
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
  struct claimed other = claimed("{cancelled}");
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

static size_t removals(const struct scene *scene, const char *payload) {
  struct claimed step = claimed(payload);
  return records_removals(&scene->records, &step);
}

/* A full batch of other commands. */
static void put_much(struct scene *scene) {
  size_t enough = scene->send_queue.bytes + BATCH_PIECES * SEND_QUEUE_CHUNK_SIZE;
  while (scene->send_queue.bytes < enough)
    records_event(&scene->records, &event);
}

EXPIRING_TEST(removals_are_found_wherever_they_lie) {
  static const char *const payloads[] = {"{first}", "{second}", "{third}"};
  assert_int_equal(removals(scene, "{first}"), 0);
  for (size_t i = 0; i < 3; i++) {
    struct claimed step = claimed(payloads[i]);
    records_result(&scene->records, NULL, &result, &step, true);
    put_much(scene);
  }
  assert_non_null(send_queue_batch(&scene->send_queue)); /* what is under way is queued too */
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(removals(scene, payloads[i]), 1);
  assert_int_equal(removals(scene, "{first"), 0);
  assert_int_equal(removals(scene, "{first}x"), 0);
  assert_int_equal(removals(scene, ""), 0);
  assert_int_equal(removals(scene, EVENT), 0); /* other commands have such words too */
  send_queue_delivered(&scene->send_queue);
  assert_int_equal(removals(scene, "{first}"), 0);
  assert_int_equal(removals(scene, "{second}"), 1);
}

STAYING_TEST(equal_payloads_are_counted) {
  struct claimed step = claimed("{twice}"), cut = {.payload = "{", .length = 1, .truncated = true};
  records_removal(&scene->records, &step);
  put_much(scene);
  records_removal(&scene->records, &step);
  assert_int_equal(removals(scene, "{twice}"), 2);
  assert_false(records_returns(&scene->records, &step));
  records_return(&scene->records, &step); /* which removes nothing */
  assert_true(records_returns(&scene->records, &step));
  assert_false(records_returns(&scene->records, &cut));
  assert_int_equal(removals(scene, "{twice}"), 2);
  assert_int_equal(records_removals(&scene->records, &cut), 0);
  records_removal(&scene->records, &cut);
  records_removal(&scene->records, &cut);
  assert_int_equal(records_removals(&scene->records, &cut), 2);
}

static void note_result(void *owner, const char *json, size_t length) {
  struct scene *scene = owner;
  snprintf(scene->text + strlen(scene->text), sizeof scene->text - strlen(scene->text), "%.*s\n",
           (int)length, json);
}

EXPIRING_TEST(each_queued_result_is_visited) {
  records_each_result(&scene->records, note_result, scene);
  assert_string_equal(scene->text, "");
  char expected[2048] = "";
  for (int i = 0; i < 3; i++) {
    struct step_result numbered = result;
    numbered.exit_code = i;
    records_result(&scene->records, NULL, &numbered, &the_step, true);
    put_much(scene);
    sprintf(
        expected + strlen(expected),
        "{\"schemaVersion\":1,\"stepId\":\"s\",\"exitCode\":%d,\"timedOut\":false,"
        "\"durationSeconds\":0,\"errorMessage\":null,\"outputContent\":null,\"eventCount\":2}\n",
        i);
  }
  records_each_result(&scene->records, note_result, scene);
  assert_string_equal(scene->text, expected);
}
