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

static struct scene *scene_new(unsigned long long maxlen, unsigned long long ttl) {
  struct scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  keys_init(&self->keys, "j");
  send_queue_init(&self->send_queue);
  records_init(&self->records, &self->send_queue, &self->keys, maxlen, ttl);
  return self;
}

static void scene_free(struct scene *self) {
  records_release(&self->records);
  send_queue_free(&self->send_queue);
  keys_release(&self->keys);
  free(self);
}

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

static const struct step_event event = {.kind = STEP_EVENT_STDOUT,
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

static const struct step_result result = {.step_id = "s", .exit_code = 3, .event_count = 2};

TEST(an_event_is_one_entry_of_the_stream) {
  static const char expected[] =
      "*8\r\n$4\r\nXADD\r\n$16\r\nsandbox:j:events\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$5\r\n10000\r\n"
      "$1\r\n*\r\n$4\r\ndata\r\n$115\r\n" EVENT "\r\n";
  struct scene *scene = scene_new(10000, 60);
  records_event(&scene->records, &event);
  const struct batch *batch = send_queue_batch(&scene->send_queue);
  assert_non_null(batch);
  assert_int_equal(batch->length, sizeof expected - 1);
  assert_memory_equal(batch->pieces[0].iov_base, expected, sizeof expected - 1);
  assert_int_equal(batch->commands, 1);
  scene_free(scene);
}

TEST(a_stream_that_is_not_trimmed) {
  struct scene *scene = scene_new(0, 60);
  records_event(&scene->records, &event);
  records_event(&scene->records, &event);
  holds(scene, "XADD " KEY "events * data " EVENT "\n"
               "XADD " KEY "events * data " EVENT "\n");
  scene_free(scene);
}

TEST(a_step_is_started_until_it_is_not) {
  struct scene *scene = scene_new(0, 60);
  records_started(&scene->records, "an id");
  holds(scene, "SET " KEY "started an id EX 60\n"
               "EXPIRE " KEY "in 60\n"
               "EXPIRE " KEY "inflight 60\n");
  records_started(&scene->records, NULL);
  holds(scene, "DEL " KEY "started\n"
               "EXPIRE " KEY "in 60\n"
               "EXPIRE " KEY "inflight 60\n");
  scene_free(scene);
}

TEST(a_result_and_what_goes_with_it_are_one_piece) {
  struct scene *scene = scene_new(0, 60);
  struct claimed step = claimed("{the step}");
  records_result(&scene->records, NULL, &result, &step, true);
  holds(scene, "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {the step}\n"
               "DEL " KEY "started\n"
               "EXPIRE " KEY "results 60\n"
               "EXPIRE " KEY "events 60\n");
  records_result(&scene->records, NULL, &result, &step, false);
  holds(scene, "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {the step}\n"
               "EXPIRE " KEY "results 60\n"
               "EXPIRE " KEY "events 60\n");
  records_result(&scene->records, NULL, &result, NULL, true);
  holds(scene, "LPUSH " KEY "results " RESULT "\n"
               "DEL " KEY "started\n"
               "EXPIRE " KEY "results 60\n"
               "EXPIRE " KEY "events 60\n");
  records_result(&scene->records, &event, &result, &step, true);
  holds(scene, "XADD " KEY "events * data " EVENT "\n"
               "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {the step}\n"
               "DEL " KEY "started\n"
               "EXPIRE " KEY "results 60\n"
               "EXPIRE " KEY "events 60\n");
  scene_free(scene);
}

/* Also where it does not fit into what is left of a chunk. */
TEST(a_result_is_never_cut) {
  struct scene *scene = scene_new(0, 0);
  struct claimed step = claimed("{the step}");
  /* A batch with room left for the event alone. */
  size_t most = (BATCH_PIECES - 1) * SEND_QUEUE_CHUNK_SIZE;
  memset(send_queue_reserve(&scene->send_queue, most), 'x', most);
  send_queue_commit(&scene->send_queue, 1);
  memset(send_queue_reserve(&scene->send_queue, SEND_QUEUE_CHUNK_SIZE - 250), 'x',
         SEND_QUEUE_CHUNK_SIZE - 250);
  send_queue_commit(&scene->send_queue, 1);
  records_result(&scene->records, &event, &result, &step, true);
  const struct batch *batch = send_queue_batch(&scene->send_queue);
  assert_non_null(batch);
  assert_int_equal(batch->length, most + SEND_QUEUE_CHUNK_SIZE - 250);
  send_queue_delivered(&scene->send_queue);
  holds(scene, "XADD " KEY "events * data " EVENT "\n"
               "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {the step}\n"
               "DEL " KEY "started\n");
  scene_free(scene);
}

TEST(a_truncated_step_is_removed_as_the_oldest) {
  struct scene *scene = scene_new(0, 0);
  struct claimed step = {.payload = "{begin", .length = 6, .truncated = true};
  records_result(&scene->records, NULL, &result, &step, false);
  records_removal(&scene->records, &step);
  holds(scene, "LPUSH " KEY "results " RESULT "\n"
               "LTRIM " KEY "inflight 0 -2\n"
               "LTRIM " KEY "inflight 0 -2\n");
  scene_free(scene);
}

TEST(a_step_is_removed_or_put_back) {
  struct scene *scene = scene_new(0, 60);
  struct claimed step = claimed("{the step}");
  records_removal(&scene->records, &step);
  holds(scene, "LREM " KEY "inflight -1 {the step}\n");
  records_removal_of_copy(&scene->records, &step);
  holds(scene, "LREM " KEY "inflight 1 {the step}\n");
  records_return(&scene->records, &step); /* it may be there still, and is there once */
  holds(scene, "LREM " KEY "inflight -1 {the step}\n"
               "RPUSH " KEY "inflight {the step}\n"
               "EXPIRE " KEY "inflight 60\n");
  scene_free(scene);
}

/* One piece: a reader sees all of a step or nothing. */
TEST(deferred_events_leave_with_the_result) {
  struct scene *scene = scene_new(0, 60);
  struct claimed step = claimed("{the step}");
  size_t one = records_defer_event(&scene->records, &event);
  assert_in_range(one, sizeof EVENT, sizeof EVENT + 100);
  assert_int_equal(records_defer_event(&scene->records, &event), 2 * one);
  assert_int_equal(scene->send_queue.bytes, 0);
  records_result(&scene->records, &event, &result, &step, false);
  holds(scene, "XADD " KEY "events * data " EVENT "\n"
               "XADD " KEY "events * data " EVENT "\n"
               "XADD " KEY "events * data " EVENT "\n"
               "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {the step}\n"
               "EXPIRE " KEY "results 60\n"
               "EXPIRE " KEY "events 60\n");
  records_result(&scene->records, &event, &result, &step, false); /* they have left */
  holds(scene, "XADD " KEY "events * data " EVENT "\n"
               "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {the step}\n"
               "EXPIRE " KEY "results 60\n"
               "EXPIRE " KEY "events 60\n");
  scene_free(scene);
}

/* They belong to the step that runs: another's answer leaves without them. */
TEST(a_result_without_events_leaves_others_deferred) {
  struct scene *scene = scene_new(0, 0);
  struct claimed step = claimed("{the step}"), other = claimed("{cancelled}");
  records_defer_event(&scene->records, &event);
  records_result(&scene->records, NULL, &result, &other, false);
  holds(scene, "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {cancelled}\n");
  records_result(&scene->records, &event, &result, &step, false);
  holds(scene, "XADD " KEY "events * data " EVENT "\n"
               "XADD " KEY "events * data " EVENT "\n"
               "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {the step}\n");
  scene_free(scene);
}

TEST(deferred_events_can_leave_before_the_result) {
  struct scene *scene = scene_new(0, 0);
  struct claimed step = claimed("{the step}");
  records_put_deferred(&scene->records); /* there are none */
  assert_int_equal(scene->send_queue.bytes, 0);
  size_t one = records_defer_event(&scene->records, &event);
  records_defer_event(&scene->records, &event);
  records_put_deferred(&scene->records);
  records_put_deferred(&scene->records);
  holds(scene, "XADD " KEY "events * data " EVENT "\n"
               "XADD " KEY "events * data " EVENT "\n");
  assert_int_equal(records_defer_event(&scene->records, &event), one);
  records_result(&scene->records, &event, &result, &step, true);
  holds(scene, "XADD " KEY "events * data " EVENT "\n"
               "XADD " KEY "events * data " EVENT "\n"
               "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {the step}\n"
               "DEL " KEY "started\n");
  scene_free(scene);
}

TEST(keys_that_expire_are_refreshed) {
  struct scene *scene = scene_new(0, 604800);
  records_refresh(&scene->records);
  holds(scene, "EXPIRE " KEY "in 604800\n"
               "EXPIRE " KEY "events 604800\n"
               "EXPIRE " KEY "results 604800\n"
               "EXPIRE " KEY "inflight 604800\n"
               "EXPIRE " KEY "started 604800\n");
  scene_free(scene);
}

TEST(keys_that_stay_lose_the_ttl_that_they_had) {
  struct scene *scene = scene_new(0, 0);
  records_refresh(&scene->records);
  holds(scene, "PERSIST " KEY "in\n"
               "PERSIST " KEY "events\n"
               "PERSIST " KEY "results\n"
               "PERSIST " KEY "inflight\n"
               "PERSIST " KEY "started\n");
  scene_free(scene);
}

TEST(without_a_ttl_nothing_expires) {
  struct scene *scene = scene_new(0, 0);
  struct claimed step = claimed("{the step}");
  records_started(&scene->records, "id");
  records_started(&scene->records, NULL);
  records_result(&scene->records, NULL, &result, &step, true);
  records_return(&scene->records, &step);
  holds(scene, "SET " KEY "started id\n"
               "DEL " KEY "started\n"
               "LPUSH " KEY "results " RESULT "\n"
               "LREM " KEY "inflight -1 {the step}\n"
               "DEL " KEY "started\n"
               "LREM " KEY "inflight -1 {the step}\n"
               "RPUSH " KEY "inflight {the step}\n");
  scene_free(scene);
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

TEST(removals_are_found_wherever_they_lie) {
  struct scene *scene = scene_new(0, 60);
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
  scene_free(scene);
}

TEST(equal_payloads_are_counted) {
  struct scene *scene = scene_new(0, 0);
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
  scene_free(scene);
}

static void note_result(void *owner, const char *json, size_t length) {
  struct scene *scene = owner;
  snprintf(scene->text + strlen(scene->text), sizeof scene->text - strlen(scene->text), "%.*s\n",
           (int)length, json);
}

TEST(each_queued_result_is_visited) {
  struct scene *scene = scene_new(0, 60);
  struct claimed step = claimed("{the step}");
  records_each_result(&scene->records, note_result, scene);
  assert_string_equal(scene->text, "");
  char expected[2048] = "";
  for (int i = 0; i < 3; i++) {
    struct step_result numbered = result;
    numbered.exit_code = i;
    records_result(&scene->records, NULL, &numbered, &step, true);
    put_much(scene);
    sprintf(
        expected + strlen(expected),
        "{\"schemaVersion\":1,\"stepId\":\"s\",\"exitCode\":%d,\"timedOut\":false,"
        "\"durationSeconds\":0,\"errorMessage\":null,\"outputContent\":null,\"eventCount\":2}\n",
        i);
  }
  records_each_result(&scene->records, note_result, scene);
  assert_string_equal(scene->text, expected);
  scene_free(scene);
}
