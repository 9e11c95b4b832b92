/* The book against a list: positions, whatever leaves the list meanwhile. How the steps that are
   in it run is told in test_window.c. */
#include "agent/frontends/redis/intake/ledger.h"

#include "tests/test.h"

enum { STEPS_MAX = 64 };

/* The list, the oldest first: "<id>" for each step; and the book. */
struct scene {
  struct ledger ledger;
  const char *list[STEPS_MAX];
  size_t count;
  uint64_t end, gone; /* of what was queued, of what was delivered */
};

static int set_up(void **state) {
  return (*state = calloc(1, sizeof(struct scene))) == NULL;
}

static int tear_down(void **state) {
  struct scene *self = *state;
  ledger_release(&self->ledger);
  free(self);
  return 0;
}

#define LEDGER_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static const char *payload(const char *id) {
  static char text[128];
  snprintf(text, sizeof text, "{\"stepId\":\"%.32s\",\"kind\":\"%s\",\"command\":\"true\"}", id,
           id[0] == '!' ? "cancel" : "run");
  return text;
}

static struct claimed claimed(const char *id) {
  return (struct claimed){.payload = payload(id), .length = strlen(payload(id))};
}

static struct claimed_step *new_step(const char *id) {
  struct claimed step = claimed(id);
  return claimed_step_new(&step);
}

/* A step is moved to the list: and is known, or is not. */
static struct claimed_step *arrives(struct scene *self, const char *id) {
  struct claimed_step *step = new_step(id);
  self->list[self->count++] = id;
  ledger_append(&self->ledger, step);
  return step;
}

static void arrives_behind(struct scene *self, const char *id) {
  self->list[self->count++] = id;
  ledger_append_behind(&self->ledger, new_step(id));
}

static void is_answered(struct scene *self, struct claimed_step *step) {
  static char queued[STEPS_MAX][128]; /* as in the send queue */
  char *text = strcpy(queued[self->end % STEPS_MAX], step->claimed.payload);
  ledger_answer(&self->ledger, step, (struct piece_place){.end = ++self->end, .payload = text});
}

/* All that is answered leaves the list, its oldest equal. */
static void deliver(struct scene *self) {
  for (struct claimed_step *step = self->ledger.oldest; step != NULL; step = step->newer) {
    size_t at = 0;
    while (step->state == STEP_ANSWERED && strcmp(self->list[at], step->step_id) != 0)
      at++;
    if (step->state == STEP_ANSWERED)
      memmove(&self->list[at], &self->list[at + 1], (--self->count - at) * sizeof *self->list);
  }
  ledger_delivered(&self->ledger, self->end);
}

/* The next payload is that of this step, and it is known or not. */
static void meets(struct scene *self, const char *id, bool known) {
  size_t position = ledger_position(&self->ledger);
  struct claimed step = claimed(id);
  assert_in_range(position, 1, self->count);
  assert_string_equal(self->list[position - 1], id);
  assert_true((ledger_meet(&self->ledger, &step) != NULL) == known);
}

static void is_at_the_end(struct scene *self) {
  assert_int_equal(ledger_position(&self->ledger), self->count + 1);
}

LEDGER_TEST(a_step_goes_from_state_to_state) {
  struct claimed_step *first = arrives(scene, "1");
  arrives(scene, "2");
  assert_int_equal(scene->ledger.waiting, 2);
  assert_ptr_equal(ledger_oldest_waiting(&scene->ledger), first);
  ledger_begin(&scene->ledger, first, true);
  assert_ptr_equal(scene->ledger.begun, first);
  assert_int_equal(scene->ledger.waiting, 1);
  assert_null(ledger_find(&scene->ledger, "1"));
  is_answered(scene, first);
  assert_null(scene->ledger.begun);
  assert_string_equal(scene->ledger.oldest->step_id, "1");
  deliver(scene);
  assert_string_equal(scene->ledger.oldest->step_id, "2");
  assert_ptr_equal(ledger_find(&scene->ledger, "2"), scene->ledger.newest);
}

/* All is in memory, and what is read moves towards the tail while it is read. */
LEDGER_TEST(what_leaves_while_all_is_read_shifts_the_place) {
  struct claimed_step *steps[4];
  for (size_t i = 0; i < 4; i++)
    steps[i] = arrives(scene, (const char *[]){"1", "2", "2", "4"}[i]);
  is_answered(scene, steps[0]);
  ledger_begin_pass(&scene->ledger, false);
  meets(scene, "1", true);
  meets(scene, "2", true);
  deliver(scene);
  meets(scene, "2", true);
  is_answered(scene, steps[1]); /* not delivered: it is still there */
  meets(scene, "4", true);
  is_at_the_end(scene);
  ledger_end_pass(&scene->ledger, true);
  assert_int_equal(scene->ledger.behind, 0);
}

LEDGER_TEST(what_leaves_while_the_rest_is_read_shifts_the_place) {
  struct claimed_step *first = arrives(scene, "1"), *second = arrives(scene, "2");
  arrives_behind(scene, "3");
  struct claimed_step *order = arrives(scene, "!4");
  for (size_t i = 0; i < 3; i++)
    arrives_behind(scene, (const char *[]){"4", "5", "6"}[i]);
  is_answered(scene, first);
  assert_int_equal(scene->ledger.behind, 4);
  ledger_begin_pass(&scene->ledger, true);
  meets(scene, "3", false);
  ledger_insert(&scene->ledger, new_step("3")); /* is known from here on */
  deliver(scene);
  is_answered(scene, order); /* it lies in front of the place to come, not behind it */
  meets(scene, "!4", true);
  meets(scene, "4", false);
  ledger_pass(&scene->ledger, new_step("4"));
  is_answered(scene, second);
  deliver(scene); /* both */
  meets(scene, "5", false);
  ledger_pass(&scene->ledger, new_step("5"));
  arrives_behind(scene, "7");
  ledger_begin_pass(&scene->ledger, true);
  meets(scene, "4", false);
}

/* An order that was met is for what lies in front of it. */
LEDGER_TEST(an_order_is_found_until_its_place_is_met) {
  arrives(scene, "1");
  arrives_behind(scene, "2");
  arrives(scene, "!2");
  ledger_begin_pass(&scene->ledger, true);
  assert_int_equal(scene->ledger.sought, 1);
  assert_non_null(ledger_find_order(&scene->ledger, "!2"));
  meets(scene, "2", false);
  ledger_pass(&scene->ledger, new_step("2"));
  meets(scene, "!2", true);
  assert_null(ledger_find_order(&scene->ledger, "!2"));
  is_answered(scene, scene->ledger.newest);
  assert_int_equal(scene->ledger.sought + scene->ledger.orders, 0);
}

/* What others have moved in between gets its place, and the newest may have to leave. */
LEDGER_TEST(what_is_found_gets_its_place) {
  arrives(scene, "1");
  scene->list[scene->count++] = "found";
  arrives(scene, "2");
  ledger_begin_pass(&scene->ledger, false);
  meets(scene, "1", true);
  meets(scene, "found", false);
  assert_true(ledger_is_inside(&scene->ledger));
  ledger_insert(&scene->ledger, new_step("found"));
  assert_true(ledger_leave_newest(&scene->ledger));
  assert_false(ledger_is_inside(&scene->ledger));
  meets(scene, "2", false);
  ledger_pass(&scene->ledger, new_step("2"));
  is_at_the_end(scene);
  ledger_end_pass(&scene->ledger, true);
  assert_int_equal(scene->ledger.behind, 1);
  assert_int_equal(scene->ledger.waiting, 2);
  ledger_begin_pass(&scene->ledger, true);
  meets(scene, "2", false);
}

/* Of truncated ones nothing is compared. */
LEDGER_TEST(a_truncated_step_is_known_as_the_oldest_of_them) {
  struct claimed cut = {.payload = "{\"stepId\":\"a", .length = 12, .truncated = true};
  ledger_append(&scene->ledger, claimed_step_new(&cut));
  assert_true(scene->ledger.oldest->refused);
  assert_non_null(strstr(scene->ledger.oldest->error.text, "67108864"));
  ledger_begin_pass(&scene->ledger, false);
  cut.length = 5;
  assert_ptr_equal(ledger_meet(&scene->ledger, &cut), scene->ledger.oldest);
  assert_null(ledger_meet(&scene->ledger, &cut));
}
