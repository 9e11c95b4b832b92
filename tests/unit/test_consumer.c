#include "agent/frontends/redis/intake/consumer.h"
#include "tests/support/fake_redis.h"
#include "tests/support/recorder.h"
#include "tests/test.h"

#define ASK "BLMOVE sandbox:j:in sandbox:j:inflight RIGHT LEFT 10"
#define OLD_ASK "BRPOPLPUSH sandbox:j:in sandbox:j:inflight 10"

struct scene {
  struct loop loop;
  struct fake_redis *server;
  struct redis_url url;
  struct keys keys;
  struct consumer *consumer;
  const char *answer; /* the reply to the next request; NULL: there is no reply */
  bool old;           /* older than Redis 6.2 */
  bool take_again;    /* the next callback calls consumer_take */
  struct recorder recorder;
  size_t length; /* of the last step */
  char error[256];
};

static const char *answer(void *owner, const char *command) {
  struct scene *scene = owner;
  if (strcmp(command, ASK) == 0 && scene->old)
    return "-ERR unknown command 'BLMOVE', with args beginning with: 'sandbox:j:in' \r\n";
  if (strncmp(command, "LRANGE", 6) == 0)
    return NULL; /* the reply to LLEN includes this reply */
  if (strcmp(command, scene->old ? OLD_ASK : ASK) != 0 && strncmp(command, "LLEN", 4) != 0)
    return "+OK\r\n";
  const char *text = scene->answer;
  scene->answer = NULL;
  recorder_add(&scene->recorder, "asked");
  return text;
}

static void came(struct scene *scene, const char *word) {
  recorder_add(&scene->recorder, word);
  if (scene->take_again)
    consumer_take(scene->consumer);
  scene->take_again = false;
}

static void on_step(void *owner, const struct payload *payload) {
  struct scene *scene = owner;
  char word[64];
  scene->length = payload->length;
  snprintf(word, sizeof word, "%s:%.*s", payload->is_truncated ? "cut" : "step",
           payload->length < 16 ? (int)payload->length : 16, payload->bytes);
  came(scene, word);
}

static void on_nothing(void *owner) {
  came(owner, "nothing");
}

static void on_page(void *owner, size_t length, const struct reply *steps) {
  char word[64];
  int end = snprintf(word, sizeof word, "page:%zu", length);
  for (size_t i = steps->elements; i-- > 0;)
    end += snprintf(word + end, sizeof word - (size_t)end, ":%s", steps->element[i]->str);
  came(owner, word);
}

static void on_denied(void *owner) {
  came(owner, "denied");
}

static void on_reconnected(void *owner) {
  came(owner, "reconnected");
}

static void on_failed(void *owner, const struct error *error) {
  struct scene *scene = owner;
  recorder_add(&scene->recorder, "failed");
  strcpy(scene->error, error->text);
}

static int set_up(void **state) {
  static const struct consumer_handler handler = {.step = on_step,
                                                  .nothing = on_nothing,
                                                  .page = on_page,
                                                  .denied = on_denied,
                                                  .reconnected = on_reconnected,
                                                  .failed = on_failed};
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  scene->server = fake_redis_new(scene->loop.base, false);
  fake_redis_answer_with(scene->server, answer, scene);
  scene->url = fake_redis_url(scene->server);
  keys_init(&scene->keys, "j");
  scene->consumer =
      consumer_new(scene->loop.base, &scene->loop.log, &scene->url, &scene->keys, &handler, scene);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  consumer_free(scene->consumer);
  keys_release(&scene->keys);
  fake_redis_free(scene->server);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

/* Asserts that these were the requests and callbacks since the last call. */
static void expect(struct scene *scene, const char *expected) {
  recorder_expect(&scene->loop, &scene->recorder, expected);
  recorder_reset(&scene->recorder);
}

static void take(struct scene *scene, const char *expected) {
  consumer_take(scene->consumer);
  expect(scene, expected);
}

static void take_answered(struct scene *scene, const char *text, const char *expected) {
  scene->answer = text;
  take(scene, expected);
}

SCENE_TEST(nothing_is_sent_before_the_first_take) {
  loop_settle(&scene->loop);
  assert_int_equal(fake_redis_connections(scene->server), 0);
  take(scene, "asked");
  assert_string_equal(fake_redis_command(scene->server, 0), "CLIENT SETNAME sandbox:j:in");
  assert_string_equal(fake_redis_command(scene->server, 1), ASK);
}

static void prepare(struct scene *scene) {
  consumer_prepare(scene->consumer);
  LOOP_UNTIL(&scene->loop, fake_redis_commands(scene->server) > 0);
  loop_settle(&scene->loop);
  assert_int_equal(fake_redis_commands(scene->server), 1);
  assert_string_equal(fake_redis_command(scene->server, 0), "CLIENT SETNAME sandbox:j:in");
}

SCENE_TEST(a_prepared_connection_takes_no_step_before_the_first_take) {
  prepare(scene);
  take(scene, "asked");
  fake_redis_send(scene->server, "$5\r\nfirst\r\n");
  expect(scene, "step:first");
  consumer_prepare(scene->consumer); /* does nothing now */
  loop_settle(&scene->loop);
  assert_int_equal(fake_redis_connections(scene->server), 1);
}

/* No request was sent on it. */
SCENE_TEST(the_loss_of_a_prepared_connection_is_not_reported) {
  prepare(scene);
  fake_redis_close_connection(scene->server);
  loop_settle(&scene->loop);
  take(scene, "asked");
  assert_int_equal(fake_redis_connections(scene->server), 2);
}

SCENE_TEST(each_take_returns_one_step) {
  consumer_take(scene->consumer);
  expect(scene, "asked");
  fake_redis_send(scene->server, "$5\r\nfirst\r\n");
  expect(scene, "step:first");
  scene->take_again = true;
  take_answered(scene, "$6\r\nsecond\r\n", "asked step:second asked");
  fake_redis_send(scene->server, "$0\r\n\r\n");
  expect(scene, "step:");
  assert_int_equal(fake_redis_connections(scene->server), 1);
}

SCENE_TEST(a_timeout_is_reported) {
  take_answered(scene, "$-1\r\n", "asked nothing"); /* Redis sends either reply */
  take_answered(scene, "*-1\r\n", "asked nothing");
  scene->take_again = true;
  take_answered(scene, "$-1\r\n", "asked nothing asked");
  assert_int_equal(fake_redis_connections(scene->server), 1);
}

/* Otherwise requests would be sent as fast as the server replies. */
SCENE_TEST(a_server_that_does_not_wait_gets_requests_with_pauses) {
  for (int i = 0; i < 3; i++)
    take_answered(scene, "$-1\r\n", "asked nothing");
  for (int i = 0; i < 2; i++)
    take_answered(scene, "$-1\r\n", "asked reconnected");
  assert_int_equal(fake_redis_connections(scene->server), 3);
  take_answered(scene, "$5\r\nfirst\r\n", "asked step:first");
  take_answered(scene, "$-1\r\n", "asked nothing");
}

SCENE_TEST(a_reply_of_another_type_drops_the_connection) {
  static const char *const answers[] = {"+OK\r\n", ":1\r\n", "*1\r\n$4\r\nstep\r\n"};
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    take_answered(scene, answers[i], "asked reconnected");
    assert_int_equal(fake_redis_connections(scene->server), i + 2);
  }
}

/* BLMOVE may have moved a step that did not arrive. No request is sent until the owner has compared
   the lists. */
SCENE_TEST(the_loss_of_a_connection_is_reported) {
  take(scene, "asked");
  fake_redis_send(scene->server, "$5\r\nfir"); /* half of a step */
  loop_settle(&scene->loop);
  fake_redis_close_connection(scene->server);
  expect(scene, "reconnected");
  take(scene, "asked");
  fake_redis_send(scene->server, "$5\r\nother\r\n");
  expect(scene, "step:other");
  scene->take_again = true; /* a take inside the callback works, too */
  take(scene, "asked");
  fake_redis_close_connection(scene->server);
  expect(scene, "reconnected asked");
}

/* --- pages of `in` --- */

static void search_answered(struct scene *scene, const char *text, const char *expected) {
  scene->answer = text;
  consumer_search(scene->consumer, 3, 2);
  expect(scene, expected);
}

SCENE_TEST(a_page_is_read_after_the_oldest_steps) {
  search_answered(scene, ":7\r\n*2\r\n$3\r\nnew\r\n$3\r\nold\r\n", "asked page:7:old:new");
  assert_string_equal(fake_redis_command(scene->server, 1), "LLEN sandbox:j:in");
  assert_string_equal(fake_redis_command(scene->server, 2), "LRANGE sandbox:j:in -5 -4");
  search_answered(scene, ":0\r\n*0\r\n", "asked page:0");
}

SCENE_TEST(a_page_of_another_type_drops_the_connection) {
  static const char *const answers[] = {"+OK\r\n+OK\r\n", ":1\r\n$3\r\nnew\r\n",
                                        ":1\r\n*1\r\n:5\r\n"};
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
    search_answered(scene, answers[i], "asked reconnected");
}

SCENE_TEST(before_redis_6_2_brpoplpush_is_used) {
  scene->old = true;
  take_answered(scene, "$5\r\nfirst\r\n", "asked step:first");
  take_answered(scene, "$6\r\nsecond\r\n", "asked step:second");
  assert_int_equal(fake_redis_commands(scene->server), 4); /* BLMOVE was sent once */
  assert_int_equal(fake_redis_connections(scene->server), 1);
  take_answered(scene, "-ERR unknown command 'BRPOPLPUSH'\r\n", "asked failed");
  assert_non_null(strstr(scene->error, "BRPOPLPUSH sandbox:j:in: ERR unknown command"));
}

SCENE_TEST(an_unexpected_reply_is_not_a_step) {
  take_answered(scene, "$5\r\nfirst\r\n$6\r\nsecond\r\n", "asked step:first");
  assert_false(fake_redis_is_connected(scene->server));
}

/* Redis may have lost data, so the loss of an idle connection is reported, too. */
SCENE_TEST(a_new_connection_sends_nothing_before_the_next_take) {
  take_answered(scene, "$5\r\nfirst\r\n", "asked step:first");
  fake_redis_close_connection(scene->server);
  LOOP_UNTIL(&scene->loop, fake_redis_commands(scene->server) == 3);
  expect(scene, "reconnected");
  take(scene, "asked");
}

/* Nothing was executed, but a Redis that changes its role may have lost data, too. */
SCENE_TEST(a_transient_error_is_reported_as_a_lost_connection) {
  static const char *const errors[] = {
      "-UNBLOCKED force unblock from blocking operation\r\n",
      "-LOADING Redis is loading the dataset in memory\r\n",
      "-READONLY You can't write against a read only replica.\r\n"};
  take(scene, "asked");
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    fake_redis_send(scene->server, errors[i]);
    expect(scene, "reconnected");
    take(scene, "asked");
  }
  assert_int_equal(fake_redis_connections(scene->server), 4);
}

SCENE_TEST(after_a_stop_there_are_no_callbacks) {
  take(scene, "asked");
  fake_redis_send(scene->server, "$5\r\nfirst\r\n");
  consumer_stop(scene->consumer);
  expect(scene, "");
  assert_false(fake_redis_is_connected(scene->server));
  assert_int_equal(fake_redis_connections(scene->server), 1);
}
