/* A window with the outbox and the Redis that it works with, and an owner that runs steps. */

#include "agent/frontends/redis/frontend.h"
#include "agent/frontends/redis/intake/window.h"
#include "tests/support/loop.h"
#include "tests/support/redis_store.h"
#include "tests/test.h"
#include "wire/step_report.h"

#define HOLD_BYTES 100000
#define KEY "sandbox:j:"

/* What is known of one step: "step-<number>", in the order of pushes. */
struct fate {
  bool is_cancel;
  bool cancelled; /* a cancel of it was pushed */
  int begun;
};

enum { STEPS_MAX = 4096 };

struct scene {
  struct loop loop;
  struct redis_store *store;
  struct redis_url url;
  struct keys keys;
  struct outbox *outbox;
  struct window *window;

  struct claimed_step *step; /* taken; NULL: none is */
  char step_id[64];
  bool runs;      /* its start is acknowledged */
  bool automatic; /* each step ends at once */
  int stopped;    /* running steps that were cancelled */
  int asked;      /* for interrupted steps */
  bool lingers;   /* the interrupted step */
  int forgotten;

  int pushed;
  struct fate fates[STEPS_MAX];
  int last_begun; /* number; -1: none was */
  bool in_order;
};

static void next(struct scene *self);

static void put_result(struct scene *self, const char *message) {
  struct step_result result = {.schema_version = 1,
                               .step_id = self->step_id,
                               .error_message = message,
                               .error_message_length = message != NULL ? strlen(message) : 0};
  window_answer(self->window, self->step, NULL, &result);
  self->step = NULL;
}

static void finish(struct scene *self, const char *message) {
  put_result(self, message);
  next(self);
  outbox_flush(self->outbox);
}

/* Its command runs from here on. */
static void run(struct scene *self) {
  int number = atoi(self->step_id + strlen("step-"));
  self->runs = true;
  self->fates[number].begun++;
  if (!self->fates[number].cancelled) {
    self->in_order &= number > self->last_begun;
    self->last_begun = number;
  }
  if (self->automatic)
    finish(self, NULL);
}

static void next(struct scene *self) {
  while (self->step == NULL && (self->step = window_take(self->window)) != NULL) {
    snprintf(self->step_id, sizeof self->step_id, "%s", self->step->step_id);
    self->runs = false;
    if (self->step->refused) {
      put_result(self, "refused");
    } else {
      window_begin(self->window, self->step, true);
    }
  }
  outbox_flush(self->outbox);
  window_more(self->window);
}

static bool on_cancel(void *owner, const char *step_id) {
  struct scene *self = owner;
  if (self->step == NULL || strcmp(self->step_id, step_id) != 0)
    return false;
  self->stopped++;
  return true;
}

static bool on_interrupted(void *owner) {
  struct scene *self = owner;
  self->asked++;
  return !self->lingers;
}

static void on_changed(void *owner) {
  next(owner);
}

static void on_answered(void *owner, const struct step_result *result) {
  (void)owner;
  (void)result;
}

static void on_error(void *owner, const struct error *error) {
  (void)owner;
  fail_msg("%s", error->text);
}

static void ignore(void *owner) {
  (void)owner;
}

static void on_delivered(void *owner) {
  struct scene *self = owner;
  if (self->step != NULL && !self->runs && outbox_is_empty(self->outbox))
    run(self);
  next(self);
}

static void on_forgotten(void *owner) {
  struct scene *self = owner;
  self->forgotten++;
  if (window_forgotten(self->window) && !self->runs)
    finish(self, window_lost_result);
}

static void start(struct scene *self) {
  static const struct delivery_handler outbox_handler = {.connected = ignore,
                                                         .owned = ignore,
                                                         .delivered = on_delivered,
                                                         .lost_data = on_forgotten,
                                                         .unreachable = ignore,
                                                         .failed = on_error};
  static const struct window_handler handler = {.arrived = ignore,
                                                .cancel = on_cancel,
                                                .interrupted = on_interrupted,
                                                .changed = on_changed,
                                                .answered = on_answered,
                                                .failed = on_error};
  struct redis_frontend_options options = {.url = &self->url, .hold_bytes = HOLD_BYTES};
  self->outbox =
      outbox_new(self->loop.base, &self->loop.log, &options, &self->keys, &outbox_handler, self);
  self->window = window_new(self->loop.base, &self->loop.log, &self->url, &self->keys, self->outbox,
                            &handler, self);
  delivery_start(self->outbox->delivery);
}

/* As if the agent were killed. */
static void stop(struct scene *self) {
  window_free(self->window);
  outbox_free(self->outbox);
  self->step = NULL;
}

static int set_up(void **state) {
  struct scene *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->store = redis_store_new(self->loop.base);
  self->url = redis_store_url(self->store);
  keys_init(&self->keys, "j");
  self->last_begun = -1;
  self->in_order = true;
  start(self);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct scene *self = *state;
  stop(self);
  redis_store_free(self->store);
  keys_release(&self->keys);
  loop_release(&self->loop);
  free(self);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void push_kind(struct scene *self, const char *kind, int number) {
  char command[256];
  snprintf(command, sizeof command,
           "LPUSH " KEY
           "in {\"schemaVersion\":1,\"stepId\":\"step-%d\",\"kind\":\"%s\",\"command\":\"true\"}",
           number, kind);
  redis_store_do(self->store, 3, command);
}

static void push(struct scene *self, int count) {
  for (int i = 0; i < count && self->pushed < STEPS_MAX; i++)
    push_kind(self, "run", self->pushed++);
}

static void push_cancel(struct scene *self, int number) {
  self->fates[number].cancelled = true;
  push_kind(self, "cancel", number);
}

static size_t count_in(const struct scene *self, const char *list) {
  char key[64];
  snprintf(key, sizeof key, KEY "%s", list);
  return redis_store_count(self->store, key);
}

static int results_of(const struct scene *self, int number, const char *part) {
  char step_id[64];
  snprintf(step_id, sizeof step_id, "\"stepId\":\"step-%d\"", number);
  const char *result;
  int count = 0;
  for (size_t i = 0; (result = redis_store_element(self->store, KEY "results", i)) != NULL; i++)
    count += strstr(result, step_id) != NULL && strstr(result, part) != NULL;
  return count;
}

static bool is_running(void *context) {
  const struct scene *self = context;
  return self->step != NULL && self->runs;
}

static bool is_all_taken(void *context) {
  const struct scene *self = context;
  return count_in(self, "in") == 0 && redis_store_is_waiting(self->store);
}

static bool is_over(void *context) {
  const struct scene *self = context;
  return self->step == NULL && is_all_taken(context) && count_in(self, "inflight") == 0 &&
         outbox_is_empty(self->outbox);
}

static void wait_for(struct scene *self, bool (*condition)(void *)) {
  assert_true(loop_until(&self->loop, condition, self));
}

static void wait_until_it_runs(struct scene *self) {
  wait_for(self, is_all_taken);
  wait_for(self, is_running);
}

static void take_all(struct scene *self) {
  wait_for(self, is_all_taken);
  loop_settle(&self->loop);
}

/* Ends the running step and all that follow. */
static void run_all(struct scene *self) {
  self->automatic = true;
  if (is_running(self))
    finish(self, NULL);
  wait_for(self, is_over);
  assert_true(self->in_order);
}

/* And has one result with this text. */
static void each_ran_once(const struct scene *self, int steps, const char *part) {
  for (int i = 0; i < steps; i++) {
    assert_int_equal(self->fates[i].begun, 1);
    assert_int_equal(results_of(self, i, part), 1);
  }
}

/* With steps that wait, and with nothing in the list. */
SCENE_TEST(an_interrupted_step_is_answered_when_it_has_ended) {
  for (int round = 0; round < 2; round++) {
    push(scene, 3);
    wait_until_it_runs(scene);
    int running = atoi(scene->step_id + strlen("step-"));
    take_all(scene);
    stop(scene);
    if (round > 0)
      redis_store_do(scene->store, 2, "DEL " KEY "inflight");
    scene->lingers = true;
    start(scene);
    loop_await_once(&scene->loop, &scene->asked);
    assert_int_equal(results_of(scene, running, ""), 0);
    window_interrupted_ended(scene->window);
    if (round == 0)
      wait_until_it_runs(scene);
    run_all(scene);
    assert_int_equal(results_of(scene, running, "interrupted"), 1);
    assert_int_equal(scene->asked, 0);
    scene->automatic = false;
  }
}

/* Though their payload is not in memory; each once, and in whatever order. */
SCENE_TEST(steps_that_were_dropped_are_cancelled) {
  static const int cancelled[] = {250, 100, 299, 101, 102, 10, 64, 65, 66};
  enum { COUNT = sizeof cancelled / sizeof *cancelled };
  push(scene, 300);
  for (size_t i = 0; i < COUNT; i++)
    push_cancel(scene, cancelled[i]);
  push_cancel(scene, 250); /* once more: there is no such step */
  take_all(scene);
  assert_int_equal(count_in(scene, "results"), COUNT);
  assert_int_equal(count_in(scene, "inflight"), 300 - COUNT);
  run_all(scene);
  assert_int_equal(count_in(scene, "results"), 300);
  for (size_t i = 0; i < COUNT; i++) {
    assert_int_equal(scene->fates[cancelled[i]].begun, 0);
    assert_int_equal(results_of(scene, cancelled[i], "cancelled: by a cancel step"), 1);
  }
}

/* More than are kept at a time. */
SCENE_TEST(all_that_waits_may_be_cancelled) {
  push(scene, 1 + WINDOW_STEPS + 3 * WINDOW_ORDERS_MAX);
  for (int i = scene->pushed - 1; i > 0; i--)
    push_cancel(scene, i);
  take_all(scene);
  assert_int_equal(count_in(scene, "results"), scene->pushed - 1);
  assert_int_equal(count_in(scene, "inflight"), 1);
  run_all(scene);
}

/* What is the same twice is two steps, and one order ends one. */
SCENE_TEST(equal_payloads_are_steps_of_their_own) {
  enum { STEPS = 200, CANCELS = 70 };
  scene->fates[0].cancelled = true; /* they have no order */
  for (int i = 0; i < STEPS; i++)
    push_kind(scene, "run", 0);
  wait_until_it_runs(scene);
  for (int i = 0; i < CANCELS; i++)
    push_cancel(scene, 0);
  take_all(scene);
  assert_int_equal(scene->stopped, CANCELS); /* all of them mean the one that runs */
  snprintf(scene->step_id, sizeof scene->step_id, "another");
  for (int i = 0; i < CANCELS; i++)
    push_cancel(scene, 0);
  take_all(scene);
  assert_int_equal(results_of(scene, 0, "cancelled"), CANCELS);
  run_all(scene);
  assert_int_equal(scene->fates[0].begun, STEPS - CANCELS);
  assert_int_equal(count_in(scene, "results"), STEPS);
}

/* The order stays until its step is answered: it is not lost with the agent. */
SCENE_TEST(a_cancel_outlives_the_agent) {
  push(scene, 100);
  wait_for(scene, is_all_taken);
  redis_store_hold(scene->store, "out");
  push_cancel(scene, 90);
  take_all(scene);
  stop(scene);
  redis_store_hold(scene->store, NULL);
  assert_int_equal(count_in(scene, "inflight"), 101);
  start(scene);
  LOOP_UNTIL(&scene->loop, count_in(scene, "results") > 0);
  wait_for(scene, is_running);
  run_all(scene);
  assert_int_equal(scene->fates[90].begun, 0);
  assert_int_equal(results_of(scene, 90, "cancelled"), 1);
  assert_int_equal(results_of(scene, 90, ""), 1);
}

static void fill_outbox(struct scene *self) {
  char line[1000];
  memset(line, 'x', sizeof line);
  struct step_event event = {.schema_version = 1,
                             .kind = STEP_EVENT_STDOUT,
                             .step_id = "s",
                             .step_id_length = 1,
                             .line = line,
                             .line_length = sizeof line,
                             .timestamp = "2026-05-05T10:00:00.123+00:00",
                             .seq = 1};
  while (outbox_capacity(self->outbox) > 0)
    outbox_event(self->outbox, &event);
  outbox_flush(self->outbox);
}

/* Else their removals would pile up. */
SCENE_TEST(what_overtakes_a_full_outbox_is_bounded) {
  enum { CANCELS = 4000 };
  push(scene, 1);
  wait_for(scene, is_running);
  redis_store_hold(scene->store, "out");
  fill_outbox(scene);
  for (int i = 0; i < CANCELS; i++)
    push_cancel(scene, STEPS_MAX - 1);
  loop_settle(&scene->loop);
  assert_in_range(count_in(scene, "inflight"), CANCELS / 4, CANCELS - 1);
  redis_store_hold(scene->store, NULL);
  run_all(scene);
}

/* Ends all that runs afterwards. */
static void restore(struct scene *self, const struct redis_store_snapshot *snapshot) {
  wait_until_it_runs(self);
  redis_store_restore(self->store, snapshot);
  loop_await(&self->loop, &self->forgotten, 1);
  wait_for(self, is_all_taken);
  run_all(self);
}

/* What is in memory is put back, what was dropped is found in the restored lists. */
SCENE_TEST(a_restored_redis_hands_out_the_dropped_again) {
  push(scene, 200);
  struct redis_store_snapshot *snapshot = redis_store_snapshot(scene->store);
  restore(scene, snapshot);
  redis_store_snapshot_free(snapshot);
  each_ran_once(scene, 200, "");
}

/* The others are lost with it, like those that it had not handed out. */
SCENE_TEST(an_emptied_redis_gets_back_what_is_in_memory) {
  push(scene, 200);
  restore(scene, NULL);
  for (int i = 0; i < 200; i++)
    assert_int_equal(results_of(scene, i, ""), i <= WINDOW_STEPS);
}

static void lose_newest(struct scene *scene, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char command[256];
    snprintf(command, sizeof command, "LREM " KEY "inflight 1 %s",
             redis_store_element(scene->store, KEY "inflight", 0));
    redis_store_do(scene->store, 4, command);
  }
}

/* A part of the list is gone, and nothing else tells of it: the rest goes on. */
SCENE_TEST(dropped_steps_that_are_gone_are_given_up) {
  enum { STEPS = 200, LOST = 100 };
  push(scene, STEPS);
  wait_until_it_runs(scene);
  lose_newest(scene, LOST);
  push_cancel(scene, STEPS - 1);
  take_all(scene);
  assert_int_equal(count_in(scene, "results"), 0);
  assert_int_equal(count_in(scene, "inflight"), STEPS - LOST); /* without the cancel */
  push(scene, 10);
  run_all(scene);
  for (int i = 0; i < STEPS + 10; i++)
    assert_int_equal(scene->fates[i].begun, i < STEPS - LOST || i >= STEPS);
}

/* To the same snapshot: what it hands out has run, each time. */
SCENE_TEST(a_second_loss_runs_nothing_again) {
  enum { STEPS = 5 };
  push(scene, STEPS);
  struct redis_store_snapshot *snapshot = redis_store_snapshot(scene->store);
  wait_for(scene, is_running);
  run_all(scene);
  for (int times = 0; times < 2; times++) {
    scene->forgotten = 0;
    redis_store_restore(scene->store, snapshot);
    loop_await(&scene->loop, &scene->forgotten, 1);
    wait_for(scene, is_over);
    each_ran_once(scene, STEPS, window_lost_result);
  }
  redis_store_snapshot_free(snapshot);
}

/* The running step is answered when a page of the list is asked for, and leaves the list before the
   next one. */
static void leave_between_pages(struct scene *self) {
  redis_store_hold(self->store, NULL);
  run_all(self);
  assert_null(strstr(redis_store_executed(self->store), "RPUSH")); /* nothing was missing */
  assert_int_equal(loop_logged(&self->loop, "redis has lost"), 0);
}

SCENE_TEST(a_step_that_leaves_while_all_is_read_shifts_the_place) {
  enum { STEPS = 20 };
  push(scene, STEPS);
  wait_until_it_runs(scene);
  redis_store_hold(scene->store, "out");
  redis_store_lose(scene->store, "in", false);
  LOOP_UNTIL(&scene->loop, redis_store_connections(scene->store, "in") == 1);
  loop_settle(&scene->loop);
  finish(scene, NULL);
  leave_between_pages(scene);
  each_ran_once(scene, STEPS, "");
}

SCENE_TEST(a_step_that_leaves_while_the_rest_is_read_shifts_the_place) {
  enum { STEPS = 200, CANCELLED = 150 };
  push(scene, STEPS);
  wait_until_it_runs(scene);
  redis_store_hold(scene->store, "out");
  push_cancel(scene, CANCELLED);
  take_all(scene);
  finish(scene, NULL);
  leave_between_pages(scene);
  for (int i = 0; i < STEPS; i++)
    assert_int_equal(scene->fates[i].begun, i != CANCELLED);
  assert_int_equal(results_of(scene, CANCELLED, "cancelled"), 1);
}

/* A generator of its own, so that a seed means the same everywhere. */
static unsigned random_below(unsigned *seed, unsigned limit) {
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 8) % limit;
}

/* In how many of a hundred cases this happens; else steps end. */
struct odds {
  unsigned push, cancel, lose_in, lose_out, restart, snapshot, go_back;
  unsigned pushes_max;
};

struct story {
  struct scene *scene;
  const struct odds *odds;
  struct redis_store_snapshot *snapshot; /* or NULL */
  int sure_from; /* steps from this number on were pushed after the last loss of data */
  unsigned seed;
};

static void forget_snapshot(struct story *self) {
  redis_store_snapshot_free(self->snapshot);
  self->snapshot = NULL;
}

/* Whether it is this one of several that exclude each other. */
static bool is_it(unsigned *number, unsigned odds) {
  bool is = *number < odds;
  *number -= odds;
  return is;
}

static void end_some(struct story *self) {
  for (unsigned i = random_below(&self->seed, 30); i > 0 && is_running(self->scene); i--) {
    finish(self->scene, NULL);
    loop_settle(&self->scene->loop);
  }
}

static void happen(struct story *self) {
  struct scene *scene = self->scene;
  const struct odds *odds = self->odds;
  unsigned what = random_below(&self->seed, 100);
  if (is_it(&what, odds->push)) {
    push(scene, 1 + (int)random_below(&self->seed, odds->pushes_max));
  } else if (is_it(&what, odds->cancel)) {
    if (scene->pushed > 0)
      push_cancel(scene, (int)random_below(&self->seed, (unsigned)scene->pushed));
  } else if (is_it(&what, odds->lose_in)) {
    redis_store_lose(scene->store, "in", random_below(&self->seed, 2) == 0);
  } else if (is_it(&what, odds->lose_out)) {
    redis_store_lose(scene->store, "out", false);
  } else if (is_it(&what, odds->restart)) {
    forget_snapshot(self); /* an agent does not know what the one before it ran */
    stop(scene);
    start(scene);
  } else if (is_it(&what, odds->snapshot)) {
    forget_snapshot(self);
    self->snapshot = redis_store_snapshot(scene->store);
  } else if (is_it(&what, odds->go_back)) {
    if (self->snapshot == NULL)
      return;
    redis_store_restore(scene->store, self->snapshot);
    self->sure_from = scene->pushed;
  } else {
    end_some(self);
  }
}

static void check(struct story *self, unsigned seed) {
  struct scene *scene = self->scene;
  for (int i = 0; i < scene->pushed; i++) {
    int results = results_of(scene, i, "");
    int cancelled = results_of(scene, i, "cancelled");
    if (scene->fates[i].begun > 1)
      fail_msg("seed %u: step %d began %d times", seed, i, scene->fates[i].begun);
    if (i >= self->sure_from && results != 1)
      fail_msg("seed %u: step %d has %d results", seed, i, results);
    if (cancelled > 0 && scene->fates[i].begun > 0 && self->sure_from == 0)
      fail_msg("seed %u: step %d ran, and was answered as cancelled", seed, i);
  }
}

/* Random pushes, cancels, ends, lost connections, restarts of the agent and losses of data: each
   step begins at most once and in order; each is answered once, unless Redis lost it. */
static void tell(struct scene *scene, unsigned seed, const struct odds *odds) {
  struct story story = {.scene = scene, .odds = odds, .seed = seed};
  for (int i = 0; i < 60; i++) {
    happen(&story);
    unsigned wait = random_below(&story.seed, 4);
    if (wait == 0)
      LOOP_UNTIL(&scene->loop, redis_store_connections(scene->store, "in") == 1 &&
                                   redis_store_connections(scene->store, "out") == 1);
    if (wait < 3)
      loop_settle(&scene->loop);
    else
      event_base_loop(scene->loop.base, EVLOOP_NONBLOCK);
  }
  scene->automatic = true;
  if (is_running(scene))
    finish(scene, NULL);
  if (!loop_until(&scene->loop, is_over, scene))
    fail_msg("seed %u: %zu in `in`, %zu in `inflight`, %s, %s", seed, count_in(scene, "in"),
             count_in(scene, "inflight"), scene->step != NULL ? scene->step_id : "-",
             redis_store_is_waiting(scene->store) ? "waits" : "does not wait");
  if (!scene->in_order && story.sure_from == 0)
    fail_msg("seed %u: not in order", seed);
  check(&story, seed);
  forget_snapshot(&story);
}

static void tell_stories(const struct odds *odds, unsigned seeds) {
  for (unsigned seed = 1; seed <= seeds; seed++) {
    void *scene;
    set_up(&scene);
    tell(scene, seed, odds);
    tear_down(&scene);
  }
}

TEST(every_step_begins_once_in_order_and_is_answered) {
  static const struct odds odds = {
      .push = 30, .cancel = 20, .lose_in = 4, .lose_out = 3, .restart = 2, .pushes_max = 40};
  tell_stories(&odds, 6);
}

TEST(no_step_begins_twice_when_redis_loses_data) {
  static const struct odds odds = {.push = 30,
                                   .cancel = 20,
                                   .lose_in = 4,
                                   .lose_out = 3,
                                   .restart = 1,
                                   .snapshot = 2,
                                   .go_back = 3,
                                   .pushes_max = 40};
  tell_stories(&odds, 6);
}
