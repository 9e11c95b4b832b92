/* The order of the end. Whom it speaks to is played here: these functions stand before the
   program's own. */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/departure.h"
#include "agent/engine/idle.h"
#include "agent/last_words.h"
#include "tests/support/loop.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

/* More than a timer may be late by: a test looks now and then only. */
enum { LATE_MS = 50 };

struct scene {
  struct loop loop;
  struct log log;
  struct options options;
  struct job job;
  struct departure departure;
  bool is_running;
  bool is_ready;
  bool is_empty;
  bool is_gone;
  bool is_ending;
  int64_t began_ms;
  char did[512]; /* what was done, a space between each */
  void (*gone)(void *owner, size_t survivors);
};

static struct scene scene;

static void did(const char *what, long long number) {
  size_t length = strlen(scene.did);
  (void)snprintf(scene.did + length, sizeof scene.did - length, "%s%s", length > 0 ? " " : "",
                 what);
  length = strlen(scene.did);
  if (number > 0)
    (void)snprintf(scene.did + length, sizeof scene.did - length, ":%lld", number);
}

bool worker_is_running(const struct worker *self) {
  (void)self;
  return scene.is_running;
}

void worker_stop(struct worker *self, int64_t grace_ms, const char *reason) {
  (void)self;
  assert_memory_equal(reason, "cancelled: the agent was stopped by ", 36);
  did("stop", grace_ms);
}

bool outbox_is_ready(const struct outbox *self) {
  (void)self;
  return scene.is_ready;
}

bool outbox_is_empty(const struct outbox *self) {
  (void)self;
  return scene.is_empty;
}

bool outbox_is_gone(const struct outbox *self) {
  (void)self;
  return scene.is_gone;
}

bool presence_is_ending(const struct presence *self) {
  (void)self;
  return scene.is_ending;
}

void presence_end(struct presence *self) {
  (void)self;
  scene.is_ending = true;
  did("farewell", 0);
}

void presence_delivered(struct presence *self) {
  (void)self;
  did("said", 0);
}

void last_words(const struct log *log, const struct outbox *outbox) {
  (void)log;
  (void)outbox;
  did("last-words", 0);
}

void kill_sequence_init(struct kill_sequence *self, struct event_base *base,
                        const struct process_tree *tree,
                        void (*gone)(void *owner, size_t survivors), void *owner) {
  (void)self;
  (void)base;
  assert_ptr_equal(tree, &scene.departure.everything);
  assert_ptr_equal(owner, &scene.departure);
  scene.gone = gone;
}

void kill_sequence_release(struct kill_sequence *self) {
  (void)self;
}

void kill_sequence_start(struct kill_sequence *self, int64_t grace_ms) {
  (void)self;
  did("end", grace_ms);
}

void kill_sequence_orphan_reaped(struct kill_sequence *self) {
  (void)self;
  did("orphan", 0);
}

size_t process_tree_signal(const struct process_tree *self, int signal) {
  assert_ptr_equal(self, &scene.departure.everything);
  did("signal", signal);
  return 0;
}

/* In the middle of its work: connected, with nothing to deliver. */
static int set_up(void **state) {
  (void)state;
  scene = (struct scene){.is_ready = true, .is_empty = true};
  loop_init(&scene.loop);
  scene.log = (struct log){.least = LOG_INFO, .fd = memfd_create("log", MFD_CLOEXEC)};
  scene.options.idle_cycles = 2;
  scene.began_ms = virtual_time_ms;
  scene.job = (struct job){.base = scene.loop.base, .log = &scene.log, .options = &scene.options};
  departure_init(&scene.departure, &scene.job, NULL, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  departure_release(&scene.departure);
  close(scene.log.fd);
  loop_release(&scene.loop);
  return 0;
}

static bool is_over(void *context) {
  (void)context;
  return scene.departure.state == DEPARTURE_OVER;
}

static void expect_over_after(int64_t milliseconds) {
  assert_true(loop_until(&scene.loop, is_over, NULL));
  assert_in_range(virtual_time_ms - scene.began_ms, milliseconds, milliseconds + LATE_MS);
}

static void expect_over(const char *expected, int exit_code) {
  assert_true(is_over(NULL));
  assert_true(event_base_got_break(scene.loop.base));
  assert_string_equal(scene.did, expected);
  assert_int_equal(departure_exit_code(&scene.departure), exit_code);
}

static void expect_not_over(const char *expected) {
  assert_false(is_over(NULL));
  assert_string_equal(scene.did, expected);
}

static void begin(int exit_code) {
  assert_false(departure_has_begun(&scene.departure));
  departure_begin(&scene.departure, exit_code, "a test");
  assert_true(departure_has_begun(&scene.departure));
}

static void tree_is_gone(void) {
  scene.gone(&scene.departure, 0);
}

/* The process tree, what is held, the heartbeat: each waits for the one before. */
TEST(without_a_step_the_tree_is_ended_first, set_up, tear_down) {
  scene.is_empty = false;
  begin(AGENT_EXIT_IDLE);
  departure_go_on(&scene.departure); /* not before the tree is gone */
  expect_not_over("stop:5000 end:5000");
  tree_is_gone();
  expect_not_over("stop:5000 end:5000");
  scene.is_empty = true;
  departure_go_on(&scene.departure);
  departure_go_on(&scene.departure);
  expect_not_over("stop:5000 end:5000 farewell said");
  departure_end(&scene.departure);
  expect_over("stop:5000 end:5000 farewell said", AGENT_EXIT_IDLE);
}

TEST(a_running_step_is_answered_first, set_up, tear_down) {
  scene.is_running = true;
  begin(AGENT_EXIT_SHUTDOWN);
  departure_reaped(&scene.departure);
  expect_not_over("stop:5000 orphan");
  scene.is_running = false;
  departure_answered(&scene.departure);
  expect_not_over("stop:5000 orphan end:1000");
  tree_is_gone();
  expect_not_over("stop:5000 orphan end:1000 farewell");
}

TEST(a_tree_that_is_gone_waits_for_the_answer, set_up, tear_down) {
  begin(AGENT_EXIT_SHUTDOWN);
  scene.is_running = true;
  tree_is_gone();
  departure_go_on(&scene.departure);
  expect_not_over("stop:5000 end:5000");
}

TEST(who_survives_is_told_and_not_waited_for, set_up, tear_down) {
  char text[256] = "";
  begin(AGENT_EXIT_IDLE);
  scene.gone(&scene.departure, 2);
  expect_not_over("stop:5000 end:5000 farewell");
  assert_true(pread(scene.log.fd, text, sizeof text - 1, 0) > 0);
  assert_non_null(strstr(text, "stopping: a test"));
  assert_non_null(strstr(text, "2 processes survive SIGKILL"));
}

TEST(before_the_job_is_claimed_nothing_is_delivered, set_up, tear_down) {
  scene.is_ready = false;
  begin(AGENT_EXIT_ERROR);
  tree_is_gone();
  expect_over("stop:5000 end:5000", AGENT_EXIT_ERROR);
}

TEST(without_redis_only_a_shutdown_waits, set_up, tear_down) {
  scene.is_gone = true;
  scene.is_empty = false;
  begin(AGENT_EXIT_SHUTDOWN);
  tree_is_gone();
  departure_go_on(&scene.departure);
  expect_not_over("stop:5000 end:5000");
  departure_order(&scene.departure, SIGTERM);
  expect_over("stop:5000 end:5000 last-words", AGENT_EXIT_SIGNAL + SIGTERM);
}

TEST(what_is_delivered_is_no_reason_to_wait, set_up, tear_down) {
  scene.is_gone = true;
  begin(AGENT_EXIT_SHUTDOWN);
  tree_is_gone();
  expect_over("stop:5000 end:5000", AGENT_EXIT_SHUTDOWN);
}

TEST(nor_does_the_heartbeats_end_wait, set_up, tear_down) {
  begin(AGENT_EXIT_SHUTDOWN);
  tree_is_gone();
  scene.is_gone = true;
  scene.is_empty = false; /* of it */
  departure_go_on(&scene.departure);
  expect_over("stop:5000 end:5000 farewell", AGENT_EXIT_SHUTDOWN);
}

TEST(patience_ends, set_up, tear_down) {
  scene.is_gone = true;
  scene.is_empty = false;
  begin(AGENT_EXIT_SHUTDOWN);
  tree_is_gone();
  expect_over_after(2 * IDLE_CYCLE_SECONDS * 1000);
  expect_over("stop:5000 end:5000 last-words", AGENT_EXIT_ERROR);
}

TEST(at_the_heartbeats_end_that_is_no_error, set_up, tear_down) {
  begin(AGENT_EXIT_SHUTDOWN);
  tree_is_gone();
  expect_over_after(2 * IDLE_CYCLE_SECONDS * 1000);
  expect_over("stop:5000 end:5000 farewell", AGENT_EXIT_SHUTDOWN);
}

TEST(a_signal_has_a_deadline, set_up, tear_down) {
  scene.is_running = true;
  departure_order(&scene.departure, SIGINT);
  expect_not_over("stop:5000");
  expect_over_after(DEPARTURE_DEADLINE_MS);
  expect_over("stop:5000 signal:9", AGENT_EXIT_SIGNAL + SIGINT);
}

TEST(a_second_signal_waits_for_nothing, set_up, tear_down) {
  scene.is_running = true;
  departure_order(&scene.departure, SIGTERM);
  departure_order(&scene.departure, SIGINT);
  expect_over("stop:5000 signal:9", AGENT_EXIT_SIGNAL + SIGTERM);
}

TEST(a_signal_outranks_the_reason_before_it, set_up, tear_down) {
  begin(AGENT_EXIT_SHUTDOWN);
  departure_order(&scene.departure, SIGTERM);
  expect_not_over("stop:5000 end:5000");
  assert_int_equal(departure_exit_code(&scene.departure), AGENT_EXIT_SIGNAL + SIGTERM);
}

TEST(a_shutdown_that_cannot_deliver_is_an_error, set_up, tear_down) {
  departure_undeliverable(&scene.departure); /* nothing has begun */
  begin(AGENT_EXIT_SHUTDOWN);
  assert_int_equal(departure_exit_code(&scene.departure), AGENT_EXIT_SHUTDOWN);
  departure_undeliverable(&scene.departure);
  assert_int_equal(departure_exit_code(&scene.departure), AGENT_EXIT_ERROR);
}

TEST(but_the_heartbeats_key_is_not_worth_one, set_up, tear_down) {
  begin(AGENT_EXIT_SHUTDOWN);
  scene.is_ending = true;
  departure_undeliverable(&scene.departure);
  assert_int_equal(departure_exit_code(&scene.departure), AGENT_EXIT_SHUTDOWN);
}
