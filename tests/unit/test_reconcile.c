#include "agent/doors/redis/in/reconcile.h"
#include "tests/support/delivery_owner.h"
#include "tests/test.h"

#define KEY "sandbox:j:"
#define STEP(ID) "{\"schemaVersion\":1,\"stepId\":\"" ID "\",\"command\":\"true\"}"

struct scene {
  struct delivery_owner *owner;
  struct recent_steps recent_steps;
  struct step_queue queue;
  struct reconcile reconcile;
  char known[256]; /* ids that were disposed of, one space behind each */
};

static int set_up(void **state) {
  struct scene *self = calloc(1, sizeof *self);
  void *owner;
  delivery_owner_set_up(&owner);
  self->owner = owner;
  delivery_owner_start_outbox(self->owner, 0, 1000000);
  self->reconcile = (struct reconcile){
      .outbox = self->owner->outbox, .recent_steps = &self->recent_steps, .queue = &self->queue};
  delivery_owner_drain(self->owner);
  self->owner->redis.done[0] = '\0';
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct scene *self = *state;
  void *owner = self->owner;
  if (self->reconcile.taken != NULL)
    claimed_step_free(self->reconcile.taken);
  step_queue_release(&self->queue);
  delivery_owner_tear_down(&owner);
  free(self);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static struct claimed_step *made(const char *payload) {
  struct claimed claimed = {.payload = payload, .length = strlen(payload)};
  return claimed_step_new(&claimed);
}

/* It runs. */
static void take(struct scene *self, const char *payload, const char *step_id) {
  self->reconcile.taken = made(payload);
  self->reconcile.taken_id = step_id;
  self->reconcile.announced = step_id != NULL;
  recent_steps_add(&self->recent_steps, step_id);
}

static bool is_known(void *owner, const struct claimed_step *step) {
  struct scene *self = owner;
  if (reconcile_judge(&self->reconcile, step) == RECENT_STEPS_NEW)
    return false;
  strcat(strcat(self->known, step->step.step_id), " ");
  return true;
}

/* What the last batch did, but for what every batch does. */
static void has_done(struct scene *self, const char *expected) {
  delivery_owner_drain(self->owner);
  char text[4096] = "";
  char *done = strdup(self->owner->redis.done), *rest = done;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;)
    if (strncmp(line, "SET " KEY "committed", 20) != 0 && strncmp(line, "PERSIST", 7) != 0 &&
        *line != '\0')
      strcat(strcat(text, line), "\n");
  free(done);
  assert_string_equal(text, expected);
  self->owner->redis.done[0] = '\0';
}

static enum recent_steps_verdict judge(struct scene *self, const char *payload) {
  struct claimed_step *step = made(payload);
  enum recent_steps_verdict verdict = reconcile_judge(&self->reconcile, step);
  claimed_step_free(step);
  return verdict;
}

#define PUT_BACK(PAYLOAD) "LREM " KEY "inflight -1 " PAYLOAD "\nRPUSH " KEY "inflight " PAYLOAD "\n"

/* The newest first, each as the oldest: their order stays. */
SCENE_TEST(what_is_known_is_put_back_in_order) {
  take(scene, STEP("runs"), "runs");
  step_queue_push(&scene->queue, made(STEP("first")));
  step_queue_push(&scene->queue, made(STEP("second")));
  reconcile_forgotten(&scene->reconcile, is_known, scene);
  assert_true(reconcile_is_any_returning(&scene->reconcile));
  has_done(scene, PUT_BACK(STEP("second")) PUT_BACK(STEP("first"))
                      PUT_BACK(STEP("runs")) "SET " KEY "started runs\n");
  assert_false(reconcile_is_any_returning(&scene->reconcile));
  assert_string_equal(scene->known, "");
}

SCENE_TEST(a_copy_of_what_was_put_back_is_known) {
  take(scene, STEP("runs"), "runs");
  step_queue_push(&scene->queue, made(STEP("waits")));
  reconcile_forgotten(&scene->reconcile, is_known, scene);
  assert_int_equal(judge(scene, STEP("runs")), RECENT_STEPS_HELD);
  assert_int_equal(judge(scene, STEP("waits")), RECENT_STEPS_HELD);
  assert_int_equal(judge(scene, STEP("waits")), RECENT_STEPS_HELD);
  assert_int_equal(judge(scene, STEP("other")), RECENT_STEPS_NEW);
}

SCENE_TEST(a_result_that_is_not_delivered_is_held) {
  recent_steps_add(&scene->recent_steps, "s");
  recent_steps_add(&scene->recent_steps, "answered");
  delivery_owner_put_result(scene->owner, STEP("s"));
  reconcile_forgotten(&scene->reconcile, is_known, scene);
  assert_int_equal(judge(scene, STEP("s")), RECENT_STEPS_HELD);
  assert_int_equal(judge(scene, STEP("answered")), RECENT_STEPS_ANSWERED);
}

/* A second use of its id: nobody can tell whether it is the same step. */
SCENE_TEST(what_waits_and_has_run_is_disposed_of) {
  recent_steps_add(&scene->recent_steps, "again");
  step_queue_push(&scene->queue, made(STEP("waits")));
  step_queue_push(&scene->queue, made(STEP("again")));
  reconcile_forgotten(&scene->reconcile, is_known, scene);
  assert_string_equal(scene->known, "again ");
  assert_int_equal(scene->queue.count, 1);
}

/* Their payload is not known: they are found in the restored lists, or lost. */
SCENE_TEST(records_are_forgotten) {
  for (int i = 0; i < STEP_QUEUE_MAX + 5; i++)
    step_queue_push(&scene->queue, made(STEP("waits")));
  reconcile_forgotten(&scene->reconcile, is_known, scene);
  assert_int_equal(scene->queue.count, STEP_QUEUE_MAX);
  assert_int_equal(scene->queue.record_count, 0);
}

/* Only the beginning could be put back. */
SCENE_TEST(a_truncated_step_is_gone) {
  struct claimed claimed = {.payload = "{", .length = 1, .truncated = true};
  step_queue_push(&scene->queue, claimed_step_new(&claimed));
  reconcile_forgotten(&scene->reconcile, is_known, scene);
  assert_true(step_queue_oldest(&scene->queue)->gone);
  has_done(scene, "DEL " KEY "started\n");
  assert_false(reconcile_is_any_missing(&scene->reconcile));
}

/* Of those that were seen no copy will come. */
SCENE_TEST(what_a_scan_did_not_see_is_missing) {
  struct claimed_step *seen = made(STEP("seen"));
  step_queue_push(&scene->queue, seen);
  step_queue_push(&scene->queue, made(STEP("missing")));
  step_queue_begin_scan(&scene->queue);
  assert_true(step_queue_see(&scene->queue, &seen->claimed));
  assert_true(reconcile_is_any_missing(&scene->reconcile));
  reconcile_missing(&scene->reconcile);
  assert_false(reconcile_is_any_missing(&scene->reconcile)); /* they are on their way */
  has_done(scene, PUT_BACK(STEP("missing")) PUT_BACK(STEP("seen")));
  assert_int_equal(judge(scene, STEP("missing")), RECENT_STEPS_HELD);
  assert_int_equal(judge(scene, STEP("seen")), RECENT_STEPS_NEW);
}

#define SHUTDOWN "{\"schemaVersion\":1,\"stepId\":\"bye\",\"kind\":\"shutdown\"}"

/* It must not be lost; a second one would stop the next agent. */
SCENE_TEST(a_shutdown_is_a_copy_where_one_waits) {
  recent_steps_hold(&scene->recent_steps, "bye", false);
  assert_int_equal(judge(scene, SHUTDOWN), RECENT_STEPS_NEW);
  step_queue_push(&scene->queue, made(SHUTDOWN));
  assert_int_equal(judge(scene, SHUTDOWN), RECENT_STEPS_HELD);
}

SCENE_TEST(a_cancel_may_come_twice) {
  recent_steps_hold(&scene->recent_steps, "a", false);
  assert_int_equal(judge(scene, "{\"schemaVersion\":1,\"stepId\":\"a\",\"kind\":\"cancel\"}"),
                   RECENT_STEPS_NEW);
}
