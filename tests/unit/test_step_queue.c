#include "agent/doors/redis/in/step_queue.h"
#include "tests/test.h"

static int set_up(void **state) {
  *state = calloc(1, sizeof(struct step_queue));
  return *state == NULL ? -1 : 0;
}

static int tear_down(void **state) {
  step_queue_release(*state);
  free(*state);
  return 0;
}

static struct claimed whole(const char *payload) {
  return (struct claimed){.payload = payload, .length = strlen(payload), .truncated = false};
}

static struct claimed_step *made(const char *payload) {
  struct claimed claimed = whole(payload);
  return claimed_step_new(&claimed);
}

static struct claimed_step *step(const char *kind, const char *step_id) {
  char payload[256];
  snprintf(payload, sizeof payload,
           "{\"schemaVersion\":1,\"stepId\":\"%s\",\"kind\":\"%s\",\"command\":\"true\"}", step_id,
           kind);
  return made(payload);
}

static void pop_is(struct step_queue *queue, const char *step_id) {
  struct claimed_step *queued = step_queue_pop(queue);
  assert_non_null(queued);
  assert_string_equal(queued->step.step_id, step_id);
  claimed_step_free(queued);
}

TEST(a_step_is_parsed_and_its_payload_copied) {
  char payload[] = "{\"schemaVersion\":1,\"stepId\":\"a\",\"command\":\"true\"}";
  struct claimed_step *queued = made(payload);
  memset(payload, 'x', sizeof payload - 1);
  assert_false(queued->refused);
  assert_string_equal(queued->step.step_id, "a");
  assert_true(step_is_work(&queued->step));
  assert_int_equal(queued->claimed.length, sizeof payload - 1);
  assert_memory_equal(queued->claimed.payload, "{\"schemaVersion\":1,", 19);
  assert_false(queued->seen);
  claimed_step_free(queued);
}

TEST(what_is_refused_says_why_and_keeps_its_payload) {
  struct claimed_step *queued = made("{\"schemaVersion\":2,\"stepId\":\"a\",\"command\":\"true\"}");
  assert_true(queued->refused);
  assert_non_null(strstr(queued->error.text, "schemaVersion"));
  assert_string_equal(queued->step.step_id, "a");
  claimed_step_free(queued);

  queued = made("");
  assert_true(queued->refused);
  assert_int_equal(queued->claimed.length, 0);
  claimed_step_free(queued);
}

TEST(the_beginning_of_a_payload_is_refused_for_its_size) {
  struct claimed claimed = whole("{\"schemaVersion\":1,\"stepId\":\"large\",\"command\":\"tr");
  claimed.truncated = true;
  struct claimed_step *queued = claimed_step_new(&claimed);
  assert_true(queued->refused);
  assert_string_equal(queued->error.text, "payload: expected at most 67108864 bytes");
  assert_string_equal(queued->step.step_id, "large");
  claimed_step_free(queued);
}

static void push(struct step_queue *queue, struct claimed_step *queued) {
  assert_null(step_queue_insert(queue, queued, queue->count));
}

TEST(the_oldest_comes_first, set_up, tear_down) {
  struct step_queue *queue = *state;
  assert_null(step_queue_pop(queue));
  push(queue, step("run", "a"));
  push(queue, step("shutdown", "b"));
  push(queue, step("run", "c"));
  pop_is(queue, "a");
  push(queue, step("run", "d"));
  pop_is(queue, "b");
  pop_is(queue, "c");
  pop_is(queue, "d");
  assert_null(step_queue_pop(queue));
  assert_int_equal(queue->bytes, 0);
}

TEST(so_many_are_taken, set_up, tear_down) {
  struct step_queue *queue = *state;
  char id[24];
  for (int i = 0; i < STEP_QUEUE_MAX; i++) {
    assert_false(step_queue_is_full(queue));
    snprintf(id, sizeof id, "step-%d", i);
    push(queue, step("run", id));
  }
  assert_true(step_queue_is_full(queue));
  pop_is(queue, "step-0");
  assert_false(step_queue_is_full(queue));
}

/* The last one may be as large as it likes. */
TEST(so_many_bytes_are_taken, set_up, tear_down) {
  struct step_queue *queue = *state;
  char *payload = malloc(STEP_QUEUE_BYTES);
  assert_non_null(payload);
  memset(payload, ' ', STEP_QUEUE_BYTES);
  struct claimed claimed = {.payload = payload, .length = STEP_QUEUE_BYTES - 1, .truncated = false};
  push(queue, claimed_step_new(&claimed));
  assert_false(step_queue_is_full(queue));
  claimed.length = STEP_QUEUE_BYTES;
  push(queue, claimed_step_new(&claimed));
  assert_true(step_queue_is_full(queue));
  claimed_step_free(step_queue_pop(queue));
  assert_true(step_queue_is_full(queue));
  claimed_step_free(step_queue_pop(queue));
  assert_false(step_queue_is_full(queue));
  free(payload);
}

TEST(a_run_is_taken_out_by_its_id, set_up, tear_down) {
  struct step_queue *queue = *state;
  push(queue, step("shutdown", "b"));
  push(queue, step("run", "a"));
  push(queue, step("refused", "b")); /* has the id, and no such kind */
  push(queue, made("{\"schemaVersion\":1,\"stepId\":\"b\",\"command\":\"first\"}"));
  push(queue, made("{\"schemaVersion\":1,\"stepId\":\"b\",\"command\":\"second\"}"));
  assert_null(step_queue_take_run(queue, "c"));
  assert_null(step_queue_take_run(queue, ""));
  struct claimed_step *claimed = step_queue_take_run(queue, "b");
  assert_non_null(claimed);
  assert_string_equal(claimed->step.target, "first");
  claimed_step_free(claimed);
  claimed = step_queue_take_run(queue, "b");
  assert_non_null(claimed);
  assert_string_equal(claimed->step.target, "second");
  claimed_step_free(claimed);
  assert_null(step_queue_take_run(queue, "b"));
  assert_int_equal(queue->count, 3);
  pop_is(queue, "b");
  pop_is(queue, "a");
  pop_is(queue, "b");
}

/* A payload that was pushed twice is there twice. */
TEST(each_is_seen_once, set_up, tear_down) {
  struct step_queue *queue = *state;
  struct claimed twice = whole("{\"schemaVersion\":1,\"stepId\":\"a\",\"command\":\"true\"}");
  struct claimed once = whole("{\"schemaVersion\":1,\"stepId\":\"b\",\"command\":\"true\"}");
  struct claimed never = whole("{\"schemaVersion\":1,\"stepId\":\"a\",\"command\":\"tru\"}");
  push(queue, claimed_step_new(&twice));
  push(queue, claimed_step_new(&once));
  push(queue, claimed_step_new(&twice));
  for (int round = 0; round < 2; round++) {
    step_queue_forget_seen(queue);
    assert_true(step_queue_see(queue, &twice));
    assert_true(step_queue_see(queue, &twice));
    assert_false(step_queue_see(queue, &twice));
    assert_true(step_queue_see(queue, &once));
    assert_false(step_queue_see(queue, &once));
    assert_false(step_queue_see(queue, &never));
  }
}

/* What was found stands behind what was seen before it; what is known keeps its order. */
TEST(what_is_found_gets_its_place, set_up, tear_down) {
  struct step_queue *queue = *state;
  push(queue, step("run", "a"));
  push(queue, step("run", "b"));
  push(queue, step("run", "c"));
  struct claimed_step *b = step("run", "b");
  assert_int_equal(step_queue_behind_seen(queue), 0);
  struct claimed_step *first = step("run", "first");
  first->seen = true;
  assert_null(step_queue_insert(queue, first, step_queue_behind_seen(queue)));
  assert_true(step_queue_see(queue, &b->claimed));
  assert_int_equal(step_queue_behind_seen(queue), 3);
  assert_null(step_queue_insert(queue, step("run", "later"), step_queue_behind_seen(queue)));
  claimed_step_free(b);
  pop_is(queue, "first");
  pop_is(queue, "a");
  pop_is(queue, "b");
  pop_is(queue, "later");
  pop_is(queue, "c");
  assert_int_equal(queue->bytes, 0);
}

TEST(the_newest_makes_room_for_an_older_one, set_up, tear_down) {
  struct step_queue *queue = *state;
  char id[24];
  for (int i = 0; i < STEP_QUEUE_MAX; i++) {
    snprintf(id, sizeof id, "step-%d", i);
    push(queue, step("run", id));
  }
  struct claimed_step *newest = step_queue_insert(queue, step("run", "found"), 0);
  assert_non_null(newest);
  assert_string_equal(newest->step.step_id, id);
  claimed_step_free(newest);
  assert_int_equal(queue->count, STEP_QUEUE_MAX);
  pop_is(queue, "found");
  pop_is(queue, "step-0");
}

static bool is_a_shutdown(void *owner, const struct claimed_step *queued) {
  (*(int *)owner)++;
  return queued->step.kind == &step_shutdown;
}

TEST(some_are_dropped, set_up, tear_down) {
  struct step_queue *queue = *state;
  int asked = 0;
  push(queue, step("shutdown", "a"));
  push(queue, step("run", "b"));
  push(queue, step("shutdown", "c"));
  push(queue, step("shutdown", "d"));
  step_queue_drop(queue, is_a_shutdown, &asked);
  assert_int_equal(asked, 4);
  pop_is(queue, "b");
  assert_null(step_queue_pop(queue));
  assert_int_equal(queue->bytes, 0);
}

TEST(the_same_is_the_same_bytes) {
  struct claimed_step *queued = made("{\"a\":1}");
  struct claimed other = whole("{\"a\":1}");
  assert_true(claimed_step_is(queued, &other));
  other.truncated = true;
  assert_false(claimed_step_is(queued, &other));
  other = whole("{\"a\":2}");
  assert_false(claimed_step_is(queued, &other));
  other = whole("{\"a\":1} ");
  assert_false(claimed_step_is(queued, &other));
  claimed_step_free(queued);
}
