#include <fcntl.h>
#include <unistd.h>

#include "agent/doors/redis/in/consumer.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/test.h"
#include "wire/step.h"

#define ASK "BLMOVE sandbox:j:in sandbox:j:inflight RIGHT LEFT 10"
#define OLD_ASK "BRPOPLPUSH sandbox:j:in sandbox:j:inflight 10"

struct scene {
  struct loop loop;
  struct log log;
  struct fake_redis *server;
  struct redis_url url;
  struct keys keys;
  struct consumer *consumer;
  const char *answer; /* to the next question; then there is none until it is set again */
  int asked;          /* questions */
  bool old;           /* older than Redis 6.2 */
  int steps;
  int nothing;
  int needs_resync;
  int cut; /* steps that were truncated */
  int failed;
  bool take_again; /* from inside the next callback */
  char payload[64];
  size_t length;
  char error[256];
};

static const char *answer(void *owner, const char *command) {
  struct scene *scene = owner;
  if (strcmp(command, ASK) == 0 && scene->old)
    return "-ERR unknown command 'BLMOVE', with args beginning with: 'sandbox:j:in' \r\n";
  if (strcmp(command, scene->old ? OLD_ASK : ASK) != 0)
    return "+OK\r\n";
  const char *text = scene->answer;
  scene->answer = NULL;
  scene->asked++;
  return text;
}

static void take_again(struct scene *scene) {
  if (scene->take_again)
    consumer_take(scene->consumer);
  scene->take_again = false;
}

static void on_step(void *owner, const struct claimed *claimed) {
  struct scene *scene = owner;
  scene->steps++;
  scene->cut += claimed->truncated;
  scene->length = claimed->length;
  memcpy(scene->payload, claimed->payload,
         claimed->length < sizeof scene->payload ? claimed->length : sizeof scene->payload);
  take_again(scene);
}

static void on_nothing(void *owner) {
  struct scene *scene = owner;
  scene->nothing++;
  take_again(scene);
}

static void on_needs_resync(void *owner) {
  struct scene *scene = owner;
  scene->needs_resync++;
  take_again(scene);
}

static void on_failed(void *owner, const struct error *error) {
  struct scene *scene = owner;
  scene->failed++;
  strcpy(scene->error, error->text);
}

static int set_up(void **state) {
  static const struct consumer_handler handler = {
      .step = on_step, .nothing = on_nothing, .needs_resync = on_needs_resync, .failed = on_failed};
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  scene->log.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  scene->server = fake_redis_new(scene->loop.base, false);
  fake_redis_answer_with(scene->server, answer, scene);
  scene->url = fake_redis_url(scene->server);
  keys_init(&scene->keys, "j");
  scene->consumer = consumer_new(scene->loop.base, &scene->log, &scene->url, &scene->keys,
                                 "its-name", &handler, scene);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  consumer_free(scene->consumer);
  keys_release(&scene->keys);
  fake_redis_free(scene->server);
  close(scene->log.fd);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void asks(struct scene *scene) {
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->asked));
  loop_settle(&scene->loop);
  assert_int_equal(scene->asked, 1);
  scene->asked = 0;
}

static void gets(struct scene *scene, const char *payload) {
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->steps));
  loop_settle(&scene->loop);
  assert_int_equal(scene->steps, 1);
  assert_int_equal(scene->length, strlen(payload));
  assert_memory_equal(scene->payload, payload, scene->length);
  scene->steps = 0;
}

SCENE_TEST(nothing_is_asked_before_it_is_wanted) {
  loop_settle(&scene->loop);
  assert_int_equal(fake_redis_connections(scene->server), 0);
  consumer_take(scene->consumer);
  asks(scene);
  assert_string_equal(fake_redis_command(scene->server, 0), "CLIENT SETNAME its-name");
  assert_string_equal(fake_redis_command(scene->server, 1), ASK);
}

static bool is_logged_in(void *context) {
  const struct scene *scene = context;
  return fake_redis_commands(scene->server) > 0;
}

static void prepare(struct scene *scene) {
  consumer_prepare(scene->consumer);
  assert_true(loop_until(&scene->loop, is_logged_in, scene));
  loop_settle(&scene->loop);
  assert_int_equal(fake_redis_commands(scene->server), 1);
  assert_string_equal(fake_redis_command(scene->server, 0), "CLIENT SETNAME its-name");
}

SCENE_TEST(what_is_prepared_takes_nothing_before_it_is_wanted) {
  prepare(scene);
  consumer_take(scene->consumer);
  asks(scene);
  fake_redis_send(scene->server, "$5\r\nfirst\r\n");
  gets(scene, "first");
  consumer_prepare(scene->consumer); /* it has begun */
  loop_settle(&scene->loop);
  assert_int_equal(fake_redis_connections(scene->server), 1);
}

/* Nothing was asked on it. */
SCENE_TEST(what_was_prepared_and_lost_needs_no_resync) {
  prepare(scene);
  fake_redis_close_connection(scene->server);
  loop_settle(&scene->loop);
  consumer_take(scene->consumer);
  asks(scene);
  assert_int_equal(scene->needs_resync + scene->failed, 0);
  assert_int_equal(fake_redis_connections(scene->server), 2);
}

SCENE_TEST(one_step_for_each_take) {
  assert_false(consumer_is_waiting(scene->consumer));
  consumer_take(scene->consumer);
  assert_true(consumer_is_waiting(scene->consumer));
  asks(scene);
  fake_redis_send(scene->server, "$5\r\nfirst\r\n");
  gets(scene, "first");
  assert_false(consumer_is_waiting(scene->consumer));
  assert_int_equal(scene->asked, 0);
  scene->take_again = true;
  scene->answer = "$6\r\nsecond\r\n";
  consumer_take(scene->consumer);
  gets(scene, "second");
  assert_int_equal(scene->asked, 2); /* the third one was wanted from inside */
  fake_redis_send(scene->server, "$0\r\n\r\n");
  gets(scene, "");
  assert_int_equal(fake_redis_connections(scene->server), 1);
}

SCENE_TEST(a_payload_may_be_any_bytes_in_any_pieces) {
  consumer_take(scene->consumer);
  asks(scene);
  fake_redis_send_slowly(scene->server, "$9\r\n{\r\n\"\xff\x01\"}\n\r\n");
  gets(scene, "{\r\n\"\xff\x01\"}\n");
  assert_int_equal(scene->cut, 0);
}

SCENE_TEST(it_says_when_nothing_came_in_time) {
  static const char *const answers[] = {"$-1\r\n", "*-1\r\n"}; /* both were seen */
  for (size_t i = 0; i < 2; i++) {
    scene->answer = answers[i];
    consumer_take(scene->consumer);
    assert_true(loop_until(&scene->loop, loop_is_counted, &scene->nothing));
    loop_settle(&scene->loop);
    assert_int_equal(scene->asked, 1);
    assert_int_equal(scene->nothing, 1);
    scene->asked = scene->nothing = 0;
  }
  scene->take_again = true;
  scene->answer = "$-1\r\n";
  consumer_take(scene->consumer);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->nothing));
  loop_settle(&scene->loop);
  assert_int_equal(scene->asked, 2);
  assert_int_equal(scene->steps + scene->needs_resync, 0);
  assert_int_equal(fake_redis_connections(scene->server), 1);
}

/* What was taken before may be there once more, when Redis was put back. */
SCENE_TEST(a_connection_that_nobody_needed_is_missed_too) {
  scene->answer = "$5\r\nfirst\r\n";
  consumer_take(scene->consumer);
  gets(scene, "first");
  fake_redis_close_connection(scene->server);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->needs_resync));
  loop_settle(&scene->loop);
  assert_int_equal(scene->needs_resync, 1);
}

/* A step may have been moved without its having arrived: the owner has to read the list. */
SCENE_TEST(a_lost_connection_needs_a_resync) {
  consumer_take(scene->consumer);
  asks(scene);
  fake_redis_send(scene->server, "$5\r\nfir");
  loop_settle(&scene->loop);
  fake_redis_close_connection(scene->server);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->needs_resync));
  loop_settle(&scene->loop);
  assert_int_equal(scene->needs_resync, 1);
  assert_int_equal(scene->steps, 0); /* half a step is none */
  assert_false(consumer_is_waiting(scene->consumer));
  assert_int_equal(scene->asked, 0); /* nor is one asked for before the owner has read it */
  consumer_take(scene->consumer);
  loop_settle(&scene->loop);
  asks(scene);
  fake_redis_send(scene->server, "$5\r\nother\r\n");
  gets(scene, "other");
  scene->take_again = true; /* from inside is the same */
  consumer_take(scene->consumer);
  asks(scene);
  scene->needs_resync = 0;
  fake_redis_close_connection(scene->server);
  asks(scene);
  assert_int_equal(scene->needs_resync, 1);
}

SCENE_TEST(again_is_the_same) {
  consumer_take(scene->consumer);
  consumer_take(scene->consumer);
  asks(scene);
  consumer_take(scene->consumer);
  loop_settle(&scene->loop);
  assert_int_equal(scene->asked, 0);
}

SCENE_TEST(before_redis_6_2_it_asks_in_the_old_way) {
  scene->old = true;
  scene->answer = "$5\r\nfirst\r\n";
  consumer_take(scene->consumer);
  gets(scene, "first");
  scene->answer = "$6\r\nsecond\r\n";
  consumer_take(scene->consumer);
  gets(scene, "second");
  assert_int_equal(scene->asked, 2);
  assert_int_equal(fake_redis_commands(scene->server), 4); /* it asked in the new way once */
  assert_int_equal(fake_redis_connections(scene->server), 1);
  scene->answer = "-ERR unknown command 'BRPOPLPUSH'\r\n";
  consumer_take(scene->consumer);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->failed));
  assert_non_null(strstr(scene->error, "BRPOPLPUSH sandbox:j:in: ERR unknown command"));
}

SCENE_TEST(an_answer_nobody_asked_for_is_no_step) {
  scene->answer = "$5\r\nfirst\r\n$6\r\nsecond\r\n";
  consumer_take(scene->consumer);
  gets(scene, "first");
  assert_false(fake_redis_is_connected(scene->server));
  assert_int_equal(scene->steps, 0);
}

static bool is_connected_again(void *context) {
  const struct scene *scene = context;
  return fake_redis_commands(scene->server) == 3;
}

SCENE_TEST(a_new_connection_asks_only_what_is_wanted) {
  scene->answer = "$5\r\nfirst\r\n";
  consumer_take(scene->consumer);
  gets(scene, "first");
  fake_redis_close_connection(scene->server);
  assert_true(loop_until(&scene->loop, is_connected_again, scene));
  loop_settle(&scene->loop);
  assert_int_equal(scene->asked, 1);
  consumer_take(scene->consumer);
  loop_settle(&scene->loop);
  assert_int_equal(scene->asked, 2);
}

/* Nothing was done; but a Redis that changes its role may have gone back too. */
SCENE_TEST(what_passes_leaves_a_doubt) {
  static const char *const errors[] = {
      "-UNBLOCKED force unblock from blocking operation\r\n",
      "-LOADING Redis is loading the dataset in memory\r\n",
      "-READONLY You can't write against a read only replica.\r\n"};
  consumer_take(scene->consumer);
  asks(scene);
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    scene->needs_resync = 0;
    fake_redis_send(scene->server, errors[i]);
    assert_true(loop_until(&scene->loop, loop_is_counted, &scene->needs_resync));
    assert_int_equal(scene->asked, 0);
    consumer_take(scene->consumer);
    asks(scene);
  }
  assert_int_equal(fake_redis_connections(scene->server), 4);
  assert_int_equal(scene->failed, 0);
}

SCENE_TEST(a_lasting_error_is_reported) {
  scene->answer = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
  consumer_take(scene->consumer);
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->failed));
  loop_settle(&scene->loop);
  assert_int_equal(scene->failed, 1);
  assert_int_equal(scene->steps, 0);
  assert_int_equal(fake_redis_connections(scene->server), 1);
  assert_false(fake_redis_is_connected(scene->server));
  assert_non_null(strstr(scene->error, "BLMOVE sandbox:j:in: WRONGTYPE"));
}

SCENE_TEST(a_refused_login_is_reported) {
  char password[] = "secret";
  scene->url.password = password;
  fake_redis_answer_with(scene->server, NULL, NULL);
  consumer_take(scene->consumer);
  while (fake_redis_connections(scene->server) == 0)
    event_base_loop(scene->loop.base, EVLOOP_ONCE);
  fake_redis_send(scene->server, "-WRONGPASS invalid\r\n");
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->failed));
  assert_non_null(strstr(scene->error, "AUTH: WRONGPASS"));
}

SCENE_TEST(after_a_stop_nothing_comes) {
  consumer_take(scene->consumer);
  asks(scene);
  fake_redis_send(scene->server, "$5\r\nfirst\r\n");
  consumer_stop(scene->consumer);
  loop_settle(&scene->loop);
  assert_int_equal(scene->steps + scene->failed, 0);
  assert_false(fake_redis_is_connected(scene->server));
  assert_int_equal(fake_redis_connections(scene->server), 1);
}

SCENE_TEST(a_payload_that_is_too_large_is_thrown_away) {
  static char chunk[32769];
  char head[64];
  memset(chunk, 'x', sizeof chunk - 1);
  snprintf(head, sizeof head, "$%zu\r\nbegin", STEP_PAYLOAD_MAX + 5);
  consumer_take(scene->consumer);
  asks(scene);
  fake_redis_send(scene->server, head);
  for (size_t sent = 0; sent < STEP_PAYLOAD_MAX; sent += sizeof chunk - 1) {
    assert_int_equal(scene->steps, 0);
    fake_redis_send(scene->server, chunk);
    event_base_loop(scene->loop.base, EVLOOP_NONBLOCK);
  }
  fake_redis_send(scene->server, "\r\n");
  assert_true(loop_until(&scene->loop, loop_is_counted, &scene->steps));
  assert_int_equal(scene->cut, 1);
  assert_true(scene->length >= 5 && scene->length < 65536);
  assert_memory_equal(scene->payload, "begin", 5);
  scene->steps = 0;
  scene->answer = "$5\r\nafter\r\n";
  consumer_take(scene->consumer);
  gets(scene, "after");
}
