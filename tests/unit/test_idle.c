#include <sys/mman.h>
#include <unistd.h>

#include "agent/engine/idle.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define LIMIT_MS (IDLE_CYCLE_SECONDS * 1000)

/* More than a timer may be late by: a test looks now and then only. */
enum { LATE_MS = 50 };

struct scene {
  struct loop loop;
  struct log log;
  struct fake_redis *server;
  struct options options;
  struct idle *idle;
  const char *answer; /* to SISMEMBER; NULL: none */
  int asked;
  bool stuck;
  int over;
  int64_t began_ms;
};

static const char *answer(void *owner, const char *command) {
  struct scene *scene = owner;
  if (strncmp(command, "SISMEMBER ", 10) != 0)
    return "+OK\r\n";
  scene->asked++;
  return scene->answer;
}

static bool is_stuck(void *owner) {
  return ((struct scene *)owner)->stuck;
}

static void on_over(void *owner) {
  ((struct scene *)owner)->over++;
}

static int set_up(void **state) {
  static const struct idle_handler handler = {.is_stuck = is_stuck, .over = on_over};
  struct scene *scene = calloc(1, sizeof *scene);
  assert_non_null(scene);
  loop_init(&scene->loop);
  scene->log = (struct log){.least = LOG_INFO, .fd = memfd_create("log", MFD_CLOEXEC)};
  scene->server = fake_redis_new(scene->loop.base, false);
  fake_redis_answer_with(scene->server, answer, scene);
  scene->options = (struct options){
      .redis = fake_redis_url(scene->server), .job_id = "j", .run_id = "run-7", .idle_cycles = 1};
  scene->answer = ":0\r\n";
  scene->idle = idle_new(scene->loop.base, &scene->log, &scene->options, &handler, scene);
  scene->began_ms = virtual_time_ms;
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  idle_free(scene->idle);
  fake_redis_free(scene->server);
  close(scene->log.fd);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

static void expect_over_after(struct scene *scene, int limits) {
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->over));
  int64_t ms = virtual_time_ms - scene->began_ms;
  assert_in_range(ms, limits * LIMIT_MS, limits * (LIMIT_MS + LATE_MS));
}

static bool is_past(void *context) {
  return virtual_time_ms >= *(const int64_t *)context;
}

static void let_pass(struct scene *scene, int64_t milliseconds) {
  int64_t end = virtual_time_ms + milliseconds;
  assert_true(loop_until(&scene->loop, is_past, &end));
}

TEST(without_a_run_the_limit_is_the_limit, set_up, tear_down) {
  struct scene *scene = *state;
  scene->options.run_id = NULL;
  idle_begin(scene->idle);
  expect_over_after(scene, 1);
  assert_int_equal(fake_redis_connections(scene->server), 0);
}

TEST(cycles_add_up, set_up, tear_down) {
  struct scene *scene = *state;
  scene->options.idle_cycles = 3;
  scene->options.run_id = NULL;
  assert_int_equal(idle_limit_ms(&scene->options), 180000);
  idle_begin(scene->idle);
  expect_over_after(scene, 3);
}

TEST(the_time_goes_on, set_up, tear_down) {
  struct scene *scene = *state;
  idle_begin(scene->idle);
  let_pass(scene, LIMIT_MS / 2);
  idle_begin(scene->idle);
  let_pass(scene, LIMIT_MS / 2 + LATE_MS);
  assert_int_equal(scene->over, 1);
}

TEST(a_step_ends_it, set_up, tear_down) {
  struct scene *scene = *state;
  idle_begin(scene->idle);
  let_pass(scene, LIMIT_MS / 2);
  idle_end(scene->idle);
  let_pass(scene, LIMIT_MS);
  assert_int_equal(scene->over + scene->asked, 0);
}

TEST(a_run_that_is_over_is_not_waited_for, set_up, tear_down) {
  struct scene *scene = *state;
  idle_begin(scene->idle);
  expect_over_after(scene, 1);
  assert_int_equal(scene->asked, 1);
}

TEST(one_that_is_alive_is_asked_for_again, set_up, tear_down) {
  struct scene *scene = *state;
  scene->answer = ":1\r\n";
  idle_begin(scene->idle);
  let_pass(scene, 2 * LIMIT_MS + LIMIT_MS / 2);
  assert_int_equal(scene->asked, 2);
  assert_int_equal(scene->over, 0);
  scene->answer = ":0\r\n";
  expect_over_after(scene, 3);
}

/* What waits for Redis does not come to an end by the run's being alive. */
TEST(who_is_stuck_asks_nobody, set_up, tear_down) {
  struct scene *scene = *state;
  scene->stuck = true;
  scene->answer = ":1\r\n";
  idle_begin(scene->idle);
  expect_over_after(scene, 1);
  assert_int_equal(scene->asked, 0);
}

static int lines_in_log(const struct scene *scene, size_t *longest) {
  char log[16384] = "";
  ssize_t length = pread(scene->log.fd, log, sizeof log - 1, 0);
  assert_in_range(length, 1, sizeof log - 2);
  int lines = 0;
  *longest = 0;
  for (char *at = log, *end; (end = strchr(at, '\n')) != NULL; at = end + 1, lines++)
    if ((size_t)(end - at) > *longest)
      *longest = (size_t)(end - at);
  return lines;
}

/* Of an id that nobody would want to read as of a Redis that is not there. */
TEST(whatever_the_answer_the_log_says_it_in_a_line, set_up, tear_down) {
  struct scene *scene = *state;
  static const char *const answers[] = {":0\r\n", "-ERR no\r\n", NULL};
  static char run[4000];
  memset(run, 'r', sizeof run - 1);
  scene->options.run_id = run;
  size_t longest;
  for (int i = 0; i < 3; i++) {
    scene->answer = answers[i];
    if (scene->answer == NULL)
      fake_redis_refuse(scene->server);
    scene->over = 0;
    idle_begin(scene->idle);
    assert_true(loop_until(&scene->loop, loop_is_counted, &scene->over));
    /* With the line that says that there was no step. */
    assert_int_equal(lines_in_log(scene, &longest), 2 * (i + 1));
    assert_in_range(longest, 200, 400);
  }
}

TEST(a_step_wins_over_an_open_question, set_up, tear_down) {
  struct scene *scene = *state;
  scene->answer = NULL;
  idle_begin(scene->idle);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->asked));
  idle_begin(scene->idle); /* there is one already */
  idle_end(scene->idle);
  let_pass(scene, LIMIT_MS);
  assert_int_equal(scene->over, 0);
  assert_int_equal(scene->asked, 1);
  assert_false(fake_redis_is_connected(scene->server));
}
