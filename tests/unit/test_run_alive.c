#include "agent/frontends/redis/heartbeat/run_alive.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

struct scene {
  struct loop loop;
  struct fake_redis *server;
  struct redis_url url;
  struct run_alive *guard;    /* NULL: it is done */
  const char *reply_to_query; /* NULL: none */
  int done;
  enum run_alive_answer output;
  char why[256];
};

static const char *output(void *owner, const char *command) {
  struct scene *scene = owner;
  if (strncmp(command, "SISMEMBER ", 10) != 0)
    return "+OK\r\n";
  assert_string_equal(command, "SISMEMBER runs:alive run-7");
  return scene->reply_to_query;
}

static void on_done(void *owner, enum run_alive_answer output, const char *why) {
  struct scene *scene = owner;
  scene->done++;
  scene->output = output;
  scene->guard = NULL;
  snprintf(scene->why, sizeof scene->why, "%s", why);
}

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  assert_non_null(scene);
  loop_init(&scene->loop);
  scene->server = fake_redis_new(scene->loop.base, true);
  fake_redis_answer_with(scene->server, output, scene);
  scene->url = fake_redis_url(scene->server);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  if (scene->guard != NULL)
    run_alive_cancel(scene->guard);
  fake_redis_free(scene->server);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void ask(struct scene *scene) {
  scene->guard = run_alive_ask(scene->loop.base, &scene->loop.log, &scene->url, "sandbox:j:guard",
                               "runs:alive", "run-7", on_done, scene);
  assert_int_equal(scene->done, 0);
}

static void expect(struct scene *scene, enum run_alive_answer expected, const char *why) {
  ask(scene);
  loop_await_once(&scene->loop, &scene->done);
  assert_int_equal(scene->output, expected);
  if (strstr(scene->why, why) == NULL || (why[0] == '\0' && scene->why[0] != '\0'))
    fail_msg("`%s`, not `%s`", scene->why, why);
}

/* A transient error also means unknown; the guard does not wait until it is over. */
SCENE_TEST(each_reply_means_yes_no_or_unknown) {
  static const struct {
    const char *reply;
    enum run_alive_answer answer;
    const char *why;
  } rows[] = {
      {":1\r\n", RUN_ALIVE_YES, ""},
      {":0\r\n", RUN_ALIVE_NO, ""},
      {"-WRONGTYPE Operation against a key\r\n", RUN_ALIVE_UNKNOWN, "WRONGTYPE"},
      {"-LOADING Redis is loading the dataset in memory\r\n", RUN_ALIVE_UNKNOWN, "LOADING"},
      {"+OK\r\n", RUN_ALIVE_UNKNOWN, "does not fit"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    scene->reply_to_query = rows[i].reply;
    expect(scene, rows[i].answer, rows[i].why);
    assert_string_equal(fake_redis_command(scene->server, 2 * i), "CLIENT SETNAME sandbox:j:guard");
    assert_int_equal(fake_redis_connections(scene->server), i + 1);
    assert_false(fake_redis_is_connected(scene->server));
  }
}

SCENE_TEST(a_silent_or_absent_redis_means_unknown_after_10_s) {
  for (int absent = 0; absent < 2; absent++) {
    if (absent)
      fake_redis_refuse(scene->server);
    int64_t start_ms = virtual_time_ms;
    expect(scene, RUN_ALIVE_UNKNOWN, "no answer within 10 s");
    assert_in_range(virtual_time_ms - start_ms, RUN_ALIVE_MS - 500, RUN_ALIVE_MS + 5000);
    assert_int_equal(lseek(scene->loop.log.fd, 0, SEEK_END), 0); /* the caller logs the reason */
  }
}

SCENE_TEST(a_lost_connection_is_restored) {
  ask(scene);
  LOOP_UNTIL(&scene->loop, fake_redis_commands(scene->server) > 1);
  scene->reply_to_query = ":1\r\n";
  fake_redis_close_connection(scene->server);
  loop_await(&scene->loop, &scene->done, 1);
  assert_int_equal(scene->output, RUN_ALIVE_YES);
}

SCENE_TEST(a_cancelled_guard_calls_nothing) {
  ask(scene);
  LOOP_UNTIL(&scene->loop, fake_redis_commands(scene->server) > 1);
  fake_redis_send(scene->server, ":1\r\n");
  run_alive_cancel(scene->guard);
  scene->guard = NULL;
  loop_settle(&scene->loop);
  assert_int_equal(scene->done, 0);
}
