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

#define QUEUE_TEST(NAME) TEST_WITH(struct step_queue *queue, NAME, set_up, tear_down)

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

/* Pushes steps in order: "run:a shutdown:b". */
static void pushes(struct step_queue *queue, const char *steps) {
  char text[64], *rest = strcpy(text, steps);
  for (char *step_id; (step_id = strsep(&rest, " ")) != NULL;) {
    const char *kind = strsep(&step_id, ":");
    step_queue_push(queue, step(kind, step_id));
  }
}

static void pop_is(struct step_queue *queue, const char *step_id) {
  struct claimed_step *queued = step_queue_pop(queue);
  assert_non_null(queued);
  assert_string_equal(queued->step.step_id, step_id);
  claimed_step_free(queued);
}

/* The same for ids with a space between them. */
static void pops(struct step_queue *queue, const char *step_ids) {
  char text[64], *rest = strcpy(text, step_ids);
  for (const char *step_id; (step_id = strsep(&rest, " ")) != NULL;)
    pop_is(queue, step_id);
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
  struct claimed_step *queued =
      made("{\"schemaVersion\":\"2\",\"stepId\":\"a\",\"command\":\"true\"}");
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

static const struct claimed_step *oldest_is(struct step_queue *queue, const char *step_id) {
  const struct claimed_step *oldest = step_queue_oldest(queue);
  assert_non_null(oldest);
  assert_string_equal(oldest->step.step_id, step_id);
  return oldest;
}

QUEUE_TEST(the_oldest_comes_first) {
  assert_null(step_queue_pop(queue));
  assert_null(step_queue_oldest(queue));
  assert_true(step_queue_is_empty(queue));
  pushes(queue, "run:a shutdown:b run:c");
  oldest_is(queue, "a");
  pop_is(queue, "a");
  step_queue_push(queue, step("run", "d"));
  pops(queue, "b c");
  assert_false(step_queue_is_empty(queue));
  pop_is(queue, "d");
  assert_true(step_queue_is_empty(queue));
  assert_int_equal(queue->bytes, 0);
}

static const char *number(int i) {
  static char text[24];
  snprintf(text, sizeof text, "step-%d", i);
  return text;
}

/* step-<from>, step-<from + 1>, … */
static void push_numbers(struct step_queue *queue, int from, int count) {
  for (int i = from; i < from + count; i++)
    step_queue_push(queue, step("run", number(i)));
}

static void pop_numbers(struct step_queue *queue, int from, int count) {
  for (int i = from; i < from + count; i++)
    pop_is(queue, number(i));
}

static void drop_oldest(struct step_queue *queue, int count) {
  for (int i = 0; i < count; i++)
    claimed_step_free(step_queue_pop(queue));
}

/* The payload of this step, read again. */
static bool reload(struct step_queue *queue, const char *step_id) {
  struct claimed_step *again = step("run", step_id);
  bool reloaded = step_queue_reload(queue, &again->claimed);
  claimed_step_free(again);
  return reloaded;
}

QUEUE_TEST(what_does_not_fit_becomes_a_record) {
  enum { MORE = 3 };
  push_numbers(queue, 0, STEP_QUEUE_MAX + MORE);
  assert_int_equal(queue->count, STEP_QUEUE_MAX);
  assert_int_equal(queue->record_count, MORE);
  assert_false(step_queue_can_reload(queue));
  pop_is(queue, "step-0");
  assert_true(step_queue_can_reload(queue));
  step_queue_push(queue, step("run", "newest")); /* stays behind them, though there is room */
  assert_int_equal(queue->record_count, MORE + 1);
  assert_false(reload(queue, number(STEP_QUEUE_MAX + 1)));
  assert_true(reload(queue, number(STEP_QUEUE_MAX)));
  pop_numbers(queue, 1, STEP_QUEUE_MAX);
  assert_null(step_queue_oldest(queue));
  assert_false(step_queue_is_empty(queue));
  assert_true(reload(queue, number(STEP_QUEUE_MAX + 1)));
  assert_true(reload(queue, number(STEP_QUEUE_MAX + 2)));
  assert_true(reload(queue, "newest"));
  assert_false(reload(queue, "newest"));
  pop_numbers(queue, STEP_QUEUE_MAX + 1, 2);
  pop_is(queue, "newest");
  assert_true(step_queue_is_empty(queue));
}

/* Several are read at once. */
QUEUE_TEST(more_are_wanted_when_half_of_the_memory_is_free) {
  push_numbers(queue, 0, STEP_QUEUE_MAX);
  drop_oldest(queue, STEP_QUEUE_MAX / 2);
  assert_false(step_queue_wants_more(queue)); /* there are no records */
  push_numbers(queue, 0, STEP_QUEUE_MAX / 2 + 1);
  assert_false(step_queue_wants_more(queue));
  drop_oldest(queue, STEP_QUEUE_MAX / 2 - 1);
  assert_int_equal(queue->count, STEP_QUEUE_MAX / 2 + 1);
  assert_false(step_queue_wants_more(queue));
  claimed_step_free(step_queue_pop(queue));
  assert_true(step_queue_wants_more(queue));
}

/* The last one in memory may be of any size. */
QUEUE_TEST(payloads_in_memory_are_bounded) {
  char *payload = malloc(STEP_PAYLOAD_MAX);
  assert_non_null(payload);
  memset(payload, ' ', STEP_PAYLOAD_MAX);
  struct claimed claimed = {.payload = payload, .length = STEP_PAYLOAD_MAX - 1};
  step_queue_push(queue, claimed_step_new(&claimed));
  claimed.length = STEP_PAYLOAD_MAX;
  step_queue_push(queue, claimed_step_new(&claimed));
  assert_int_equal(queue->count, 2);
  step_queue_push(queue, step("run", "small"));
  assert_int_equal(queue->count, 2);
  assert_int_equal(queue->record_count, 1);
  claimed_step_free(step_queue_pop(queue));
  assert_false(step_queue_can_reload(queue));
  claimed_step_free(step_queue_pop(queue));
  assert_true(step_queue_can_reload(queue));
  free(payload);
}

/* Also when they come and go for a long time. */
QUEUE_TEST(records_are_bounded) {
  struct claimed all = whole("all are alike");
  while (step_queue_has_room(queue))
    step_queue_push(queue, claimed_step_new(&all));
  assert_int_equal(queue->record_count, STEP_QUEUE_RECORDS_MAX);
  for (int round = 0; round < 2 * STEP_QUEUE_RECORDS_MAX; round++) {
    claimed_step_free(step_queue_pop(queue));
    assert_true(step_queue_reload(queue, &all));
    step_queue_push(queue, claimed_step_new(&all));
  }
  assert_true(queue->capacity <= 2 * STEP_QUEUE_RECORDS_MAX);
  assert_false(step_queue_has_room(queue));
}

/* What becomes of the step: "none", the command of the one that was taken out, or the record. */
static void cancel_is(struct step_queue *queue, const char *step_id, const char *expected) {
  struct claimed_step *found;
  size_t record;
  char text[64] = "none";
  switch (step_queue_cancel(queue, step_id, &found, &record)) {
  case STEP_QUEUE_NONE:
    break;
  case STEP_QUEUE_TAKEN_OUT:
    snprintf(text, sizeof text, "%s", found->step.target);
    claimed_step_free(found);
    break;
  case STEP_QUEUE_MARKED:
    snprintf(text, sizeof text, "record %zu", record);
    break;
  }
  assert_string_equal(text, expected);
}

QUEUE_TEST(a_waiting_step_is_cancelled_by_its_id) {
  pushes(queue, "shutdown:b run:a");
  step_queue_push(queue, step("refused", "b")); /* has the id, and no such kind */
  step_queue_push(queue, made("{\"schemaVersion\":1,\"stepId\":\"b\",\"command\":\"first\"}"));
  step_queue_push(queue, made("{\"schemaVersion\":1,\"stepId\":\"b\",\"command\":\"second\"}"));
  cancel_is(queue, "c", "none");
  cancel_is(queue, "", "none");
  cancel_is(queue, "b", "first");
  cancel_is(queue, "b", "second");
  cancel_is(queue, "b", "none");
  assert_int_equal(queue->count, 3);
  pops(queue, "b a b");
}

QUEUE_TEST(a_record_is_marked_by_its_id) {
  push_numbers(queue, 0, STEP_QUEUE_MAX);
  pushes(queue, "shutdown:b refused:b run:b run:b");
  assert_int_equal(step_queue_first_cancelled(queue), 4);
  cancel_is(queue, "c", "none");
  cancel_is(queue, "b", "record 2");
  cancel_is(queue, "b", "record 3");
  cancel_is(queue, "b", "none");
  assert_int_equal(step_queue_first_cancelled(queue), 2);
  step_queue_remove_record(queue, 2);
  assert_int_equal(step_queue_first_cancelled(queue), 2);
  step_queue_remove_record(queue, 0);
  step_queue_remove_record(queue, 0);
  claimed_step_free(step_queue_pop(queue));
  assert_false(reload(queue, "b")); /* it is to be answered, not run */
  step_queue_remove_record(queue, 0);
  assert_int_equal(queue->record_count, 0);
}

/* A payload that was pushed twice is there twice. */
QUEUE_TEST(each_is_seen_once) {
  struct claimed twice = whole("{\"schemaVersion\":1,\"stepId\":\"a\",\"command\":\"true\"}");
  struct claimed once = whole("{\"schemaVersion\":1,\"stepId\":\"b\",\"command\":\"true\"}");
  struct claimed never = whole("{\"schemaVersion\":1,\"stepId\":\"a\",\"command\":\"tru\"}");
  step_queue_push(queue, claimed_step_new(&twice));
  step_queue_push(queue, claimed_step_new(&once));
  step_queue_push(queue, claimed_step_new(&twice));
  for (int round = 0; round < 2; round++) {
    step_queue_begin_scan(queue);
    assert_true(step_queue_see(queue, &twice));
    assert_true(step_queue_see(queue, &twice));
    assert_false(step_queue_see(queue, &twice));
    assert_true(step_queue_see(queue, &once));
    assert_false(step_queue_see(queue, &once));
    assert_false(step_queue_see(queue, &never));
  }
}

static bool see_record(struct step_queue *queue, const char *step_id, size_t expected) {
  struct claimed_step *again = step("run", step_id);
  size_t record = SIZE_MAX;
  bool is_next = step_queue_expects(queue, &again->claimed);
  bool seen = step_queue_see_record(queue, &again->claimed, &record);
  assert_true(seen || !is_next);
  assert_int_equal(record, expected);
  claimed_step_free(again);
  return is_next;
}

static void see(struct step_queue *queue, const char *step_id) {
  struct claimed_step *again = step("run", step_id);
  assert_true(step_queue_see(queue, &again->claimed));
  claimed_step_free(again);
}

QUEUE_TEST(records_are_seen_in_order) {
  push_numbers(queue, 0, STEP_QUEUE_MAX + 5);
  step_queue_begin_scan(queue);
  assert_false(see_record(queue, number(0), SIZE_MAX));
  for (int i = 0; i < STEP_QUEUE_MAX; i++)
    see(queue, number(i));
  assert_true(see_record(queue, number(STEP_QUEUE_MAX), 0));
  assert_false(see_record(queue, number(STEP_QUEUE_MAX), SIZE_MAX));
  assert_false(see_record(queue, number(STEP_QUEUE_MAX + 3), 3)); /* two are not in the list */
  assert_false(see_record(queue, "never", SIZE_MAX));
  assert_true(see_record(queue, number(STEP_QUEUE_MAX + 4), 4));
  assert_int_equal(step_queue_drop_unseen(queue), 2);
  assert_int_equal(queue->record_count, 3);
  assert_int_equal(step_queue_drop_unseen(queue), 0);
  step_queue_begin_scan(queue);
  assert_int_equal(step_queue_drop_unseen(queue), 3);
  assert_int_equal(queue->record_count, 0);
}

static struct claimed_step *found(const char *step_id) {
  struct claimed_step *self = step("run", step_id);
  self->seen = true;
  return self;
}

/* What was found stands behind what was seen before it; what is known keeps its order. */
QUEUE_TEST(what_is_found_gets_its_place) {
  pushes(queue, "run:a run:b run:c");
  step_queue_begin_scan(queue);
  step_queue_insert(queue, found("first"));
  see(queue, "b");
  step_queue_insert(queue, found("later"));
  pops(queue, "first a b later c");
  assert_int_equal(queue->bytes, 0);
}

QUEUE_TEST(the_newest_in_memory_makes_room_for_an_older_one) {
  push_numbers(queue, 0, STEP_QUEUE_MAX);
  step_queue_begin_scan(queue);
  step_queue_insert(queue, found("found"));
  assert_int_equal(queue->count, STEP_QUEUE_MAX);
  assert_int_equal(queue->record_count, 1);
  pop_is(queue, "found");
  assert_true(reload(queue, number(STEP_QUEUE_MAX - 1)));
  pop_numbers(queue, 0, STEP_QUEUE_MAX);
}

/* Between two records, and behind the last one in memory. */
QUEUE_TEST(what_is_found_may_become_a_record) {
  push_numbers(queue, 0, STEP_QUEUE_MAX + 2);
  step_queue_begin_scan(queue);
  for (int i = 0; i < STEP_QUEUE_MAX; i++)
    see(queue, number(i));
  step_queue_insert(queue, found("x"));
  assert_true(see_record(queue, number(STEP_QUEUE_MAX), 1));
  step_queue_insert(queue, found("y"));
  assert_true(see_record(queue, number(STEP_QUEUE_MAX + 1), 3));
  step_queue_insert(queue, found("z"));
  assert_int_equal(step_queue_drop_unseen(queue), 0);
  pop_numbers(queue, 0, STEP_QUEUE_MAX);
  assert_true(reload(queue, "x"));
  assert_true(reload(queue, number(STEP_QUEUE_MAX)));
  assert_true(reload(queue, "y"));
  assert_true(reload(queue, number(STEP_QUEUE_MAX + 1)));
  assert_true(reload(queue, "z"));
  assert_int_equal(queue->record_count, 0);
}

static bool is_a_shutdown(void *owner, const struct claimed_step *queued) {
  (*(int *)owner)++;
  return queued->step.kind == &step_shutdown;
}

QUEUE_TEST(some_are_dropped) {
  int asked = 0;
  pushes(queue, "shutdown:a run:b shutdown:c shutdown:d");
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
